"""A forged transcript is rejected at the token that does not follow, though its chain holds."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.decode.transcript import IncomparableError, verify
from gnomon.decode.transcript_file import parse
from gnomon.gates.transcript import Lines, opened, sealed
from oracle import sampler as oracle
from transcripts import PROMPT, TOKENS, rejection, sampled_text, stopped_text


@pytest.fixture(scope="module")
def engine() -> gnomon.Engine[Any]:
    return gnomon.engine("numpy", gnomon.load("micro"))


@pytest.fixture(scope="module")
def sampled(engine: gnomon.Engine[Any]) -> list[str]:
    return sampled_text(engine)


@pytest.fixture(scope="module")
def stopped(engine: gnomon.Engine[Any]) -> list[str]:
    return stopped_text(engine)


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
    "a config that is text": (lambda lines: lines[0].update(config="{}"), None),
    "no config": (lambda lines: lines[0].pop("config"), None),
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
