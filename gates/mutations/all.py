"""Every mutation by name, in the order of the catalogue; then those beyond it."""

import json
from pathlib import Path

from gnomon import gates
from gnomon.gates.mutations import arithmetic, decoding, files, fused, moved, paths, plans, reach
from gnomon.gates.mutations.mutation import Mutation

MUTATIONS: dict[str, Mutation] = {
    mutation.name: mutation
    for mutation in sorted(
        (m for module in (arithmetic, paths, moved, decoding, files, plans, reach, fused) for m in module.MUTATIONS),
        key=lambda m: m.name,
    )
}
# Rows of the catalogue that have no mutation here, and why.
ELSEWHERE = {
    "M40 timer_not_synced": "no gate reads a clock: bench/ measures and judges nothing, so no verdict is misled",
}


def pinned() -> str:
    """The text of gates/golden/matrix.json: the digest of what each row expects."""
    return json.dumps({"rows": {name: one.digest for name, one in MUTATIONS.items()}}, indent=1) + "\n"


if __name__ == "__main__":  # after a wanted change of an expectation
    (Path(gates.__file__).parent / "golden" / "matrix.json").write_text(pinned(), "ascii")
