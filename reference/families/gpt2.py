"""GPT-2: learned positions, layer norms, biased products, and a plain mlp with gelu.

    h = add(embed(ids), positions)
    per layer: h = add(h, attention(layer_norm(h)));  h = add(h, linear(gelu_tanh(linear(layer_norm(h)))))
    logits = linear(layer_norm(h), head)          head = embedding table

Source: Radford et al. 2019, "Language models are unsupervised multitask learners"; contract, section 8.
"""

from typing import TypeVar

from gnomon.reference.config import Config
from gnomon.reference.families import blocks
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows, Want
from gnomon.reference.weights import Spec

A = TypeVar("A")


def specs(config: Config) -> dict[str, Spec]:
    """Every weight by canonical name; matrices are [outputs, inputs], transposed at load."""
    D, F = config.width, config.ffn
    out = {
        "embed.weight": Spec((config.vocab, D), "table"),
        "positions.weight": Spec((config.max_positions, D), "table"),
    }

    def norm(at: str) -> None:
        out[f"{at}.weight"] = Spec((D,), "vector")
        out[f"{at}.bias"] = Spec((D,), "vector")

    for i in range(config.layers):
        at = f"blocks.{i}"
        norm(f"{at}.ln1")
        out.update(blocks.attention_specs(config, f"{at}.attn"))
        out[f"{at}.attn.out.bias"] = Spec((D,), "vector")
        norm(f"{at}.ln2")
        out[f"{at}.mlp.up.weight"] = Spec((F, D), "linear")
        out[f"{at}.mlp.up.bias"] = Spec((F,), "vector")
        out[f"{at}.mlp.out.weight"] = Spec((D, F), "linear")
        out[f"{at}.mlp.out.bias"] = Spec((D,), "vector")
    norm("ln_final")
    out["head.weight"] = Spec((config.vocab, D), "linear")
    return out


def wire(ops: Ops[A], config: Config, w: dict[str, Handle], tables: RopeTables | None, rows: Rows, want: Want) -> A:
    """See the head of this file. [rows] -> logits [k, vocab], or the last residual [rows, width] for want="none"."""

    def norm(at: str, x: A) -> A:
        return ops.layer_norm(at, x, w[f"{at}.weight"], w[f"{at}.bias"], config.eps)

    h = ops.embed("", rows, w["embed.weight"])
    h = ops.add("embed", h, ops.embed_positions("", rows, w["positions.weight"]))
    for i in range(config.layers):
        at = f"blocks.{i}"
        z = blocks.attention(ops, config, w, tables, rows, i, norm(f"{at}.ln1", h))
        h = ops.add(f"{at}.resid_mid", h, z)
        up = ops.linear(f"{at}.mlp.up", norm(f"{at}.ln2", h), w[f"{at}.mlp.up.weight"], w[f"{at}.mlp.up.bias"])
        act = ops.gelu_tanh(f"{at}.mlp.act", up)
        out = ops.linear(f"{at}.mlp.out", act, w[f"{at}.mlp.out.weight"], w[f"{at}.mlp.out.bias"])
        h = ops.add(f"{at}.resid_post", h, out)
    if want == "none":
        return h
    return ops.linear("logits", norm("ln_final", ops.select("", h, rows, want)), w["head.weight"])
