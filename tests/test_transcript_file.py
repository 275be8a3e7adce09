"""The file of a transcript: read as it was written, and by nobody once it is damaged, cut or written again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.decode.transcript import produce, verify
from gnomon.decode.transcript_file import TranscriptError, parse, read
from gnomon.gates.transcript import opened, sealed
from gnomon.reference.chain import write
from gnomon.reference.errors import UsageError
from transcripts import PROMPT, SAMPLED, TOKENS, sampled_text


@pytest.fixture(scope="module")
def engine() -> gnomon.Engine[Any]:
    return gnomon.engine("numpy", gnomon.load("micro"))


@pytest.fixture(scope="module")
def sampled(engine: gnomon.Engine[Any]) -> list[str]:
    return sampled_text(engine)


def test_a_file_is_read_as_it_was_written(tmp_path: Path, engine: gnomon.Engine[Any], sampled: list[str]) -> None:
    made = produce(engine, PROMPT, TOKENS, SAMPLED)
    write(tmp_path / "t.jsonl", made.chain)
    assert (tmp_path / "t.jsonl").read_text("ascii") == "".join(f"{line}\n" for line in sampled)
    assert read(tmp_path / "t.jsonl") == parse(sampled)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut in the header": lambda data: data[:40],
    "cut after the header": lambda data: data[: data.index(b"\n") + 1],
    "cut in a token": lambda data: data[:-1500],
    "cut before the last line": lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
    "without the last line end": lambda data: data[:-1],
    "a line removed": lambda data: b"".join(data.splitlines(True)[:3] + data.splitlines(True)[4:]),
    "the header removed": lambda data: b"".join(data.splitlines(True)[1:]),
    "the header second": lambda data: b"".join([*data.splitlines(True)[1::-1], *data.splitlines(True)[2:]]),
    "two lines changed about": lambda data: b"".join(
        [*data.splitlines(True)[:3], *data.splitlines(True)[4:2:-1], *data.splitlines(True)[5:]]
    ),
    "a line twice": lambda data: b"".join([*data.splitlines(True)[:4], *data.splitlines(True)[3:]]),
    "a line after the end": lambda data: data + data.splitlines(True)[-1],
    "an empty line after the end": lambda data: data + b"\n",
    "an id edited": lambda data: data.replace(b'"id":', b'"id":1', 1),
    "a hash edited": lambda data: data.replace(b'"hash":"', b'"hash":"0', 1),
    "a field twice": lambda data: data.replace(b'"id":', b'"id":5,"id":', 1),
    "spaces": lambda data: data.replace(b'"id":', b'"id": ', 1),
    "other line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "not a number": lambda data: data.replace(b'"id":', b'"id":NaN,"x":', 1),
    "an infinite number": lambda data: data.replace(b'"id":', b'"id":1e999,"x":', 1),
    "a number of 5000 digits": lambda data: data.replace(b'"id":', b'"id":' + b"9" * 5000 + b',"x":', 1),
    "nested a million deep": lambda data: data.replace(
        b'"id":', b'"x":' + b"[" * 1000000 + b"]" * 1000000 + b',"id":', 1
    ),
    "nested 900 deep": lambda data: data.replace(b'"id":', b'"x":' + b"[" * 900 + b"]" * 900 + b',"id":', 1),
    "a line of 5 MiB": lambda data: b" " * (5 << 20) + data,
    "not ASCII": lambda data: data.replace(b'"length"', '"l\u00e4nge"'.encode()),
    "not UTF-8": lambda data: data.replace(b'"length"', b'"\xff\xfe"'),
    "not JSON": lambda data: b"def main():\n" + data,
    "no object": lambda data: b"[]\n" + data,
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "zero bytes": lambda data: b"\0" * len(data),
    "a signature that is a number": lambda data: data.replace(
        b'"reason":"length"', b'"public_key":1,"reason":"length","signature":1'
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_read(tmp_path: Path, sampled: list[str], damage: str) -> None:
    data = "".join(f"{line}\n" for line in sampled).encode()
    damaged = DAMAGES[damage](data)
    assert damaged != data
    (tmp_path / "t.jsonl").write_bytes(damaged)
    with pytest.raises(TranscriptError) as caught:
        read(tmp_path / "t.jsonl")
    assert caught.value.index is None
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("cut", range(1, 8))
def test_no_cut_at_any_place_passes(tmp_path: Path, sampled: list[str], cut: int) -> None:
    data = "".join(f"{line}\n" for line in sampled).encode()
    for length in range(cut, len(data), 499):
        (tmp_path / "t.jsonl").write_bytes(data[:length])
        with pytest.raises(TranscriptError):
            read(tmp_path / "t.jsonl")


@pytest.mark.parametrize(("field", "value"), [("format", "gnomon trace"), ("schema", 3), ("schema", "2")])
def test_no_other_format_is_taken_for_this_one(sampled: list[str], field: str, value: object) -> None:
    records = opened(sampled)
    records[0][field] = value
    with pytest.raises(UsageError, match="format"):
        parse(sealed(records))


def test_no_missing_file_ends_in_another_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="no such file"):
            read(path)


def test_no_rewritten_transcript_passes_for_a_signed_one(engine: gnomon.Engine[Any], sampled: list[str]) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = bytes(range(32))
    public = ed25519.Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    signed = produce(engine, PROMPT, TOKENS, SAMPLED, key=key).chain.lines
    verify(engine, parse(signed, public))
    verify(engine, parse(signed))
    for forged in (sampled, produce(engine, PROMPT, TOKENS, SAMPLED, key=bytes(reversed(key))).chain.lines):
        with pytest.raises(TranscriptError):
            parse(forged, public)
