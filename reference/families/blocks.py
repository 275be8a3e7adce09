"""The parts that families are made of: attention, delta layer, mlp, mixture of experts. Each lists its weights and is
wired by op calls alone."""

import math
from typing import TypeVar

import numpy as np

from gnomon.reference.config import Config
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows
from gnomon.reference.weights import Spec

A = TypeVar("A")
Weights = dict[str, Handle]


def inverse_sqrt(n: int) -> float:
    """1/sqrt(n) as a real number, rounded once to f32."""
    return float(np.float32(1.0 / math.sqrt(n)))


def attention_specs(config: Config, at: str) -> dict[str, Spec]:
    """Weights of an attention layer under `at` = "blocks.{i}.attn"."""
    D, q, kv = config.width, config.heads * config.head_dim, config.kv_heads * config.head_dim
    out = {}
    for name, width in (("q", q * (2 if config.gated else 1)), ("k", kv), ("v", kv)):
        out[f"{at}.{name}.weight"] = Spec((width, D), "linear")
        if config.qkv_bias:
            out[f"{at}.{name}.bias"] = Spec((width,), "vector")
    if config.qk_norm:
        out[f"{at}.q_norm.weight"] = Spec((config.head_dim,), "vector")
        out[f"{at}.k_norm.weight"] = Spec((config.head_dim,), "vector")
    out[f"{at}.out.weight"] = Spec((D, q), "linear")
    return out


def attention(ops: Ops[A], config: Config, w: Weights, tables: RopeTables | None, rows: Rows, i: int, a: A) -> A:
    """Normalised rows [rows, width] -> [rows, width]. A gated layer's q projection holds [query | gate] per head."""
    at = f"blocks.{i}.attn"
    q = ops.linear(f"{at}.q", a, w[f"{at}.q.weight"], w.get(f"{at}.q.bias"))
    k = ops.linear(f"{at}.k", a, w[f"{at}.k.weight"], w.get(f"{at}.k.bias"))
    v = ops.linear(f"{at}.v", a, w[f"{at}.v.weight"], w.get(f"{at}.v.bias"))
    gate = None
    if config.gated:
        q, gate = ops.split(("", f"{at}.gate"), q, (config.head_dim, config.head_dim), config.heads)
    if config.qk_norm:
        q = ops.rms_norm(f"{at}.q_norm", q, w[f"{at}.q_norm.weight"], config.eps, groups=config.heads)
        k = ops.rms_norm(f"{at}.k_norm", k, w[f"{at}.k_norm.weight"], config.eps, groups=config.kv_heads)
    if tables is not None:
        q = ops.rope(f"{at}.q_rot", q, rows, config.heads, tables)
        k = ops.rope(f"{at}.k_rot", k, rows, config.kv_heads, tables)
    scale = inverse_sqrt(config.head_dim)
    z = ops.attention(at, q, k, v, rows, i, config.kv_heads, scale, config.windows[i])
    if gate is not None:
        z = ops.mul(f"{at}.gated", z, ops.sigmoid("", gate))
    return ops.linear(f"{at}.out", z, w[f"{at}.out.weight"], w.get(f"{at}.out.bias"))


def delta_specs(config: Config, at: str) -> dict[str, Spec]:
    """Weights of a delta layer under `at` = "blocks.{i}.delta"."""
    d = config.delta
    assert d is not None
    values = d.value_heads * d.dv
    return {
        f"{at}.qkv.weight": Spec((d.channels, config.width), "linear"),
        f"{at}.z.weight": Spec((values, config.width), "linear"),
        f"{at}.b.weight": Spec((d.value_heads, config.width), "linear"),
        f"{at}.a.weight": Spec((d.value_heads, config.width), "linear"),
        f"{at}.conv.weight": Spec((d.channels, d.conv), "table"),
        f"{at}.a_log.weight": Spec((d.value_heads,), "decay"),
        f"{at}.dt.bias": Spec((d.value_heads,), "vector"),
        f"{at}.norm.weight": Spec((d.dv,), "vector"),
        f"{at}.out.weight": Spec((config.width, values), "linear"),
    }


def delta(ops: Ops[A], config: Config, w: Weights, rows: Rows, i: int, a: A) -> A:
    """Normalised rows [rows, width] -> [rows, width] through convolution and delta rule."""
    at, d = f"blocks.{i}.delta", config.delta
    assert d is not None
    qkv = ops.linear(f"{at}.qkv", a, w[f"{at}.qkv.weight"])
    z = ops.linear(f"{at}.z", a, w[f"{at}.z.weight"])
    beta = ops.sigmoid(f"{at}.beta", ops.linear("", a, w[f"{at}.b.weight"]))
    decay = ops.delta_decay(
        f"{at}.decay", ops.linear("", a, w[f"{at}.a.weight"]), w[f"{at}.a_log.weight"], w[f"{at}.dt.bias"]
    )
    conv_out = ops.causal_conv(f"{at}.conv_out", qkv, w[f"{at}.conv.weight"], rows, i)
    keys, values = d.key_heads * d.dk, d.value_heads * d.dv
    q, k, v = ops.split(("", "", f"{at}.v"), conv_out, (keys, keys, values))
    q = ops.l2_norm(f"{at}.q", q, d.key_heads, inverse_sqrt(d.dk))
    k = ops.l2_norm(f"{at}.k", k, d.key_heads)
    o = ops.delta_rule(f"{at}.o", q, k, v, decay, beta, rows, i, d.key_heads, d.value_heads)
    o = ops.gated_norm(f"{at}.gated", o, w[f"{at}.norm.weight"], z, config.eps, d.value_heads)
    return ops.linear(f"{at}.out", o, w[f"{at}.out.weight"])


def mlp_specs(config: Config, at: str, ffn: int) -> dict[str, Spec]:
    """Weights of a gated mlp under `at`."""
    return {
        f"{at}.gate.weight": Spec((ffn, config.width), "linear"),
        f"{at}.up.weight": Spec((ffn, config.width), "linear"),
        f"{at}.out.weight": Spec((config.width, ffn), "linear"),
    }


def mlp(ops: Ops[A], w: Weights, at: str, a: A) -> A:
    """linear(swiglu(linear_gate(a), linear_up(a)))"""
    gate = ops.linear(f"{at}.gate", a, w[f"{at}.gate.weight"])
    up = ops.linear(f"{at}.up", a, w[f"{at}.up.weight"])
    return ops.linear(f"{at}.out", ops.swiglu(f"{at}.act", gate, up), w[f"{at}.out.weight"])


def moe_specs(config: Config, at: str) -> dict[str, Spec]:
    """Weights of a mixture of experts under `at` = "blocks.{i}.mlp"."""
    moe = config.moe
    assert moe is not None
    out = {f"{at}.router.weight": Spec((moe.experts, config.width), "linear")}
    for e in range(moe.experts):
        out |= mlp_specs(config, f"{at}.experts.{e}", moe.ffn)
    if moe.shared_ffn:
        out |= mlp_specs(config, f"{at}.shared", moe.shared_ffn)
        out[f"{at}.shared_gate.weight"] = Spec((1, config.width), "linear")
    return out


def moe(ops: Ops[A], config: Config, w: Weights, at: str, a: A) -> A:
    """The chosen experts by id ascending, a shared expert last."""
    moe = config.moe
    assert moe is not None
    p = ops.route(f"{at}.probs", ops.linear(f"{at}.router", a, w[f"{at}.router.weight"]), moe.top_k, moe.normalise)
    names = [f"{at}.experts.{e}" for e in range(moe.experts)]
    weights = [(w[f"{n}.gate.weight"], w[f"{n}.up.weight"], w[f"{n}.out.weight"]) for n in names]
    if not moe.shared_ffn:
        return ops.experts(f"{at}.out", a, p, weights)
    y = ops.experts(f"{at}.experts", a, p, weights)
    gate = ops.sigmoid("", ops.linear(f"{at}.shared_gate", a, w[f"{at}.shared_gate.weight"]))  # [rows, 1]
    return ops.add(f"{at}.out", y, ops.mul("", mlp(ops, w, f"{at}.shared", a), gate))
