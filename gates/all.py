"""Every gate, in the order in which they are run: what the others rely on comes first."""

from gnomon.gates import (
    batch,
    chunk,
    comparator,
    finite,
    golden,
    ids,
    incremental,
    isolation,
    kernels,
    liveness,
    loader,
    node,
    observer,
    repeat,
    repository,
    restore,
    roofline,
    sampler,
    settled,
    shadow,
    speculative,
    state_bytes,
    tokenizer,
    transcript,
)
from gnomon.gates.gate import Gate

GATES: dict[str, Gate] = {
    module.GATE.name: module.GATE
    for module in (
        comparator,
        repository,
        loader,
        tokenizer,
        sampler,
        kernels,
        finite,
        liveness,
        settled,
        golden,
        shadow,
        incremental,
        chunk,
        isolation,
        batch,
        speculative,
        repeat,
        observer,
        transcript,
        state_bytes,
        restore,
        node,
    )
}
# Run by name only: their answer may be no without anything being wrong, or needs a machine with nothing else to do.
EXPERIMENTS: dict[str, Gate] = {gate.name: gate for gate in (ids.GATE, roofline.GATE)}
