"""Transcripts: an honest one verifies on every engine and holds the bytes of plain decoding."""

import hashlib
import json
import struct
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.decode import transcript as module
from gnomon.decode.transcript import GREEDY, IncomparableError, header, plain, produce, verify
from gnomon.decode.transcript_file import Header, TranscriptError, parse
from gnomon.gates.transcript import opened, sealed
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling
from oracle import sampler as oracle
from transcripts import PROMPT, SAMPLED, TOKENS, rejection, sampled_text, stopped_text


@pytest.fixture(scope="module")
def engine() -> gnomon.Engine[Any]:
    return gnomon.engine("numpy", gnomon.load("micro"))


@pytest.fixture(scope="module")
def sampled(engine: gnomon.Engine[Any]) -> list[str]:
    return sampled_text(engine)


@pytest.fixture(scope="module")
def stopped(engine: gnomon.Engine[Any]) -> list[str]:
    return stopped_text(engine)


# Honest ones.


@cache
def made_on(engine_name: str, name: str) -> list[str]:
    sampling = GREEDY if name == "tiny-hybrid" else SAMPLED
    return produce(gnomon.engine(engine_name, gnomon.load(name)), PROMPT, 5, sampling).chain.lines


@pytest.mark.parametrize("name", ["micro", "tiny-dense", "tiny-hybrid"])
def test_no_engine_rejects_the_transcript_of_another(engine_name: str, other_name: str, name: str) -> None:
    """It verifies there, and is line by line what the other makes itself."""
    lines = made_on(engine_name, name)
    verify(gnomon.engine(other_name, gnomon.load(name)), parse(lines))
    assert made_on(other_name, name) == lines


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
