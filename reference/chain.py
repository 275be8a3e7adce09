"""A chain of records: each line names the hash of the line before, the last line counts them, a key may sign it.

One JSON object a line. To the fields of a record come `prev` (the `hash` of the line before, or 64 zeros) and `hash`
(SHA-256 of the line's canonical JSON without `hash`). The last line is {"end": n, "reason": ...} with n the
number of records before it. So an edited, removed, added or reordered line is seen, and so is a cut; one who can
rewrite the whole chain is stopped only by the signature (Ed25519 over the last `hash`).
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gnomon.reference.aside import write_aside
from gnomon.reference.errors import GnomonError, NotRunError

START = "0" * 64
OWN = ("prev", "hash", "end", "reason", "signature", "public_key")  # fields that belong to the chain

Record = dict[str, Any]


class ChainError(GnomonError):
    """A line does not follow from the one before. index: 0-based line."""

    exit_code = 1

    def __init__(self, index: int, sentence: str) -> None:
        super().__init__(sentence)
        self.index = index


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
        raise ChainError(index + 1, f"Expected a last line with the count but the chain stops after line {index}")
    return records


def write(path: Path, chain: Chain) -> None:
    """Write a closed chain as a file. Raises UsageError where that cannot be done."""
    write_aside(path, [chain.text().encode("ascii")])


def _parse(line: str, index: int) -> Record:
    try:
        record = json.loads(line, object_pairs_hook=_no_duplicates)
    except ValueError as error:
        raise ChainError(index, f"Expected one JSON object on line {index} but reading it failed: {error}") from error
    if not isinstance(record, dict):
        raise ChainError(index, f"Expected one JSON object on line {index} but got {type(record).__name__}")
    return record


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field appears twice")
    return record


def _check_signature(record: Record, signature: str | None, digest: str, public_key: bytes, index: int) -> None:
    if record.get("public_key") != public_key.hex() or signature is None:
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
