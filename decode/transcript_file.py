"""The file of a transcript: what was asked, and each token with the digest of the logits row it was chosen from.

Lines of reference/chain.py in its canonical JSON, each with `prev` and `hash` beside these fields and no others:

    {"format", "schema", "contract", "model", "config", "tokenizer", "arm", "kv", "prompt", "max_tokens", "sampling",
     "stop"}
    {"id", "logits"}            one per token; logits: SHA-256 of the row, as `row_digest` takes it
    {"end": n, "reason"}        n: how many lines stand before it; reason: "stop" or "length"; may be signed

docs/transcripts.md says what each field holds. No line names an engine, a host or a time: equal text, equal file.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnomon.decode.loaded import Loaded
from gnomon.reference import chain
from gnomon.reference.errors import GnomonError, ModelError, UsageError
from gnomon.reference.identity import lacking
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32
from gnomon.reference.strict_json import parse_object, show

FORMAT, SCHEMA = "gnomon transcript", 2
REASONS = ("stop", "length")
FORMS = ("f32", "bf16", "int8")


class TranscriptError(GnomonError):
    """A line that no honest run has written. index: 0-based index of the first token that does not follow, or None
    where the file itself is broken"""

    exit_code = 1

    def __init__(self, index: int | None, sentence: str) -> None:
        super().__init__(sentence)
        self.index = index


class UnreadableError(TranscriptError):
    """The file is cut, or a line is no JSON object."""

    exit_code = 2


@dataclass(frozen=True)
class Header(Loaded):
    """What was asked, of what. prompt: ids; stop: ids that end the text, ascending"""

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    stop: tuple[int, ...]

    def record(self) -> chain.Record:
        return {"format": FORMAT, "schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Token:
    """id: the token; logits: digest of the row that it was chosen from"""

    id: int
    logits: str


@dataclass(frozen=True)
class Transcript:
    """A file that holds together. Whether its tokens follow is what `verify` finds out."""

    header: Header
    tokens: tuple[Token, ...]
    reason: str


class Recorder:
    """Writes a transcript line by line; a loop of one's own adds each token with the row it was chosen from."""

    def __init__(self, header: Header) -> None:
        self.chain = chain.Chain()
        self.chain.append(header.record())
        self.ids: list[int] = []
        self.reason = ""

    def add(self, token: int, row: F32) -> None:
        self.ids.append(token)
        self.chain.append({"id": token, "logits": row_digest(row)})

    def close(self, reason: str, private_key: bytes | None = None) -> None:
        """reason: "stop" where the last token is a stop id, else "length"; private_key: to sign the last line with"""
        self.reason = reason
        self.chain.close(reason, private_key)


def row_digest(row: F32) -> str:
    """SHA-256, in hexadecimal, of a row of logits [vocab] as little-endian f32"""
    return hashlib.sha256(row.astype("<f4", copy=False).tobytes()).hexdigest()


def read(path: Path, public_key: bytes | None = None) -> Transcript:
    """The transcript at `path`. Raises UsageError where there is no such file, else as `parse` does."""
    return parse(chain.read_lines(path, "a transcript"), public_key)


def parse(lines: Iterable[str], public_key: bytes | None = None) -> Transcript:
    """The transcript that the lines hold. public_key: of the Ed25519 key that must have signed it

    Raises TranscriptError where a line is not as it was written or not of this format, UsageError where the lines are
    of another format or schema.
    """
    records: list[chain.Record] = []

    def checked() -> Iterator[str]:
        for index, line in enumerate(lines):
            records.append(strict(line, index))
            yield line

    try:
        chain.verify(checked(), public_key)
    except chain.UnreadableError as error:
        raise UnreadableError(None, str(error)) from error
    except chain.ChainError as error:
        raise TranscriptError(None, str(error)) from error
    if len(records) < 2:
        raise TranscriptError(None, "Expected a header before the last line but there is none")
    first, *tokens, last = records
    if "format" in first and (first["format"], first.get("schema")) != (FORMAT, SCHEMA):
        found = f"format {show(first['format'])}, schema {show(first.get('schema'))}"
        old = lacking("a transcript", 1) if found == f"format {FORMAT!r}, schema 1" else ""
        raise UsageError(f"Expected a file of format {FORMAT!r}, schema {SCHEMA} but got {found}{old}")
    if not tokens:
        raise TranscriptError(0, "Expected at least one token after the header but there is none")
    header = header_of(first)
    made = tuple(token_of(record, i) for i, record in enumerate(tokens))
    return Transcript(header, made, last["reason"])


def strict(line: str, index: int) -> chain.Record:
    """A line as an object: in canonical form, and the last line with its own fields only."""
    try:
        record = parse_object(line.encode("utf-8", "replace"), f"line {index}")
    except ModelError as error:
        raise UnreadableError(None, str(error)) from error
    if "end" in record:
        check(record, index, {**END, **SIGNED} if SIGNED.keys() & record.keys() else END)
    if chain.canonical(record) != line.encode("utf-8", "replace"):
        raise TranscriptError(None, f"Expected line {index} in canonical form (sorted keys, no spaces) but it is not")
    return record


def header_of(record: chain.Record) -> Header:
    """The first line, every field checked by itself."""
    check(record, 0, HEADER)
    check(record["sampling"], 0, SAMPLING)
    try:
        sampling = Sampling(**record["sampling"])
    except UsageError as error:
        raise TranscriptError(0, str(error)) from error
    own = {name: record[name] for name in Header.__dataclass_fields__}
    return Header(**{**own, "prompt": tuple(own["prompt"]), "stop": tuple(own["stop"]), "sampling": sampling})


def token_of(record: chain.Record, index: int) -> Token:
    """The line of token `index`."""
    check(record, index + 1, TOKEN)
    return Token(record["id"], record["logits"])


Fields = Mapping[str, tuple[Callable[[Any], bool], str]]  # name -> what it must be, as a test and in words


def check(record: chain.Record, line: int, fields: Fields) -> None:
    """Raises TranscriptError unless the record has exactly these fields, each as it must be."""
    for name in sorted(record.keys() ^ fields.keys()):
        wrong = "it is missing" if name in fields else "there is one"
        raise TranscriptError(
            None, f"Expected {'a' if name in fields else 'no'} field {show(name)} on line {line} but {wrong}"
        )
    for name, (right, words) in fields.items():
        if not right(record[name]):
            raise TranscriptError(None, f"Expected {name} on line {line} to be {words} but got {show(record[name])}")


def is_sha256(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(i) is int and 0 <= i < 1 << 31 for i in value)


def among(*words: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(word) and value == word for word in words)


SHA256 = (is_sha256, "64 hexadecimal digits")
CHAIN: Fields = {"prev": SHA256, "hash": SHA256}
HEADER: Fields = {
    **CHAIN,
    "format": (among(FORMAT), repr(FORMAT)),
    "schema": (among(SCHEMA), str(SCHEMA)),
    "contract": (is_count, "a whole number"),
    "model": SHA256,
    "config": (lambda value: isinstance(value, dict), "an object"),
    "tokenizer": (lambda value: value is None or is_sha256(value), "64 hexadecimal digits or null"),
    "arm": (among(*FORMS), f"one of {', '.join(FORMS)}"),
    "kv": (among(*FORMS), f"one of {', '.join(FORMS)}"),
    "prompt": (lambda value: are_ids(value) and len(value) > 0, "a list of token ids, not empty"),
    "max_tokens": (lambda value: is_count(value) and value > 0, "a whole number of at least 1"),
    "sampling": (lambda value: isinstance(value, dict), "an object"),
    "stop": (lambda value: are_ids(value) and value == sorted(set(value)), "a list of token ids, ascending"),
}
SAMPLING: Fields = {
    "temperature": (lambda value: type(value) is float, "a number with a point"),
    "top_k": (is_count, "a whole number"),
    "top_p": (lambda value: type(value) is float, "a number with a point"),
    "seed": (is_count, "a whole number below 2^64"),
}
TOKEN: Fields = {**CHAIN, "id": (is_count, "a whole number"), "logits": SHA256}
END: Fields = {**CHAIN, "end": (is_count, "a whole number"), "reason": (among(*REASONS), " or ".join(REASONS))}
SIGNED: Fields = {
    "public_key": SHA256,
    "signature": (
        lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{128}", v) is not None,
        "128 hexadecimal digits",
    ),
}
