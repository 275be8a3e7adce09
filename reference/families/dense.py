"""Dense decoder: Llama, SmolLM2, Mistral, Qwen2 (q, k, v biases) and Qwen3 (per-head q, k norms before rope).

    h = embed(ids)
    per layer: a = rms_norm(h); q, k, v = linear(a); q, k = rope(q), rope(k); append k, v; h = add(h, linear(attention))
               a = rms_norm(h); h = add(h, linear(swiglu(linear_gate(a), linear_up(a))))
    logits = linear(rms_norm(h), head)            head = embedding table when tied

Source: Touvron et al. 2023, arXiv 2302.13971; Jiang et al. 2023, arXiv 2310.06825; Qwen2, arXiv 2407.10671; Qwen3,
arXiv 2505.09388; contract, section 8.
"""

from typing import TypeVar

import numpy as np

from gnomon.reference.config import Config
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows, Want
from gnomon.reference.weights import Spec

A = TypeVar("A")


def specs(config: Config) -> dict[str, Spec]:
    """Every weight by canonical name. A tied head is a second reading of the embedding, as "head.weight"."""
    D, F = config.width, config.ffn
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    out = {"embed.weight": Spec((config.vocab, D), "table")}
    for i in range(config.layers):
        at = f"blocks.{i}"
        out[f"{at}.ln1.weight"] = Spec((D,), "vector")
        for name, width in (("q", q), ("k", kv), ("v", kv)):
            out[f"{at}.attn.{name}.weight"] = Spec((width, D), "linear")
            if config.qkv_bias:
                out[f"{at}.attn.{name}.bias"] = Spec((width,), "vector")
        if config.qk_norm:
            out[f"{at}.attn.q_norm.weight"] = Spec((config.head_dim,), "vector")
            out[f"{at}.attn.k_norm.weight"] = Spec((config.head_dim,), "vector")
        out[f"{at}.attn.out.weight"] = Spec((D, q), "linear")
        out[f"{at}.ln2.weight"] = Spec((D,), "vector")
        out[f"{at}.mlp.gate.weight"] = Spec((F, D), "linear")
        out[f"{at}.mlp.up.weight"] = Spec((F, D), "linear")
        out[f"{at}.mlp.out.weight"] = Spec((D, F), "linear")
    out["ln_final.weight"] = Spec((D,), "vector")
    out["head.weight"] = Spec((config.vocab, D), "linear")
    return out


def wire(
    ops: Ops[A], config: Config, w: dict[str, Handle], tables: RopeTables, rows: Rows, want: Want
) -> A:
    """See the head of this file. [rows] -> logits [k, vocab], or the last residual [rows, width] for want="none"."""
    h = ops.embed("embed", rows, w["embed.weight"])
    for i in range(config.layers):
        at = f"blocks.{i}"
        a = ops.rms_norm(f"{at}.ln1", h, w[f"{at}.ln1.weight"], config.eps)
        z = attention_block(ops, config, w, tables, rows, i, a)
        out = ops.linear(f"{at}.attn.out", z, w[f"{at}.attn.out.weight"])
        h = ops.add(f"{at}.resid_mid", h, out)
        a = ops.rms_norm(f"{at}.ln2", h, w[f"{at}.ln2.weight"], config.eps)
        gate = ops.linear(f"{at}.mlp.gate", a, w[f"{at}.mlp.gate.weight"])
        up = ops.linear(f"{at}.mlp.up", a, w[f"{at}.mlp.up.weight"])
        act = ops.swiglu(f"{at}.mlp.act", gate, up)
        h = ops.add(f"{at}.resid_post", h, ops.linear(f"{at}.mlp.out", act, w[f"{at}.mlp.out.weight"]))
    if want == "none":
        return h
    h = ops.select("", h, rows, want)
    return ops.linear("logits", ops.rms_norm("ln_final", h, w["ln_final.weight"], config.eps), w["head.weight"])


def attention_block(
    ops: Ops[A], config: Config, w: dict[str, Handle], tables: RopeTables, rows: Rows, i: int, a: A
) -> A:
    """From the normalised rows [rows, width] to the mixed values [rows, heads * d]."""
    at = f"blocks.{i}.attn"
    q = ops.linear(f"{at}.q", a, w[f"{at}.q.weight"], w.get(f"{at}.q.bias"))
    k = ops.linear(f"{at}.k", a, w[f"{at}.k.weight"], w.get(f"{at}.k.bias"))
    v = ops.linear(f"{at}.v", a, w[f"{at}.v.weight"], w.get(f"{at}.v.bias"))
    if config.qk_norm:
        q = ops.rms_norm(f"{at}.q_norm", q, w[f"{at}.q_norm.weight"], config.eps, groups=config.heads)
        k = ops.rms_norm(f"{at}.k_norm", k, w[f"{at}.k_norm.weight"], config.eps, groups=config.kv_heads)
    q = ops.rope(f"{at}.q_rot", q, rows, config.heads, tables)
    k = ops.rope(f"{at}.k_rot", k, rows, config.kv_heads, tables)
    scale = float(np.float32(1.0 / np.sqrt(np.float64(config.head_dim))))
    return ops.attention(at, q, k, v, rows, i, config.kv_heads, scale, config.windows[i])
