"""Every mutation by name, in the order of the catalogue; then those beyond it."""

from gnomon.gates.mutations import arithmetic, decoding, files, moved, paths, plans
from gnomon.gates.mutations.mutation import Mutation

MUTATIONS: dict[str, Mutation] = {
    mutation.name: mutation
    for mutation in sorted(
        (m for module in (arithmetic, paths, moved, decoding, files, plans) for m in module.MUTATIONS),
        key=lambda m: m.name,
    )
}
# Rows of the catalogue that have no mutation here, and why.
ELSEWHERE = {
    "M40 timer_not_synced": "no gate reads a clock: bench/ measures and judges nothing, so there is no verdict to mislead",
}
