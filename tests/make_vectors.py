"""Make the vector files that the independent implementation does not have: `python tests/make_vectors.py`.

NAME_ones.json divides by 2 - 2^-23, whose mantissa is all ones; NAME_floor.json ends at 2^-50, the floor of settling.
Inputs are those of the op cases (tests/cases/hard.py), outputs are the oracle's, which the other files judge and which
shares no line with the package. test_oracle.py makes them anew and compares every byte.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE.parent / "api" / "vectors"
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402 - the oracle lies beside this script

from cases import attention, hard, recurrent  # noqa: E402
from cases.values import F32  # noqa: E402
from oracle import f32  # noqa: E402
from oracle_run import RUN, words  # noqa: E402

Inputs = dict[str, Any]
NOTES = {
    "ones": "a divisor of 2 - 2^-23: an approximate reciprocal one place low never leaves one half",
    "floor": "results of 2^-50, which stay, and of the place below, which are zero",
}


def ones() -> dict[str, tuple[dict[str, Any], Inputs]]:
    """params and inputs by op"""
    eps, root = 1e-5, f32.from_bits(hard.ROOT_TO_ONES[1e-5])
    wide = np.zeros((2, 64), np.float32)
    wide[0, 40], wide[1, 3] = 8 * root, -8 * root
    unit = np.ones(64, np.float32)
    positive = hard.TO_ONES[: len(hard.TO_ONES) // 2]
    q, k, v = attention.inputs("ones", "", 1, 1, 2, 1, 1)
    logits = np.array([-1.0, -hard.ONES / 2, 0.0], np.float32)  # by 2 - 2^-23 the second is -0.5, the first below it
    return {
        "sigmoid": ({}, {"x": hard.TO_ONES}),
        "silu": ({}, {"x": hard.TO_ONES}),
        "gelu_tanh": ({}, {"x": hard.GELU_TO_ONES}),
        "swiglu": ({}, {"gate": positive, "up": np.resize(np.array([1, -3, 0.75], np.float32), positive.shape)}),
        "rms_norm": ({"eps": eps}, {"x": wide, "w": unit}),
        "layer_norm": ({"eps": eps}, {"x": np.array([[root, -root]], np.float32), "w": unit[:2], "b": unit[:2] * 0}),
        "l2_norm": ({}, {"x": hard.of_bits(hard.ROOT_TO_ONES[1e-6])[None]}),
        "gated_norm": ({"eps": eps}, {"o": wide[:, None], "w": unit, "z": np.full((2, 1, 64), 3, np.float32)}),
        "linear_int8": ({}, {"x": hard.QUANTA, "w": hard.EYE, "b": np.zeros(5, np.float32)}),
        "kv_int8": ({}, {"x": hard.QUANTA[:, None]}),
        "attention": ({"scale": "1/sqrt(1)"}, {"q": q, "k": k, "v": v, "pos": np.array([1])}),
        "route": ({"top_k": 2, "normalise": True}, {"logits": np.array([[2.0**-23, 0, -15.942385]], np.float32)}),
        "sample": ({"draws": [[hard.ONES, 2, 1.0, 7, position] for position in range(8)]}, {"logits": logits}),
    }


def floor() -> dict[str, tuple[dict[str, Any], Inputs]]:
    none = np.zeros_like(hard.BY_SINE)
    heads = [(hard.BY_COSINE, none), (none, -hard.BY_COSINE), (hard.BY_SINE, none), (none, hard.BY_SINE)]
    turned = np.stack([np.concatenate(head) for head in heads])
    q, k, v = attention.inputs("floor", "vector", 1, 2, 8, 4, 1)
    rule = recurrent.floor_inputs("vector", 3, (4, 4, 4, 12))
    decays = recurrent.floor_decays()
    unit = np.ones_like(hard.ROW)
    return {
        "silu": ({}, {"x": hard.SMALL}),
        "gelu_tanh": ({}, {"x": hard.SMALL}),
        "linear": ({}, {"x": hard.X, "w": hard.W, "b": hard.BIAS}),
        "linear_bf16": ({}, {"x": hard.X, "w": hard.W, "b": hard.BIAS}),
        "linear_int8": ({}, {"x": hard.X8, "w": hard.W8, "b": hard.BIAS}),
        "rms_norm": ({"eps": 4.0}, {"x": hard.ROW[None], "w": hard.GAIN}),
        "layer_norm": ({"eps": 4.0}, {"x": hard.OPPOSITE, "w": hard.GAIN.repeat(2), "b": hard.SHIFT.repeat(2)}),
        "l2_norm": ({}, {"x": hard.LARGE}),
        "gated_norm": ({"eps": 4.0}, {"o": hard.ROW[None, None], "w": unit, "z": unit[None, None] * 2.0**-24}),
        "rope": ({"theta": 10000.0, "dim": 10}, {"x": np.stack([turned, turned]), "pos": np.array([0, 1])}),
        "attention": ({"scale": "1/sqrt(1)"}, {"q": q, "k": k, "v": v, "pos": np.array([1, 2])}),
        "delta_rule": ({}, dict(zip(("q", "k", "v", "g", "beta", "state"), rule, strict=True))),
        "delta_decay": ({}, dict(zip(("a", "A_log", "dt_bias"), decays, strict=True))),
    }


def array(values: F32 | np.ndarray) -> dict[str, Any]:
    """An array as the files hold it"""
    shape = list(values.shape)
    if values.dtype == np.int64:
        return {"dtype": "i64", "shape": shape, "values": values.reshape(-1).tolist()}
    assert values.dtype == np.float32
    return {"dtype": "f32", "shape": shape, "bits": [f"{word:08x}" for word in words(values.tolist())]}


def made() -> dict[str, str]:
    """The text of each file by its name"""
    out = {}
    for kind, listed in (("ones", ones()), ("floor", floor())):
        for op, (params, inputs) in listed.items():
            results = RUN[op]({name: x.tolist() for name, x in inputs.items()}, params)
            kept = {name: y for name, y in results.items() if op != "rope" or name == "y"}
            outputs = {name: array(np.array(y, np.int64 if op == "sample" else np.float32)) for name, y in kept.items()}
            given = {name: array(x) for name, x in inputs.items()}
            case = {"op": f"{op}_{kind}", "note": NOTES[kind], "params": params, "inputs": given, "outputs": outputs}
            out[f"{op}_{kind}"] = json.dumps(case, indent=0)
    return out


if __name__ == "__main__":
    for name, text in made().items():
        (OUT / f"{name}.json").write_text(text)
