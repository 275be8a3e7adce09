"""What of a model touches arithmetic beside its stored weights: its config, field by field, and the norms of 1 + w.

Two models whose weights are equal compute different bytes where one of these fields differs, so every file that is
compared or taken into use carries all of them, and a mismatch is reported by the name of the field.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from gnomon.reference.config import Config
from gnomon.reference.families import wiring
from gnomon.reference.model import Model

Fields = Mapping[str, Any]

# The only fields of Config and of its parts that are left out, each with the reason.
UNTOUCHING = {
    "max_positions": "It decides which steps are refused, not what a step computes; a table of positions is a weight.",
    "tied": "It says where the head is stored in the file; the bytes of the head are in the digest of the weights.",
}
COVERED = (*(f.name for f in fields(Config) if f.name not in UNTOUCHING), "plus_one")
NOT_WRITTEN = "(not written)"


class Difference(NamedTuple):
    """field: dotted name, such as "rope.theta" or "windows[3]"; ours, theirs: the values as JSON"""

    field: str
    ours: str
    theirs: str


def arithmetic(model: Model) -> dict[str, Any]:
    """The fields that touch arithmetic, as JSON values, in the form in which arithmetic uses them.

    family: the wiring, which several model types share; eps: the shortest decimal of its f32 value, since GGUF stores
    f32 and config.json stores decimals; plus_one: names of the norm weights that are used as 1 + w
    """
    out: dict[str, Any] = _plain(model.config)
    out["family"] = wiring(model.config.family)
    out["eps"] = float(str(np.float32(model.config.eps)))
    out["plus_one"] = sorted(name for name, weight in model.weights.items() if weight.plus_one)
    return out


def text(values: Fields) -> str:
    """The one JSON text of the fields: sorted keys, no spaces, ASCII. Equal text means equal arithmetic."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(values: Fields) -> str:
    """SHA-256 of `text`, in hexadecimal."""
    return hashlib.sha256(text(values).encode("ascii")).hexdigest()


def differences(ours: Fields, theirs: Fields, at: str = "") -> Iterator[Difference]:
    """Every field in which two models differ, in the order of their names; a field that a side lacks is one of them."""
    for name in sorted({*ours, *theirs}):
        yield from _compare(f"{at}{name}", ours.get(name, ...), theirs.get(name, ...))


def lacking(what: str, version: object) -> str:
    """Why a file of an earlier schema is refused, as the end of a sentence, and what to do."""
    return (
        f"; {what} of schema {version} lacks these fields of the model's config: {', '.join(COVERED)}; nobody can tell "
        "whose arithmetic it is of, so make it again with this version"
    )


def _compare(name: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        yield from differences(ours, theirs, f"{name}.")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _compare(f"{name}[{i}]", *pair)
    elif _shown(ours) != _shown(theirs):  # as text: in Python, 1 == 1.0 == True
        yield Difference(name, _shown(ours), _shown(theirs))


def _shown(value: Any) -> str:
    if value is ...:
        return NOT_WRITTEN
    said = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return said if len(said) <= 64 else f"{said[:40]}... (sha256 {hashlib.sha256(said.encode()).hexdigest()[:12]})"


def _plain(part: Any) -> dict[str, Any]:
    """A dataclass as JSON values, without the fields above."""
    out: dict[str, Any] = {}
    for field in fields(part):
        if field.name not in UNTOUCHING:
            value = getattr(part, field.name)
            if is_dataclass(value):
                value = _plain(value)
            elif isinstance(value, tuple):
                value = list(value)
            elif field.type is float:
                value = float(value)  # a whole number given where a float is meant
            out[field.name] = value
    return out
