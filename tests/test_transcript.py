"""Transcripts: an honest one verifies on every engine, a changed one on none, at the token that does not follow."""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.decode import transcript as module
from gnomon.decode.transcript import GREEDY, IncomparableError, header, plain, produce, verify
from gnomon.decode.transcript_file import Header, TranscriptError, parse, read
from gnomon.reference.chain import Chain, write
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling
from oracle import sampler as oracle

PROMPT = [11, 21, 45, 83, 38, 7]
TOKENS = 24
SAMPLED = Sampling(1.5, 60, 0.95, 12)
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def engine() -> gnomon.Engine[Any]:
    return gnomon.engine("numpy", gnomon.load("micro"))


@pytest.fixture(scope="module")
def sampled(engine: gnomon.Engine[Any]) -> list[str]:
    return produce(engine, PROMPT, TOKENS, SAMPLED).chain.lines


@pytest.fixture(scope="module")
def stopped(engine: gnomon.Engine[Any]) -> list[str]:
    """The same text, ended by an id that it draws at token 9 for the first time."""
    ids = produce(engine, PROMPT, TOKENS, SAMPLED).ids
    never = min({*range(97)} - {*ids})
    assert ids[9] not in ids[:9]
    return produce(engine, PROMPT, TOKENS, SAMPLED, [ids[9], never]).chain.lines


def opened(lines: list[str]) -> Lines:
    """The objects of the lines without what belongs to the chain."""
    return [{k: v for k, v in json.loads(line).items() if k not in ("prev", "hash", "end")} for line in lines]


def sealed(records: Lines) -> list[str]:
    """As a forger does who knows the format: every hash is right."""
    chain = Chain()
    for record in records[:-1]:
        chain.append(record)
    chain.close(records[-1]["reason"])
    return chain.lines


def rejection(engine: gnomon.Engine[Any], lines: list[str]) -> TranscriptError:
    with pytest.raises(TranscriptError) as caught:
        verify(engine, parse(lines))
    assert caught.value.exit_code == 1
    return caught.value


# Honest ones.


@cache
def made_on(engine_name: str, name: str) -> list[str]:
    sampling = GREEDY if name == "tiny-hybrid" else SAMPLED
    return produce(gnomon.engine(engine_name, gnomon.load(name)), PROMPT, 5, sampling).chain.lines


@pytest.mark.parametrize("name", ["micro", "tiny-dense", "tiny-hybrid"])
def test_no_engine_rejects_the_transcript_of_another(engine_name: str, other_name: str, name: str) -> None:
    verify(gnomon.engine(other_name, gnomon.load(name)), parse(made_on(engine_name, name)))


def test_the_file_does_not_depend_on_the_engine(engine_name: str, sampled: list[str]) -> None:
    assert produce(gnomon.engine(engine_name, gnomon.load("micro")), PROMPT, TOKENS, SAMPLED).chain.lines == sampled


@pytest.mark.parametrize(("arm", "kv"), [("bf16", "f32"), ("int8", "int8"), ("f32", "bf16")])
def test_no_arm_is_left_out(arm: str, kv: str) -> None:
    model = gnomon.load("micro")
    made = parse(produce(gnomon.engine("numpy", model, arm, kv), PROMPT, 4, SAMPLED).chain.lines)
    assert (made.header.arm, made.header.kv) == (arm, kv)
    verify(gnomon.engine("numpy", model, arm, kv), made)
    with pytest.raises(IncomparableError):
        verify(gnomon.engine("numpy", model), made)


def test_the_tokens_are_those_of_plain_decoding(engine: gnomon.Engine[Any]) -> None:
    made = produce(engine, PROMPT, TOKENS)
    assert made.ids == list(engine.generate(PROMPT, TOKENS))


def test_the_tokens_are_those_that_the_oracle_draws(engine: gnomon.Engine[Any], sampled: list[str]) -> None:
    ids = [record["id"] for record in opened(sampled)[1:-1]]
    logits, _ = engine.forward([*PROMPT, *ids[:-1]], want="all")
    drawn = [oracle.sample(row.tolist(), 1.5, 60, 0.95, 12, p) for p, row in enumerate(logits)]
    assert drawn[len(PROMPT) - 1 :] == ids


def test_the_digest_is_that_of_the_bytes_in_the_documentation(engine: gnomon.Engine[Any], sampled: list[str]) -> None:
    row = engine.forward(PROMPT)[0][-1].tolist()
    expected = hashlib.sha256(struct.pack(f"<{len(row)}f", *row)).hexdigest()
    assert json.loads(sampled[1])["logits"] == expected


def test_a_stop_id_is_the_last_token(engine: gnomon.Engine[Any], sampled: list[str], stopped: list[str]) -> None:
    assert len(stopped) == 1 + 10 + 1
    assert opened(stopped)[1:-1] == opened(sampled)[1:11]
    assert json.loads(stopped[-1])["reason"] == "stop"
    assert json.loads(sampled[-1])["reason"] == "length"
    verify(engine, parse(stopped))


def test_a_stop_id_as_the_last_possible_token_is_a_stop(engine: gnomon.Engine[Any], stopped: list[str]) -> None:
    made = produce(engine, PROMPT, 10, SAMPLED, json.loads(stopped[0])["stop"])
    assert (len(made.ids), made.reason) == (10, "stop")
    verify(engine, parse(made.chain.lines))


@pytest.mark.parametrize("rows", [1, 2, 5, 29])
def test_no_piece_of_the_verifier_changes_a_verdict(
    engine: gnomon.Engine[Any], sampled: list[str], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", rows)
    verify(engine, parse(sampled))
    records = opened(sampled)
    records[13]["id"] ^= 1
    assert rejection(engine, sealed(records)).index == 12


def test_no_step_of_the_verifier_takes_more_than_its_piece(sampled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 7 * 4 * 97 + 3)
    engine = gnomon.engine("numpy", gnomon.load("micro"))
    seen, step = [], engine.step

    def counted(rows: Any, want: Any = "last", tap: Any = None) -> Any:
        seen.append((len(rows.ids), want))
        return step(rows, want, tap)

    monkeypatch.setattr(engine, "step", counted)
    verify(engine, parse(sampled))
    assert seen == [(5, "none"), (7, "all"), (7, "all"), (7, "all"), (3, "all")]


def test_greedy_writes_no_parameter_that_it_does_not_read(engine: gnomon.Engine[Any]) -> None:
    made = [produce(engine, PROMPT, 4, how).chain.lines for how in (GREEDY, Sampling(1e-46, 5, 0.5, 7))]
    assert made[0] == made[1]


def test_parameters_are_written_as_they_count() -> None:
    assert plain(Sampling(0.7, 97, 0.9, 3), 97) == Sampling(float(np.float32(0.7)), 0, 0.9, 3)
    assert plain(Sampling(0.7, 96, 0.9, 3), 97).top_k == 96


# Forged ones.


def forgery(number: int, records: Lines, logits: Any) -> tuple[str, Lines, int]:
    """One field of a sampled or stopped transcript with another value -> its name, the lines, the index expected."""
    rng = np.random.default_rng(number)
    lines = [dict(record) for record in records]
    first, tokens, last = lines[0], lines[1:-1], lines[-1]
    n, start = len(tokens), len(first["prompt"]) - 1
    ids = [token["id"] for token in tokens]
    field = ["id", "logits", "prompt", "temperature", "top_k", "top_p", "seed", "max_tokens", "stop", "reason"][
        number % 10
    ]
    i = int(rng.integers(n))
    match field:
        case "id":
            tokens[i]["id"] = int((ids[i] + rng.integers(1, 97)) % 97)
        case "logits":
            digit = int(rng.integers(64))
            old = tokens[i]["logits"]
            tokens[i]["logits"] = old[:digit] + "0123456789abcdef"[int(old[digit], 16) ^ 5] + old[digit + 1 :]
        case "prompt":
            place = int(rng.integers(len(first["prompt"])))
            changed = (first["prompt"][place] + int(rng.integers(1, 97))) % 97
            first["prompt"] = [*first["prompt"][:place], changed, *first["prompt"][place + 1 :]]
            i = 0
        case "max_tokens":
            # After a stop id only fewer tokens are a lie; without one, more tokens are one, too.
            m = (
                int(rng.integers(1, n))
                if last["reason"] == "stop" or rng.random() < 0.5
                else int(n + rng.integers(1, 99))
            )
            first["max_tokens"], i = m, min(m, n)
        case "stop":
            i = min(i, n - 2)
            first["stop"] = sorted({*first["stop"], ids[i]})
            i = ids.index(ids[i]) + 1
        case "reason":
            last["reason"], i = {"stop": "length", "length": "stop"}[last["reason"]], n
        case _:
            while True:  # until a token is drawn otherwise: other parameters may well give the same text
                value = {
                    "temperature": float(np.float32(rng.uniform(0.25, 8.0))),
                    "top_k": int(rng.integers(1, 97)),
                    "top_p": float(rng.uniform(0.05, 1.0)),
                    "seed": int(rng.integers(1 << 63)),
                }[field]
                first["sampling"] = {**first["sampling"], field: value}
                how = [first["sampling"][name] for name in ("temperature", "top_k", "top_p", "seed")]
                drawn = [oracle.sample(row.tolist(), *how, start + p) for p, row in enumerate(logits)]
                if drawn != ids:
                    i = next(p for p, (a, b) in enumerate(zip(drawn, ids, strict=True)) if a != b)
                    break
    return field, lines, i


@pytest.mark.parametrize("number", range(100))
def test_no_forgery_passes_though_its_chain_holds(
    engine: gnomon.Engine[Any], sampled: list[str], stopped: list[str], number: int
) -> None:
    """Sampled text for 50 of them, text that ends with a stop id for the others."""
    records = opened(stopped if number % 20 >= 10 else sampled)
    ids = [record["id"] for record in records[1:-1]]
    logits, _ = engine.forward([*PROMPT, *ids[:-1]], want="all")
    field, lines, index = forgery(number, records, logits[len(PROMPT) - 1 :])
    assert lines != records, field
    assert rejection(engine, sealed(lines)).index == index, field


EDITS: dict[str, tuple[Callable[[Lines], Any], int | None]] = {
    "an id beyond the vocabulary": (lambda lines: lines[4].update(id=97), 3),
    "an id of 64 bits": (lambda lines: lines[4].update(id=(1 << 64) - 1), 3),
    "a token more": (lambda lines: lines.insert(-1, dict(lines[-2])), TOKENS),
    "a token less": (lambda lines: lines.pop(-2), TOKENS - 1),
    "no token": (lambda lines: lines.__delitem__(slice(1, -1)), 0),
    "two tokens changed about": (lambda lines: lines.insert(5, lines.pop(6)), 4),
    "a prompt id beyond the vocabulary": (lambda lines: lines[0]["prompt"].append(97), 0),
    "a prompt beyond all positions": (lambda lines: lines[0].update(prompt=[1] * 4097), 0),
    "a stop id beyond the vocabulary": (lambda lines: lines[0].update(stop=[97]), 0),
    "a temperature that rounds to another": (lambda lines: lines[0]["sampling"].update(temperature=1.5 + 1e-12), 0),
    "a temperature out of range": (lambda lines: lines[0]["sampling"].update(temperature=1e-9), 0),
    "a negative zero for greedy": (lambda lines: lines[0]["sampling"].update(temperature=-0.0), 0),
    "top_p of 0": (lambda lines: lines[0]["sampling"].update(top_p=0.0), 0),
    "top_k beyond the vocabulary": (lambda lines: lines[0]["sampling"].update(top_k=97), 0),
    "greedy with a seed": (lambda lines: lines[0]["sampling"].update(temperature=0.0), 0),
    "a header field more": (lambda lines: lines[0].update(engine="numpy"), None),
    "a header field less": (lambda lines: lines[0].pop("stop"), None),
    "a token field more": (lambda lines: lines[3].update(time=1), None),
    "a token field less": (lambda lines: lines[3].pop("logits"), None),
    "a sampling field more": (lambda lines: lines[0]["sampling"].update(min_p=0.1), None),
    "a sampling field less": (lambda lines: lines[0]["sampling"].pop("seed"), None),
    "a prompt that is no list": (lambda lines: lines[0].update(prompt="abc"), None),
    "a prompt of fractions": (lambda lines: lines[0].update(prompt=[1.0]), None),
    "a prompt of truths": (lambda lines: lines[0].update(prompt=[True]), None),
    "an empty prompt": (lambda lines: lines[0].update(prompt=[]), None),
    "a negative id in the prompt": (lambda lines: lines[0].update(prompt=[-1]), None),
    "stop ids out of order": (lambda lines: lines[0].update(stop=[3, 2]), None),
    "a stop id twice": (lambda lines: lines[0].update(stop=[3, 3]), None),
    "max_tokens as a fraction": (lambda lines: lines[0].update(max_tokens=24.0), None),
    "max_tokens of 0": (lambda lines: lines[0].update(max_tokens=0), None),
    "a whole temperature": (lambda lines: lines[0]["sampling"].update(temperature=1), None),
    "a seed of 65 bits": (lambda lines: lines[0]["sampling"].update(seed=1 << 64), None),
    "sampling that is a list": (lambda lines: lines[0].update(sampling=[]), None),
    "an arm of its own": (lambda lines: lines[0].update(arm="f64"), None),
    "a model that is no digest": (lambda lines: lines[0].update(model="micro"), None),
    "a tokenizer that is a number": (lambda lines: lines[0].update(tokenizer=0), None),
    "a contract that is a text": (lambda lines: lines[0].update(contract="1"), None),
    "an id that is a text": (lambda lines: lines[3].update(id="5"), None),
    "an id that is a truth": (lambda lines: lines[3].update(id=True), None),
    "a negative id": (lambda lines: lines[3].update(id=-1), None),
    "a digest in capitals": (lambda lines: lines[3].update(logits=lines[3]["logits"].upper()), None),
    "a digest that is a list": (lambda lines: lines[3].update(logits=[]), None),
    "another reason": (lambda lines: lines[-1].update(reason="tired"), None),
    "a reason that is a list": (lambda lines: lines[-1].update(reason=[]), None),
}


@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_passes_though_its_chain_holds(engine: gnomon.Engine[Any], sampled: list[str], edit: str) -> None:
    change, index = EDITS[edit]
    records = json.loads(json.dumps(opened(sampled)))
    change(records)
    error = rejection(engine, sealed(records))
    assert error.index == index
    assert "\n" not in str(error)


OTHERS = {"contract": 2, "model": "0" * 64, "tokenizer": "0" * 64, "arm": "bf16", "kv": "int8"}


@pytest.mark.parametrize("field", OTHERS)
def test_nothing_else_than_what_is_loaded_is_judged(engine: gnomon.Engine[Any], sampled: list[str], field: str) -> None:
    records = opened(sampled)
    loaded, records[0][field] = records[0][field], OTHERS[field]
    with pytest.raises(IncomparableError) as caught:
        verify(engine, parse(sealed(records)))
    assert caught.value.exit_code == 3
    assert (caught.value.field, caught.value.written, caught.value.loaded) == (field, OTHERS[field], loaded)
    for value in (loaded, OTHERS[field]):
        assert f"{field}={'none' if value is None else str(value)[:16]}" in str(caught.value)


# Broken files.


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


@pytest.mark.parametrize(("field", "value"), [("format", "gnomon trace"), ("schema", 2), ("schema", "1")])
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


# What cannot be asked.


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "says"),
    [([], 4, "prompt"), ([1], 0, "max_tokens"), ([1] * 4090, 8, "max_positions"), ([97], 4, "97"), ([-1], 4, "-1")],
)
def test_nothing_is_made_that_could_not_end(
    engine: gnomon.Engine[Any], prompt: list[int], max_tokens: int, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        produce(engine, prompt, max_tokens)


def test_the_last_position_can_be_used(engine: gnomon.Engine[Any]) -> None:
    small = replace(engine.model, config=replace(engine.model.config, max_positions=9))
    tight = gnomon.engine("numpy", small)
    made = parse(produce(tight, PROMPT, 4).chain.lines)
    verify(tight, made)
    records = [asdict(made.header), *made.tokens]
    assert len(records) == 5
    with pytest.raises(UsageError, match="max_positions"):
        header(tight, PROMPT, 5)
    longer = Header(**{**vars(made.header), "max_tokens": 5})
    more = replace(made, header=longer, tokens=(*made.tokens, made.tokens[-1]))
    with pytest.raises(TranscriptError, match="max_positions") as caught:
        verify(tight, more)
    assert caught.value.index == 4
