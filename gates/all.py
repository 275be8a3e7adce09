"""Every gate, in the order in which they are run: what the others rely on comes first."""

from gnomon.gates import (
    chunk,
    comparator,
    finite,
    golden,
    incremental,
    isolation,
    liveness,
    loader,
    repeat,
    repository,
    settled,
    shadow,
    tokenizer,
)
from gnomon.gates.gate import Gate

GATES: dict[str, Gate] = {
    module.GATE.name: module.GATE
    for module in (
        comparator,
        repository,
        loader,
        tokenizer,
        finite,
        liveness,
        settled,
        golden,
        shadow,
        incremental,
        chunk,
        isolation,
        repeat,
    )
}
