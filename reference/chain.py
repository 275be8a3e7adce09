"""A chain of records: each line names the hash of the line before, the last line counts them, a key may sign it.

One JSON object a line. To the fields of a record come `prev` (the `hash` of the line before, or 64 zeros) and `hash`
(SHA-256 of the line's canonical JSON without `hash`). The last line is {"end": n, "reason": ...} with n the
number of records before it. So an edited, removed, added or reordered line is seen, and so is a cut; one who can
rewrite the whole chain is stopped only by the signature (Ed25519 over the last `hash`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gnomon.reference.aside import write_aside
from gnomon.reference.errors import GnomonError, ModelError, NotRunError, UsageError
from gnomon.reference.strict_json import parse_object, show

START = "0" * 64
OWN = ("prev", "hash", "end", "reason", "signature", "public_key")  # fields that belong to the chain

LONGEST = 4 << 20  # bytes of a line; a prompt of half a million ids fits into one
DEEPEST = 32  # objects and lists within each other; a record of ours has five

Record = dict[str, Any]


class ChainError(GnomonError):
    """A line does not follow from the one before. index: 0-based line."""

    exit_code = 1

    def __init__(self, index: int, sentence: str) -> None:
        super().__init__(sentence)
        self.index = index


class UnreadableError(ChainError):
    """The file is cut, or a line is no JSON object: nobody can say what it held."""

    exit_code = 2


def canonical(record: Record) -> bytes:
    """The one JSON text of a record: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


class Chain:
    """Lines in memory; `append` returns each as it is made, so that a writer may stream them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._prev = START

    def append(self, record: Record) -> str:
        """Add a record. Raises ValueError for a field name that belongs to the chain."""
        taken = [name for name in record if name in OWN]
        if taken:
            raise ValueError(f"Expected no field called {taken[0]!r} in a record: it belongs to the chain")
        return self._add(record)

    def close(self, reason: str, private_key: bytes | None = None) -> str:
        """Add the last line; private_key: 32 bytes of an Ed25519 key to sign it with."""
        last: Record = {"end": len(self.lines), "reason": reason}
        if private_key is None:
            return self._add(last)
        key = _ed25519().Ed25519PrivateKey.from_private_bytes(private_key)
        last["public_key"] = key.public_key().public_bytes_raw().hex()
        last |= {"prev": self._prev}
        digest = hashlib.sha256(canonical(last)).hexdigest()
        return self._add(last, signature=key.sign(bytes.fromhex(digest)).hex())

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def _add(self, record: Record, **unhashed: str) -> str:
        record = {**record, "prev": self._prev}
        self._prev = hashlib.sha256(canonical(record)).hexdigest()
        line = canonical({**record, "hash": self._prev, **unhashed}).decode("ascii")
        self.lines.append(line)
        return line


def verify(lines: Iterable[str], public_key: bytes | None = None) -> list[Record]:
    """The records of a closed chain, without the fields of the chain.

    public_key: the Ed25519 key that must have signed it. Raises ChainError at the first line that does not follow.
    """
    records: list[Record] = []
    prev, closed, index = START, False, -1
    for index, line in enumerate(lines):
        if closed:
            raise ChainError(index, f"Expected the chain to end at line {index - 1} but line {index} follows")
        record = _parse(line, index)
        unhashed = {name: record.pop(name, None) for name in ("hash", "signature")}
        if record.get("prev") != prev:
            raise ChainError(index, f"Expected line {index} to name the hash of the line before but it does not")
        prev = hashlib.sha256(canonical(record)).hexdigest()
        if unhashed["hash"] != prev:
            raise ChainError(index, f"Expected line {index} to hold its own hash but its content has another")
        if "end" in record:
            closed = True
            if record["end"] != index:
                raise ChainError(index, f"Expected {record['end']} records before the end but there are {index}")
            if public_key is not None:
                _check_signature(record, unhashed["signature"], prev, public_key, index)
        else:
            records.append({name: value for name, value in record.items() if name != "prev"})
    if not closed:
        stops = f"stops after line {index}" if index >= 0 else "is empty"
        raise UnreadableError(index + 1, f"Expected a last line with the count but the chain {stops}")
    return records


def read_lines(path: Path, what: str) -> Iterator[str]:
    """The lines of the file at `path`, read as they are asked for. what: "a receipt", for messages

    Raises UsageError where there is no such file, UnreadableError as `lines_of` does.
    """
    try:
        if not path.is_file():
            raise UsageError(f"Expected {what} at {show(str(path))} but there is no such file")
        with path.open("rb") as file:
            yield from lines_of(file)
    except OSError as error:
        raise UsageError(f"Expected to read {show(str(path))} but got: {error.strerror or error}") from error


def lines_of(file: BinaryIO) -> Iterator[str]:
    """Whole lines of ASCII without their ends. Raises UnreadableError for one that is too long or has no end."""
    index = 0
    while data := file.readline(LONGEST + 1):
        if len(data) > LONGEST:
            raise UnreadableError(index, f"Expected at most {LONGEST} bytes on line {index} but it is longer")
        if not data.endswith(b"\n"):
            raise UnreadableError(index, f"Expected line {index} to have an end but the file is cut there")
        yield data[:-1].decode("ascii", "replace")  # what is no ASCII is no canonical JSON either
        index += 1


def write(path: Path, chain: Chain) -> None:
    """Write a closed chain as a file. Raises UsageError where that cannot be done."""
    write_aside(path, [chain.text().encode("ascii")])


def _parse(line: str, index: int) -> Record:
    try:
        record = parse_object(line.encode("utf-8", "replace"), f"line {index}")
    except ModelError as error:
        raise UnreadableError(index, str(error)) from error
    level: list[Any] = [record]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
    if level:
        raise UnreadableError(index, f"Expected line {index} to be nested at most {DEEPEST} deep but it is deeper")
    return record


def _check_signature(record: Record, signature: object, digest: str, public_key: bytes, index: int) -> None:
    if record.get("public_key") != public_key.hex() or not isinstance(signature, str):
        raise ChainError(index, "Expected the chain to be signed with the given key but it is not")
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public_key).verify(
            bytes.fromhex(signature), bytes.fromhex(digest)
        )
    except (InvalidSignature, ValueError) as error:
        raise ChainError(index, "Expected a valid signature of the last line but it is not") from error


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise NotRunError("Expected the package cryptography for signatures: pip install cryptography") from error
    return ed25519
