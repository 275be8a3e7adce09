"""Contract, section 8: the wiring of a decoder, one float at a time, with every tensor by the name of its tap.

Covers what `micro` holds: attention (grouped queries, window, rope), convolution and delta rule, gated mlp.
config: names and numbers as plain Python values; weights: nested lists by canonical name, as they are stored.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from oracle.arms import linear as linear_in
from oracle.attention import attention, usual_scale
from oracle.elementary import sigmoid
from oracle.f32 import mul, settle
from oracle.norms import gated_norm, l2_norm, rms_norm
from oracle.recurrent import causal_conv, delta_decay, delta_rule
from oracle.rope import inverse_frequencies, rope, tables
from oracle.rowwise import add, embed, swiglu

Matrix = list[list[float]]
Heads = list[Matrix]
Weights = dict[str, Any]
Config = dict[str, Any]
Linear = Callable[[Matrix, Matrix], Matrix]


class Run(NamedTuple):
    """Nested lists by name. tensors: as a tap sees them, in execution order; state: as it is exported"""

    tensors: dict[str, Any]
    state: dict[str, Any]


def run(config: Config, stored: Weights, ids: list[int], arm: str = "f32") -> Run:
    """All of `ids` in one step from an empty state. arm: of every linear"""

    def linear(x: Matrix, weights: Matrix) -> Matrix:
        return linear_in(x, weights, arm=arm)

    out = Run({}, {})
    w = {name: loaded(values) for name, values in stored.items()}
    h = out.tensors["embed"] = embed(ids, w["embed.weight"])
    for i, kind in enumerate(config["kinds"]):
        at = f"blocks.{i}"
        a = out.tensors[f"{at}.ln1"] = normed(h, w[f"{at}.ln1.weight"], config)
        if kind == "delta":
            mixed = delta_layer(config, w, stored[f"{at}.delta.a_log.weight"], i, a, out, linear)
        else:
            mixed = attention_layer(config, w, i, a, out, linear)
        h = out.tensors[f"{at}.resid_mid"] = added(h, mixed)
        a = out.tensors[f"{at}.ln2"] = normed(h, w[f"{at}.ln2.weight"], config)
        gate = out.tensors[f"{at}.mlp.gate"] = linear(a, w[f"{at}.mlp.gate.weight"])
        up = out.tensors[f"{at}.mlp.up"] = linear(a, w[f"{at}.mlp.up.weight"])
        act = [swiglu(g, u) for g, u in zip(gate, up, strict=True)]
        out.tensors[f"{at}.mlp.act"] = act
        down = out.tensors[f"{at}.mlp.out"] = linear(act, w[f"{at}.mlp.out.weight"])
        h = out.tensors[f"{at}.resid_post"] = added(h, down)
    last = out.tensors["ln_final"] = normed(h, w["ln_final.weight"], config)
    out.tensors["logits"] = linear(last, w["head.weight"])
    return out


def attention_layer(config: Config, w: Weights, i: int, a: Matrix, out: Run, linear: Linear) -> Matrix:
    """Normalised rows -> rows of the same width"""
    at, kv = f"blocks.{i}.attn", f"blocks.{i}.kv"
    heads, kv_heads, pos = config["heads"], config["kv_heads"], list(range(len(a)))
    for name in "qkv":
        out.tensors[f"{at}.{name}"] = linear(a, w[f"{at}.{name}.weight"])
    cos, sin = tables(pos, inverse_frequencies(config["rope"]["theta"], config["rope"]["dim"]))
    q, k = (
        [
            [rope(head, c, s) for head in parts(row, n)]
            for row, c, s in zip(out.tensors[f"{at}.{name}"], cos, sin, strict=True)
        ]
        for name, n in (("q", heads), ("k", kv_heads))
    )
    v = [parts(row, kv_heads) for row in out.tensors[f"{at}.v"]]
    out.tensors.update({f"{at}.q_rot": flat(q), f"{at}.k_rot": flat(k), f"{kv}.k": flat(k), f"{kv}.v": flat(v)})
    out.state.update({f"{kv}.k": k, f"{kv}.v": v})
    steps = attention(q, k, v, pos, usual_scale(config["head_dim"]), config["windows"][i])
    z = flat(steps.z)
    out.tensors.update({f"{at}.scores": steps.scores, f"{at}.exp": steps.exp, f"{at}.denom": steps.denom, f"{at}.z": z})
    result = out.tensors[f"{at}.out"] = linear(z, w[f"{at}.out.weight"])
    return result


def delta_layer(config: Config, w: Weights, a_log: list[float], i: int, a: Matrix, out: Run, linear: Linear) -> Matrix:
    """Normalised rows -> rows of the same width. a_log: as it is stored, since only -exp(a_log) is settled"""
    at, d = f"blocks.{i}.delta", config["delta"]
    keys, values = d["key_heads"] * d["dk"], d["value_heads"] * d["dv"]
    qkv = linear(a, w[f"{at}.qkv.weight"])
    z = linear(a, w[f"{at}.z.weight"])
    beta = [[sigmoid(x) for x in row] for row in linear(a, w[f"{at}.b.weight"])]
    decay = [delta_decay(row, a_log, w[f"{at}.dt.bias"]) for row in linear(a, w[f"{at}.a.weight"])]
    empty = [[0.0] * len(qkv[0]) for _ in range(d["conv"] - 1)]
    conv_out, conv_state = causal_conv(qkv, w[f"{at}.conv.weight"], empty)
    q = [parts(row[:keys], d["key_heads"]) for row in conv_out]
    k = [parts(row[keys : 2 * keys], d["key_heads"]) for row in conv_out]
    v = [parts(row[2 * keys : 2 * keys + values], d["value_heads"]) for row in conv_out]
    nothing = [[[0.0] * d["dv"] for _ in range(d["dk"])] for _ in range(d["value_heads"])]
    o, delta_state = delta_rule(q, k, v, decay, beta, nothing)
    by_head = [
        [
            gated_norm(x, w[f"{at}.norm.weight"], g, config["eps"])
            for x, g in zip(row, parts(gate, len(row)), strict=True)
        ]
        for row, gate in zip(o, z, strict=True)
    ]
    scale = usual_scale(d["dk"])
    out.tensors.update(
        {
            f"{at}.qkv": qkv,
            f"{at}.z": z,
            f"{at}.beta": beta,
            f"{at}.decay": decay,
            f"{at}.conv_out": conv_out,
            f"{at}.v": flat(v),
            f"{at}.q": flat([[[settle(mul(x, scale)) for x in l2_norm(head)] for head in row] for row in q]),
            f"{at}.k": flat([[l2_norm(head) for head in row] for row in k]),
            f"{at}.o": flat(o),
            f"{at}.gated": flat(by_head),
        }
    )
    out.state.update({f"blocks.{i}.rec.conv": conv_state, f"blocks.{i}.rec.delta": delta_state})
    result = out.tensors[f"{at}.out"] = linear(flat(by_head), w[f"{at}.out.weight"])
    return result


def loaded(values: Any) -> Any:
    """Stored numbers after loading: settled."""
    return [loaded(value) for value in values] if isinstance(values, list) else settle(values)


def normed(h: Matrix, w: list[float], config: Config) -> Matrix:
    return [rms_norm(row, w, config["eps"]) for row in h]


def added(x: Matrix, y: Matrix) -> Matrix:
    return [add(a, b) for a, b in zip(x, y, strict=True)]


def parts(row: list[float], n: int) -> Matrix:
    """A row as n heads."""
    d = len(row) // n
    return [row[start : start + d] for start in range(0, len(row), d)]


def flat(heads: Heads) -> Matrix:
    """Heads of a row, side by side."""
    return [[x for head in row for x in head] for row in heads]
