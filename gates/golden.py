"""The bytes of the scalar oracle: tensors of micro that no code of this package had a part in."""

import json
from importlib.resources import files
from typing import Any

import numpy as np

from gnomon.compare.verdict import judge, measure
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import AnyEngine, Array, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import Everything, sentence, whole

HEADER = Header(
    name="golden",
    question="Does an engine give the bytes that the scalar oracle computed from the contract's text alone?",
    instrument="SHA-256 of every tap, of the logits and of the state of micro, against gates/golden/micro.json, which "
    "a script made with the oracle; some rows are stored as bits, to show what differs",
    threshold="every stored tensor is there, alive, and has the stored digest; the engine shows no other",
    disproof="the oracle is wrong in the same way: it is judged by known answers of another implementation",
    void="micro is another model than the one the oracle was given, no stored case",
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
    tensors = values = 0
    for case in stored["cases"]:
        seen = run_case(subject.engine(model), case["ids"])
        for name, expected in case["tensors"].items():
            problem = differs(name, seen.pop(name, None), expected)
            if problem:
                return Outcome("FAIL", f"{case['name']}, first difference: {problem}", {"tensors": tensors})
            tensors += 1
            values += int(np.prod(expected["shape"]))
        if seen and not case["partial"]:
            return Outcome("FAIL", f"{case['name']}, {next(iter(seen))} is not among the stored tensors")
    return Outcome("PASS", "", {"cases": len(stored["cases"]), "tensors": tensors, "values": values})


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
        "one bit of one state": (broken.exports_otherwise(lambda steps: True), "rec.delta, row 3: ulp<=1"),
    },
)
