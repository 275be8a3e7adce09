"""Numbers of rows at which code takes another path, registered where it chooses.

A path that only long prompts take is seen by no short run. So whatever chooses by the number of rows of a step says so
here, and the gate `chunk` and the shared tests run both sides of every number (gpu/row_counts.py). A kernel says so in
the comment behind its #define: `// by rows: ...`, `// by queries: ...` or `// by floats: ...`.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["rows", "queries", "floats", "products"]
_chosen: dict[str, "Choice"] = {}


@dataclass(frozen=True)
class Choice:
    """A number, and what it counts in a step.

    rows: rows; queries: of one kv head, (row, head of its group) in order; floats: values of a result, row by row;
    products: multiplications of one matrix, or of all of them
    """

    name: str
    count: int
    unit: Unit


def chooses_by_rows(name: str, count: int, unit: Unit = "rows") -> int:
    """The number, which from now on is known to choose a path. name: `module.CONSTANT`"""
    _chosen[name] = Choice(name, count, unit)
    return count


def choices() -> list[Choice]:
    """What the modules that are loaded have registered."""
    return list(_chosen.values())
