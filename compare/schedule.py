"""How a prompt is cut into steps. By the contract no cut moves a bit; a fault in what one step leaves to the next shows
only under a cut.

| schedule | steps of the prompt |
|---|---|
| `whole` | one |
| `rows` | one for each row |
| `4-3-1-2` | of so many rows, again and again to the end; any numbers |
| `ragged` | of 3, 1, 4 and 2 rows, in a batch behind two other sequences whose steps are cut otherwise |
"""

import re
from collections.abc import Sequence
from itertools import cycle

from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import show

NAMED = ("whole", "rows", "ragged")
RAGGED = (3, 1, 4, 2)
COMPANIONS = ((2, 1, 5), (1, 4))  # how the neighbours of a ragged batch are cut


def lengths(schedule: str, count: int) -> list[int]:
    """The rows of each step that `count` ids are cut into. Raises UsageError for no schedule."""
    if schedule == "whole":
        return [count]
    if schedule == "rows":
        return [1] * count
    if schedule == "ragged":
        return cut(RAGGED, count)
    if not isinstance(schedule, str) or not re.fullmatch(r"[1-9][0-9]{0,5}(-[1-9][0-9]{0,5})*", schedule):
        raise UsageError(
            f"Expected a schedule: whole, rows, ragged or lengths such as 4-3-1-2, but got {show(schedule)}"
        )
    return cut([int(n) for n in schedule.split("-")], count)


def cut(pattern: Sequence[int], count: int) -> list[int]:
    """`count` in parts as long as the pattern says, over and over; the last part is what is left."""
    parts: list[int] = []
    for n in cycle(pattern):
        if count <= 0:
            return parts
        parts.append(min(n, count))
        count -= parts[-1]
    raise ValueError("an empty pattern")


def named(text: str) -> list[str]:
    """The schedules of a list such as "whole,4-3-1-2". Raises UsageError for what is none."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for schedule in found:
        lengths(schedule, 1)
    return found


def steps_of(ids: Sequence[int], schedule: str) -> list[list[int]]:
    """The ids of every step of the prompt."""
    out, at = [], 0
    for n in lengths(schedule, len(ids)):
        out.append(list(ids[at : at + n]))
        at += n
    return out
