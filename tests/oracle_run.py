"""Each op of the vector files by the oracle: from the inputs and params of a file to its outputs, as nested lists."""

from collections.abc import Callable
from typing import Any

from oracle import arms, attention, elementary, experts, f32, norms, recurrent, rope, rowwise, sampler

Runner = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]  # inputs, params -> outputs


def words(values: Any) -> list[int]:
    """Nested lists as one flat list: f32 numbers as their bits, zeros included; integers as they are."""
    if isinstance(values, list | tuple):
        return [word for value in values for word in words(value)]
    return [values if isinstance(values, int) else f32.bits(values)]


def each(function: Callable[..., Any], *rows: Any) -> Any:
    """The function of each row (or element) of nested lists."""
    return [function(*row) for row in zip(*rows, strict=True)]


def usual_scale(params: dict[str, Any]) -> float:
    return attention.usual_scale(int(params["scale"].removeprefix("1/sqrt(").removesuffix(")")))


def rotate(x: Any, pos: list[int], params: dict[str, Any]) -> dict[str, Any]:
    cos, sin = rope.tables(pos, rope.inverse_frequencies(params["theta"], params["dim"]))
    y = [[rope.rope(head, c, s) for head in heads] for heads, c, s in zip(x, cos, sin, strict=True)]
    return {"y": y, "cos": cos, "sin": sin}


def delta_rule(i: dict[str, Any]) -> dict[str, Any]:
    o, state = recurrent.delta_rule(i["q"], i["k"], i["v"], i["g"], i["beta"], i["state"])
    return {"o": o, "state": state}


def convolve(i: dict[str, Any]) -> dict[str, Any]:
    y, state = recurrent.causal_conv(i["x"], i["w"], i["state"])
    return {"y": y, "state": state}


def routed(row: list[float], params: dict[str, Any]) -> list[float]:
    chosen = experts.route(row, params["top_k"], params["normalise"])
    return [chosen.get(expert, 0.0) for expert in range(len(row))]


def by_head(function: Callable[..., list[float]], x: Any, *rest: Any) -> Any:
    """The function of every head of every row."""
    return [each(function, *heads) for heads in zip(x, *rest, strict=True)]


def elementwise(function: Callable[[float], float]) -> Runner:
    return lambda i, p: {"y": each(function, i["x"])}


RUN: dict[str, Runner] = {
    "settle": elementwise(f32.settle),
    "exp_neg": elementwise(elementary.exp_neg),
    "sigmoid": elementwise(elementary.sigmoid),
    "silu": elementwise(elementary.silu),
    "gelu_tanh": elementwise(elementary.gelu_tanh),
    "softplus": elementwise(elementary.softplus),
    "log1p01": lambda i, p: {"y": each(elementary.log1p01, i["u"])},
    "chunked_sum": lambda i, p: {"y": each(f32.chunked_sum, i["t"])},
    "swiglu": lambda i, p: {"y": rowwise.swiglu(i["gate"], i["up"])},
    "linear": lambda i, p: {
        "y": arms.linear(i["x"], i["w"], i.get("b")),
        "y_nobias": arms.linear(i["x"], i["w"]),
    },
    "linear_bf16": lambda i, p: {"y": arms.linear(i["x"], i["w"], i["b"], "bf16")},
    "linear_int8": lambda i, p: {"y": arms.linear(i["x"], i["w"], i["b"], "int8")},
    "kv_bf16": lambda i, p: {"y": by_head(lambda x: arms.stored(x, "bf16"), i["x"])},
    "kv_int8": lambda i, p: {"y": by_head(lambda x: arms.stored(x, "int8"), i["x"])},
    "rms_norm": lambda i, p: {"y": [norms.rms_norm(x, i["w"], p["eps"]) for x in i["x"]]},
    "layer_norm": lambda i, p: {"y": [norms.layer_norm(x, i["w"], i["b"], p["eps"]) for x in i["x"]]},
    "l2_norm": lambda i, p: {"y": each(norms.l2_norm, i["x"])},
    "gated_norm": lambda i, p: {"y": by_head(lambda o, z: norms.gated_norm(o, i["w"], z, p["eps"]), i["o"], i["z"])},
    "rope_tables": lambda i, p: rotate([[]] * 12, list(range(12)), p),
    "rope": lambda i, p: rotate(i["x"], i["pos"], p),
    "attention": lambda i, p: {
        "y": attention.attention(i["q"], i["k"], i["v"], i["pos"], usual_scale(p), p.get("window")).z
    },
    "causal_conv": lambda i, p: convolve(i),
    "delta_decay": lambda i, p: {"g": [recurrent.delta_decay(a, i["A_log"], i["dt_bias"]) for a in i["a"]]},
    "delta_rule": lambda i, p: delta_rule(i),
    "route": lambda i, p: {"p": [routed(row, p) for row in i["logits"]]},
    "sample": lambda i, p: {"ids": [sampler.sample(i["logits"], *draw) for draw in p["draws"]]},
}
