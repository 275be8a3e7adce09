"""Decoders with rms_norm, rope and a gated mlp: Llama, SmolLM2, Mistral, Qwen2 (q, k, v biases), Qwen3 (per-head q, k
norms before rope), Qwen3-MoE, and the hybrids Qwen3-Next and Qwen3.5 (delta layers beside gated attention).

    h = embed(ids)
    per layer: h = add(h, attention or delta (rms_norm(h)));  h = add(h, mlp or experts (rms_norm(h)))
    logits = linear(rms_norm(h), head)            head = embedding table when tied

Source: Touvron et al. 2023, arXiv 2302.13971; Jiang et al. 2023, arXiv 2310.06825; Qwen2, arXiv 2407.10671; Qwen3,
arXiv 2505.09388; Yang et al. 2024, arXiv 2412.06464; contract, section 8.
"""

from typing import TypeVar

from gnomon.reference.config import Config
from gnomon.reference.families import blocks
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows, Want
from gnomon.reference.weights import Spec

A = TypeVar("A")


def specs(config: Config) -> dict[str, Spec]:
    """Every weight by canonical name. A tied head is a second reading of the embedding, as "head.weight"."""
    D = config.width
    out = {"embed.weight": Spec((config.vocab, D), "table")}
    for i, kind in enumerate(config.kinds):
        at = f"blocks.{i}"
        out[f"{at}.ln1.weight"] = Spec((D,), "vector")
        if kind == "delta":
            out |= blocks.delta_specs(config, f"{at}.delta")
        else:
            out |= blocks.attention_specs(config, f"{at}.attn")
        out[f"{at}.ln2.weight"] = Spec((D,), "vector")
        if config.moe is not None and i in config.moe.layers:
            out |= blocks.moe_specs(config, f"{at}.mlp")
        else:
            out |= blocks.mlp_specs(config, f"{at}.mlp", config.ffn)
    out["ln_final.weight"] = Spec((D,), "vector")
    out["head.weight"] = Spec((config.vocab, D), "linear")
    return out


def wire(ops: Ops[A], config: Config, w: dict[str, Handle], tables: RopeTables | None, rows: Rows, want: Want) -> A:
    """See the head of this file. [rows] -> logits [k, vocab], or the last residual [rows, width] for want="none"."""
    h = ops.embed("embed", rows, w["embed.weight"])
    for i, kind in enumerate(config.kinds):
        at = f"blocks.{i}"
        a = ops.rms_norm(f"{at}.ln1", h, w[f"{at}.ln1.weight"], config.eps)
        if kind == "delta":
            mixed = blocks.delta(ops, config, w, rows, i, a)
        else:
            mixed = blocks.attention(ops, config, w, tables, rows, i, a)
        h = ops.add(f"{at}.resid_mid", h, mixed)
        a = ops.rms_norm(f"{at}.ln2", h, w[f"{at}.ln2.weight"], config.eps)
        if config.moe is not None and i in config.moe.layers:
            out = blocks.moe(ops, config, w, f"{at}.mlp", a)
        else:
            out = blocks.mlp(ops, w, f"{at}.mlp", a)
        h = ops.add(f"{at}.resid_post", h, out)
    if want == "none":
        return h
    h = ops.select("", h, rows, want)
    return ops.linear("logits", ops.rms_norm("ln_final", h, w["ln_final.weight"], config.eps), w["head.weight"])
