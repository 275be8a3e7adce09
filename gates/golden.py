"""The bytes of the scalar oracle, in which no code of this package had a part: of micro, a GPT-2, every stored type."""

import json
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.compare.verdict import judge, measure
from gnomon.gates import stored_files
from gnomon.gates.faults import engines as broken
from gnomon.gates.faults import formats
from gnomon.gates.gate import AnyEngine, Array, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import Everything, sentence, whole

HEADER = Header(
    name="golden",
    question="Does an engine give the bytes that the scalar oracle computed from the contract's text alone?",
    instrument="SHA-256 of every tap, of the logits and of the state of micro and of a small GPT-2; of logits and "
    "state of micro in the other arms, and of a small Llama that is loaded from a GGUF file of every stored type; "
    "against gates/golden/micro.json and stored.json, which a script made with the oracle; some rows are stored as "
    "bits, to show what differs",
    threshold="every stored tensor is there, alive, and has the stored digest; the engine shows no other; prompts of "
    "one row and of few rows give the first rows",
    disproof="the oracle is wrong in the same way: it is judged by known answers of another implementation",
    void="micro is another model than the one the oracle was given, no stored case, a sound file that does not load",
    numbers={"rows": [1, 5]},  # of shorter prompts: kernels read a weight in other ways for one row, for few, for many
)


def golden(name: str) -> dict[str, Any]:
    """Stored data of this folder."""
    stored: dict[str, Any] = json.loads((files("gnomon.gates") / "golden" / f"{name}.json").read_text("utf-8"))
    return stored


def run(subject: Subject) -> Outcome:
    if not all(subject.prompts.values()) or not subject.prompts:  # it brings its own, and yet: nothing was asked for
        raise VoidError("no prompt to run")
    stored = golden("micro")
    model = subject.load("micro")
    if model.digest != stored["weights"]:
        raise VoidError(f"the oracle was given weights {stored['weights'][:12]} but micro has {model.digest[:12]}")
    micro = ((subject.engine(model), case) for case in stored["cases"])
    tensors = values = cases = 0
    for engine, case in chain(micro, others(subject)):
        cases += 1
        seen = run_case(engine, case["ids"])
        few = in_few(engine, case["ids"], seen["result"])
        for name, expected in case["tensors"].items():
            problem = differs(name, seen.pop(name, None), expected)
            if problem:
                return Outcome("FAIL", f"{case['name']}, first difference: {problem}", {"tensors": tensors})
            tensors += 1
            values += int(np.prod(expected["shape"]))
        if few:
            return Outcome("FAIL", f"{case['name']}, {few}")
        if seen and not case["partial"]:
            return Outcome("FAIL", f"{case['name']}, {next(iter(seen))} is not among the stored tensors")
    return Outcome("PASS", "", {"cases": cases, "tensors": tensors, "values": values})


def others(subject: Subject) -> Iterator[tuple[AnyEngine, dict[str, Any]]]:
    """An engine for each case of stored.json."""
    with tempfile.TemporaryDirectory() as folder:
        for case in golden("stored")["cases"]:
            name = case["name"]
            if name == "gpt2":
                yield subject.engine(stored_files.gpt2()), case
            elif name in ("bf16", "int8"):
                yield subject.engine(subject.load("micro"), name), case
            else:
                yield subject.engine(subject.load(stored_files.write(Path(folder) / f"{name}.gguf", name))), case


def in_few(engine: AnyEngine, ids: list[int], expected: Array) -> str:
    """Why a shorter prompt does not give the first rows of the whole one; empty where it does."""
    for rows in HEADER.numbers["rows"]:
        logits, _ = whole(engine, ids[:rows])
        found = judge(logits, expected[:rows], f"logits of {rows} rows")
        if found.verdict != "identical":
            return sentence(found)
    return ""


def run_case(engine: AnyEngine, ids: list[int]) -> dict[str, Array]:
    """Every tap by its name; the exported state as "state ..."; logits of a run without a tap as "result" """
    tap = Everything()
    _, state = whole(engine, ids, tap)
    logits, bare = whole(engine, ids)
    for name, array in bare.items():
        if not np.array_equal(array, state[name]):
            state[name] = array  # a state that a tap mends is the wrong one
    return tap.arrays | {f"state {name}": array for name, array in state.items()} | {"result": logits}


def differs(name: str, got: Array | None, expected: dict[str, Any]) -> str:
    """Why a tensor is not the stored one; empty where it is."""
    if got is None:
        return f"{name}: missing"
    alive = judge(got, got, name)
    if alive.verdict != "identical":
        return sentence(alive)
    m = measure(got, name)
    if list(m.shape) != expected["shape"] or m.dtype != "f32":
        return f"{name}: {m.dtype} {list(m.shape)}, expected f32 {expected['shape']}"
    if m.sha256 == expected["sha256"]:
        return ""
    for row, words in expected.get("rows", {}).items():
        stored = np.array([int(word, 16) for word in words], np.uint32).view(np.float32)
        found = judge(got[int(row)].reshape(-1), stored, f"{name}, row {row}")
        if found.verdict != "identical":
            return sentence(found)
    return f"{name}: differs (sha256 {m.sha256[:12]}, expected {expected['sha256'][:12]})"


GATE = Gate(
    HEADER,
    run,
    {
        "rope with another theta in every engine": (broken.other_theta, "blocks.0.attn.q_rot: differs"),
        "ten times the epsilon in every engine": (broken.larger_epsilon, "blocks.0.ln1: differs"),
        "the nibbles of a byte exchanged, in every engine": (
            formats.nibbles,
            "Q4_0, first difference: state blocks.0.kv.k: differs",
        ),
        "a minimum added with the other sign, in every engine": (
            formats.minimum,
            "Q4_1, first difference: state blocks.0.kv.k: differs",
        ),
        "a zero point of 7 for 8, in every engine": (
            formats.zero_point,
            "Q4_0, first difference: state blocks.0.kv.k: differs",
        ),
        "-128 is taken for -127, in every engine": (
            formats.saturated,
            "Q8_0, first difference: state blocks.0.kv.k: differs",
        ),
        "int8 ends at 126, in every engine": (
            formats.ends_at_126,
            "int8, first difference: state blocks.0.kv.k: differs",
        ),
        "a gelu without its cube, in every engine": (
            formats.plain_gelu,
            "gpt2, first difference: blocks.0.mlp.act: differs",
        ),
        "one bit of one state": (broken.exports_otherwise(lambda steps: True), "rec.delta, row 3: ulp<=1"),
    },
)
