"""How each known answer is run: from the arrays of a case to the outputs of the op table of an engine."""

import math
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32, Ops, Rows
from gnomon.reference.state import State
from gnomon.reference.weights import Role, Weight

Arrays = dict[str, NDArray[Any]]
WIDEST = 4096  # entries of a head that turn
Runner = Callable[[Ops[Any], Arrays, dict[str, Any]], Arrays | None]


def elementary(name: str, argument: str = "x") -> Runner:
    def run(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays | None:
        function = ops.elementary().get(name)
        return None if function is None else {"y": ops.numpy(function(ops.array(inputs[argument])))}

    return run


def packed(ops: Ops[Any], values: F32, role: Role) -> Any:
    """A handle for these values, stored as f32."""
    data = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(values.shape[0], -1)
    return ops.pack(Weight("w", "F32", values.shape, data, role))


def linear(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    x, w = ops.array(inputs["x"]), packed(ops, inputs["w"], "linear")
    plain = ops.numpy(ops.linear("", x, w))
    if "b" not in inputs:
        return {"y": plain, "y_nobias": plain}
    return {"y": ops.numpy(ops.linear("", x, w, packed(ops, inputs["b"], "vector"))), "y_nobias": plain}


def swiglu(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    shape = inputs["gate"].shape
    gate, up = (ops.array(inputs[name].reshape(1, -1)) for name in ("gate", "up"))
    ways = {"y": ops.swiglu("", gate, up), "y, composed": Ops.swiglu(ops, "", gate, up)}
    return {way: ops.numpy(y).reshape(shape) for way, y in ways.items()}


def rms_norm(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    w = packed(ops, inputs["w"], "vector")
    return {"y": ops.numpy(ops.rms_norm("", ops.array(inputs["x"]), w, params["eps"]))}


def tables(params: dict[str, Any]) -> RopeTables:
    """Those of a case, of a width whose real numbers can be computed."""
    if params["dim"] > WIDEST:
        raise ValueError(f"Expected a rotary width of at most {WIDEST} but got {params['dim']}")
    return RopeTables(params["theta"], params["dim"])


def rope_tables(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    cos, sin = tables(params).at(np.arange(12))
    return {"cos": cos, "sin": sin}


def rope(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    x, pos = inputs["x"], inputs["pos"]  # [R, H, d], [R]
    rotation = tables(params)
    rows = Rows(np.zeros(len(pos), np.int32), pos, ())
    y = ops.numpy(ops.rope("", ops.array(x.reshape(len(x), -1)), rows, x.shape[1], rotation))
    cos, sin = rotation.at(pos)
    return {"y": y.reshape(x.shape), "cos": cos, "sin": sin}


def attention(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    """Each row by itself, in four ways: as the engine attends when nobody watches and composed of its steps, which is
    what a tap of scores sees; and both in decode, where the positions before are in the state and the row's own k and v
    arrive with it, and in a prefill, where all of them arrive at once."""
    ways: dict[str, list[F32]] = {}
    for row, p in enumerate(inputs["pos"].tolist()):
        for end, attend in (("", ops.attention), (", composed", partial(Ops.attention, ops))):
            ways.setdefault(f"y{end}", []).append(attended(ops, attend, inputs, params, row, (0, p, p + 1)))
            ways.setdefault(f"y, prefill{end}", []).append(attended(ops, attend, inputs, params, row, (0, p + 1)))
    return {way: np.stack(rows) for way, rows in ways.items()}


def attended(
    ops: Ops[Any], attend: Callable[..., Any], inputs: Arrays, params: dict[str, Any], row: int, cuts: tuple[int, ...]
) -> F32:
    """What a row of queries reads at the last position, whose keys and values arrive in steps that end at `cuts`."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]  # [R, H, d], [T, Hkv, d] twice
    scale, window = read_scale(params["scale"]), params.get("window")
    state, y = State(ops, [ops.new_cache(0)]), None
    for start, stop in pairwise(cuts):
        if start == stop:
            continue
        rows = Rows.of([(state, [0] * (stop - start))])
        new_k, new_v = (ops.array(x[start:stop].reshape(stop - start, -1)) for x in (k, v))
        new_q = ops.array(np.repeat(q[row].reshape(1, -1), stop - start, axis=0))
        y = attend("", new_q, new_k, new_v, rows, 0, k.shape[1], scale, window)
        ops.finish(rows, [y])
        state.commit([0] * (stop - start))
    last: F32 = ops.numpy(y)[-1].reshape(q.shape[1:])
    return last


def read_scale(text: str | float) -> float:
    """A number, or "1/sqrt(n)" rounded once to f32."""
    match = re.fullmatch(r"1/sqrt\((\d+)\)", str(text))
    return float(np.float32(1.0 / math.sqrt(int(match[1])) if match else float(text)))


def arm_linear(arm: str) -> Runner:
    """The same op in another arm: the table is made anew, as its arm is fixed when it is made."""

    def run(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays | None:
        other = ops.with_forms(arm=arm)
        return None if other is None else linear(other, inputs, params)

    return run


def stored_kv(kv: str) -> Runner:
    """What a later read sees of appended keys: x [T, H, d] -> y, the same shape."""

    def run(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays | None:
        other, x = ops.with_forms(kv=kv), inputs["x"]
        if other is None:
            return None
        state = State(other, [other.new_cache(0)])
        rows = Rows.of([(state, [0] * len(x))])
        flat = other.array(x.reshape(len(x), -1))
        other.kv_append("", flat, flat, rows, 0, x.shape[1])
        k, _ = other.appended(rows, 0)
        return {"y": other.numpy(k).reshape(x.shape)}

    return run


def layer_norm(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    w, b = (packed(ops, inputs[name], "vector") for name in ("w", "b"))
    return {"y": ops.numpy(ops.layer_norm("", ops.array(inputs["x"]), w, b, params["eps"]))}


def l2_norm(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    return {"y": ops.numpy(ops.l2_norm("", ops.array(inputs["x"]), 1))}


def gated_norm(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    o, z = (inputs[name] for name in ("o", "z"))  # [R, H, dv]
    flat_o, flat_z = (ops.array(x.reshape(len(x), -1)) for x in (o, z))
    given = (flat_o, packed(ops, inputs["w"], "vector"), flat_z, params["eps"], o.shape[1])
    ways = {"y": ops.gated_norm("", *given), "y, composed": Ops.gated_norm(ops, "", *given)}
    return {way: ops.numpy(y).reshape(o.shape) for way, y in ways.items()}


def causal_conv(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    """The state of the case is what rows before it left behind: it is loaded as a cache."""
    x, conv = inputs["x"], inputs["state"]  # [R, C], [taps - 1, C]
    state = State(ops, [ops.load_cache({"rec.conv": conv, "rec.delta": np.zeros((1, 1, 1), np.float32)})])
    rows = Rows.of([(state, [0] * len(x))])
    y = ops.causal_conv("", ops.array(x), packed(ops, inputs["w"], "table"), rows, 0)
    return {"y": ops.numpy(y), "state": after(ops, state, rows, y)["rec.conv"]}


def delta_decay(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    neg_a, dt_bias = packed(ops, inputs["A_log"], "decay"), packed(ops, inputs["dt_bias"], "vector")
    return {"g": ops.numpy(ops.delta_decay("", ops.array(inputs["a"]), neg_a, dt_bias))}


def delta_rule(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]  # [R, H, dk] twice, before l2_norm; [R, H, dv]
    heads, dk = q.shape[1:]
    conv = np.zeros((1, 1), np.float32)
    state = State(ops, [ops.load_cache({"rec.conv": conv, "rec.delta": inputs["state"]})])
    rows = Rows.of([(state, [0] * len(q))])
    flat_q, flat_k, flat_v = (ops.array(x.reshape(len(x), -1)) for x in (q, k, v))
    unit_q = ops.l2_norm("", flat_q, heads, read_scale(f"1/sqrt({dk})"))
    unit_k = ops.l2_norm("", flat_k, heads)
    g, beta = ops.array(inputs["g"]), ops.array(inputs["beta"])
    o = ops.delta_rule("", unit_q, unit_k, flat_v, g, beta, rows, 0, heads, heads)
    return {"o": ops.numpy(o).reshape(v.shape), "state": after(ops, state, rows, o)["rec.delta"]}


def route(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    return {"p": ops.numpy(ops.route("", ops.array(inputs["logits"]), params["top_k"], params["normalise"]))}


def sampler(ops: Ops[Any], inputs: Arrays, params: dict[str, Any]) -> Arrays:
    """Host integers, the same for every engine."""
    draws = ((Sampling(t, top_k, top_p, seed), position) for t, top_k, top_p, seed, position in params["draws"])
    return {"ids": np.array([sample(inputs["logits"], how, position) for how, position in draws], np.int64)}


def after(ops: Ops[Any], state: State, rows: Rows, result: Any) -> Arrays:
    """Layer 0 of the state once the step is committed."""
    ops.finish(rows, [result])
    state.commit(rows.ids.tolist())
    return ops.export_cache(state, 0)


RUNNERS: dict[str, Runner] = {
    **{name: elementary(name) for name in ("settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus")},
    "log1p01": elementary("log1p01", "u"),
    "chunked_sum": elementary("chunked_sum", "t"),
    "linear": linear,
    "linear_bf16": arm_linear("bf16"),
    "linear_int8": arm_linear("int8"),
    "swiglu": swiglu,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "l2_norm": l2_norm,
    "gated_norm": gated_norm,
    "rope": rope,
    "rope_tables": rope_tables,
    "attention": attention,
    "kv_bf16": stored_kv("bf16"),
    "kv_int8": stored_kv("int8"),
    "causal_conv": causal_conv,
    "delta_decay": delta_decay,
    "delta_rule": delta_rule,
    "route": route,
    "sample": sampler,
}
