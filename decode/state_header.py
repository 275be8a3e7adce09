"""What a state file says before its bytes: whose state it is, of which tokens, and which bytes must follow.

Format:  the header of a .safetensors file, in the one form that `encode` gives; docs/state.md is the format in words.
Source:  https://github.com/huggingface/safetensors, "Format"
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gnomon.decode.loaded import loaded
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError, ModelError
from gnomon.reference.identity import Difference, differences, lacking, text
from gnomon.reference.state import state_specs
from gnomon.reference.strict_json import parse_object, show

FORMAT, SCHEMA = "gnomon state", "2"
LIMIT = 8 << 20  # bytes of a header: 800,000 token ids of a vocabulary of 200,000
IDENTITY = ("contract", "arm", "kv", "model", "config", "tokenizer")  # in the order in which they are compared
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "BF16": np.dtype("<u2"), "I8": np.dtype("i1")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
SHA256 = re.compile(r"[0-9a-f]{64}")

Identity = dict[str, str]
Specs = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]


class StateFileError(GnomonError):
    """What should be a state file is none: cut, longer than it says, or at odds with itself."""


class StateCorruptError(GnomonError):
    """The bytes of a tensor are not those that the header was made for."""

    exit_code = 1


class StateIdentityError(GnomonError):
    """A sound state file of something else. field: what differs, one of IDENTITY or a field of the config such as
    "rope.theta"; ours: of the engine; theirs: of the file"""

    exit_code = 3

    def __init__(self, field: str, ours: str, theirs: str) -> None:
        super().__init__(f"Expected a state of {field} {ours} but the file holds one of {field} {theirs}")
        self.field, self.ours, self.theirs = field, ours, theirs

    @property
    def fields(self) -> dict[str, str]:
        return {"field": self.field, "ours": self.ours, "theirs": self.theirs}


def identity(engine: Engine[Any]) -> Identity:
    """What two engines must share for a state to move from one to the other: `loaded` as text, "none" for None, the
    fields of the config as their JSON."""
    own = asdict(loaded(engine))
    words = {**own, "config": text(own["config"])}
    return {field: "none" if words[field] is None else str(words[field]) for field in IDENTITY}


def as_objects(whose: Identity) -> dict[str, Any]:
    """An identity with the config as an object, to be shown."""
    return {**whose, "config": json.loads(whose["config"])}


def first_difference(ours: Identity, theirs: Identity) -> Difference | None:
    """The first field in which two identities differ; of the config, the field in it."""
    for field in IDENTITY:
        if ours[field] != theirs[field]:
            if field == "config":
                return next(differences(json.loads(ours[field]), json.loads(theirs[field])))
            return Difference(field, ours[field], theirs[field])
    return None


@dataclass(frozen=True)
class StateHeader:
    """identity: as above; ids: the token ids at positions 0, 1, ...; specs: name -> (shape, type), in file order;
    sha256: of the bytes of each tensor, by name; payload: SHA-256 of all of them, one after the other"""

    identity: Identity
    ids: tuple[int, ...]
    specs: Specs
    sha256: Mapping[str, str]
    payload: str

    @property
    def whose(self) -> dict[str, Any]:
        """The identity with the config as an object, to be shown."""
        return as_objects(self.identity)

    @property
    def nbytes(self) -> int:
        """Bytes that follow the header."""
        return sum(size(*spec) for spec in self.specs.values())

    def encode(self) -> bytes:
        """The header with its length in front; the same for the same content, a multiple of 8 bytes."""
        metadata = {
            "format": FORMAT,
            "schema": SCHEMA,
            **{field: self.identity[field] for field in IDENTITY},
            "position": str(len(self.ids)),
            "ids": ",".join(map(str, self.ids)),
            **{f"{name}.sha256": digest for name, digest in self.sha256.items()},
            "payload_sha256": self.payload,
        }
        out: dict[str, Any] = {"__metadata__": metadata}
        start = 0
        for name, (shape, dtype) in self.specs.items():
            stop = start + size(shape, dtype)
            out[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [start, stop]}
            start = stop
        text = json.dumps(out, separators=(",", ":")).encode("ascii")
        text += b" " * (-len(text) % 8)
        if len(text) > LIMIT:
            raise StateFileError(f"Expected a header of at most {LIMIT} bytes but {len(self.ids)} ids need {len(text)}")
        return len(text).to_bytes(8, "little") + text

    @staticmethod
    def parse(text: bytes, engine: Engine[Any] | None = None) -> "StateHeader":
        """The header in `text`, which has no length in front. engine: the one whose state it must be.

        Raises StateFileError for what `encode` would not have given, StateIdentityError for a state of something else.
        """
        try:
            entries = parse_object(text, "the header of a state file")
        except ModelError as error:
            raise StateFileError(str(error)) from error
        metadata = entries.pop("__metadata__", None)
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise StateFileError(
                "Expected __metadata__ in a state file, text by name, but it is missing or another thing"
            )
        for field, value in (("format", FORMAT), ("schema", SCHEMA)):
            if (got := metadata.get(field)) != value:
                old = lacking("a state file", got) if (field, got) == ("schema", "1") else ""
                raise StateFileError(f"Expected a state file with {field} {value!r} but got {show(got)}{old}")
        theirs = _identity(metadata)
        other = None if engine is None else first_difference(identity(engine), theirs)
        if other is not None:
            raise StateIdentityError(*other)
        ids = _ids(metadata, None if engine is None else engine.model.config.vocab)
        if engine is not None:
            limit = engine.model.config.max_positions
            if len(ids) > limit:
                raise StateFileError(f"Expected at most max_positions={limit} positions but the state has {len(ids)}")
            _check_names(entries, state_specs(engine.model.config, theirs["kv"], len(ids)))
        specs = {name: _spec(name, entry) for name, entry in entries.items()}
        if engine is not None:
            _check_specs(specs, state_specs(engine.model.config, theirs["kv"], len(ids)))
        sha256 = {name: _sha256(metadata, f"{name}.sha256") for name in specs}
        header = StateHeader(theirs, ids, specs, sha256, _sha256(metadata, "payload_sha256"))
        if header.encode()[8:] != text:
            raise StateFileError("Expected the header in its one form: no other field, tensors in order without gaps")
        return header


def size(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Bytes of a tensor."""
    return math.prod(shape) * dtype.itemsize


def _identity(metadata: Mapping[str, str]) -> Identity:
    """Whose state it is, each field in its one form; whether that is the right one is another question."""
    theirs = {field: metadata.get(field, "") for field in IDENTITY}
    for field, value in theirs.items():
        if field != "config" and not re.fullmatch(r"[0-9a-z-]{1,64}", value):
            raise StateFileError(f"Expected {field} in a state file but got {show(metadata.get(field))}")
    try:
        told = text(parse_object(theirs["config"].encode("utf-8", "replace"), "the config in a state file"))
    except (ModelError, RecursionError) as error:
        raise StateFileError(f"Expected the config in a state file but got: {error}") from error
    if told != theirs["config"]:
        raise StateFileError(
            "Expected the config in a state file as sorted JSON without spaces but it is written otherwise"
        )
    return theirs


def _ids(metadata: Mapping[str, str], vocab: int | None) -> tuple[int, ...]:
    words = metadata.get("ids", "?").split(",") if metadata.get("ids") != "" else []
    for word in words:
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", word) or int(word) >= (vocab or 1 << 31):
            raise StateFileError(f"Expected token ids below {vocab or 1 << 31} in a state file but got {show(word)}")
    if metadata.get("position") != str(len(words)):
        raise StateFileError(
            f"Expected the position {len(words)}, which is the number of ids, but got {show(metadata.get('position'))}"
        )
    return tuple(map(int, words))


def _spec(name: str, entry: object) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(entry, dict):
        shape, dtype = entry.get("shape"), entry.get("dtype")
        sound = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 1 << 31 for n in shape)
        if sound and isinstance(shape, list) and isinstance(dtype, str) and dtype in DTYPES:
            return tuple(shape), DTYPES[dtype]
    raise StateFileError(
        f"Expected a tensor of type {', '.join(DTYPES)} and a shape at {show(name)} but got {show(entry)}"
    )


def _sha256(metadata: Mapping[str, str], field: str) -> str:
    value = metadata.get(field, "")
    if not SHA256.fullmatch(value):
        raise StateFileError(f"Expected 64 hexadecimal digits as {show(field)} but got {show(value)}")
    return value


def _check_names(entries: Mapping[str, object], expected: Specs) -> None:
    for name in [*expected, *entries]:
        if name not in entries:
            raise StateFileError(f"Expected a tensor {name} in the state but it is missing")
        if name not in expected:
            raise StateFileError(f"Expected no tensor {show(name)} in the state but there is one")


def _check_specs(specs: Specs, expected: Specs) -> None:
    for name, (shape, dtype) in expected.items():
        got_shape, got_dtype = specs[name]
        if (got_shape, got_dtype) != (shape, dtype.newbyteorder("<")):
            raise StateFileError(
                f"Expected {name} to be {NAMES[dtype.newbyteorder('<')]} {list(shape)} but got "
                f"{NAMES[got_dtype]} {list(got_shape)}"
            )
    if list(specs) != list(expected):
        raise StateFileError("Expected the tensors of a state in the order of the layers but they stand in another")
