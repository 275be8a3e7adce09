"""JSON without its loose ends: sizes are limited; repeated keys, NaN and infinities are refused."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from gnomon.reference.errors import ModelError

LIMIT = 4 << 20  # bytes: the largest header or index of a supported model takes a tenth of this


def show(value: object) -> str:
    """A value from a file for a message: one line, however long or odd it is."""
    text = repr(value)
    return text if len(text) <= 80 else text[:76] + " ..."


def check_file(path: Path) -> None:
    """Raises ModelError where no file is: to open a pipe that nobody writes into would never end."""
    if not path.is_file():
        found = "that is a directory, a device or a pipe" if path.exists() else "there is none"
        raise ModelError(f"Expected a file {path.name} in {show(str(path.parent))} but {found}")


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """The bytes of a small file. Raises ModelError where there is none or it is larger than `limit`."""
    try:
        check_file(path)
        size = path.stat().st_size
        if size > limit:
            raise ModelError(f"Expected {path.name} to have at most {limit} bytes but it has {size}")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"Expected to read {path.name} but got: {error.strerror}") from error


def parse_object(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in `data`; `what` names it in messages. Raises ModelError for anything else."""
    try:
        parsed: object = DECODER.decode(data.decode("utf-8"))
    except RecursionError as error:
        raise ModelError(f"Expected {what} to be JSON but it is nested too deeply") from error
    except _LooseError as error:
        expected, got = error.args
        raise ModelError(f"Expected {expected} in {what} but {got}") from None
    except ValueError as error:  # bad UTF-8, bad JSON, an integer of thousands of digits
        raise ModelError(f"Expected {what} to be JSON but got: {show(str(error))[1:-1]}") from error
    if not isinstance(parsed, dict):
        raise ModelError(f"Expected {what} to be a JSON object but got {show(parsed)}")
    return parsed


class _LooseError(Exception):
    """What others call JSON: what was expected, and what there is instead."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _LooseError("each key once", f"{show(twice)} stands there twice")
    return out


def _no_constant(name: str) -> NoReturn:
    raise _LooseError("finite numbers", f"got {name}")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_constant(text[:40])


DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
