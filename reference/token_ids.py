"""Token ids as a caller gives them: checked in this one place, whoever takes them."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from gnomon.reference.errors import UsageError

LIMIT = 1 << 31  # a step holds them as int32
UNORDERED_OR_TEXT = (str, bytes, bytearray, memoryview, Set, Mapping)


def token_ids(ids: Iterable[Any]) -> list[int]:
    """The ids as a list of int. Whether the model has them is for the engine to say.

    Raises UsageError for what is no sequence of whole numbers: text, bytes, a set, floats, truth values, nested lists.
    """
    if isinstance(ids, UNORDERED_OR_TEXT) or not isinstance(ids, Iterable):
        raise _refused(f"{ids!r} ({type(ids).__name__})")
    try:
        given = list(ids)
    except TypeError as error:  # an array without an axis
        raise _refused(f"{ids!r} ({type(ids).__name__})") from error
    return [i if type(i) is int and -LIMIT <= i < LIMIT else _whole(i, at) for at, i in enumerate(given)]


def _whole(value: Any, at: int) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and -LIMIT <= value < LIMIT:
        return int(value)
    raise _refused(f"{value!r} ({type(value).__name__}) at index {at}")


def _refused(got: str) -> UsageError:
    got = got if len(got) <= 120 else f"{got[:100]} ..."
    return UsageError(f"Expected token ids as whole numbers below 2^31, such as [1, 2, 3], but got {got}")


def whole_number(name: str, value: Any) -> None:
    """Raises UsageError for a count that is none: True, 2.5, "3". Its bounds are the caller's."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(f"Expected {name} to be a whole number but got {name}={value!r}")


def kind(name: str, value: Any, wanted: type | tuple[type, ...], example: str) -> None:
    """Raises UsageError for an argument of another type, most often one in the place of its neighbour."""
    if not isinstance(value, wanted):
        got = f"{value!r:.60}" if isinstance(value, str | int | float | list) or value is None else type(value).__name__
        raise UsageError(f"Expected {name} to be {example} but got {got}")
