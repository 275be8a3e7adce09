"""Where a Hugging Face file has each weight of a decoder: names, and the parts of tensors that hold several weights."""

import re
from collections.abc import Callable, Collection
from itertools import accumulate

import numpy as np

from gnomon.reference.config import Config, Delta, Moe
from gnomon.reference.load.stored import Bytes, Source

# canonical name, without "blocks.{i}." -> name in the file, without "model." and "layers.{i}."
NAMES = {
    "embed.weight": "embed_tokens.weight",
    "ln1.weight": "input_layernorm.weight",
    "attn.q.weight": "self_attn.q_proj.weight",
    "attn.q.bias": "self_attn.q_proj.bias",
    "attn.k.weight": "self_attn.k_proj.weight",
    "attn.k.bias": "self_attn.k_proj.bias",
    "attn.v.weight": "self_attn.v_proj.weight",
    "attn.v.bias": "self_attn.v_proj.bias",
    "attn.q_norm.weight": "self_attn.q_norm.weight",
    "attn.k_norm.weight": "self_attn.k_norm.weight",
    "attn.out.weight": "self_attn.o_proj.weight",
    "delta.qkv.weight": "linear_attn.in_proj_qkv.weight",
    "delta.z.weight": "linear_attn.in_proj_z.weight",
    "delta.b.weight": "linear_attn.in_proj_b.weight",
    "delta.a.weight": "linear_attn.in_proj_a.weight",
    "delta.conv.weight": "linear_attn.conv1d.weight",
    "delta.a_log.weight": "linear_attn.A_log",
    "delta.dt.bias": "linear_attn.dt_bias",
    "delta.norm.weight": "linear_attn.norm.weight",
    "delta.out.weight": "linear_attn.out_proj.weight",
    "ln2.weight": "post_attention_layernorm.weight",
    "mlp.gate.weight": "mlp.gate_proj.weight",
    "mlp.up.weight": "mlp.up_proj.weight",
    "mlp.out.weight": "mlp.down_proj.weight",
    "mlp.router.weight": "mlp.gate.weight",
    "mlp.shared.gate.weight": "mlp.shared_expert.gate_proj.weight",
    "mlp.shared.up.weight": "mlp.shared_expert.up_proj.weight",
    "mlp.shared.out.weight": "mlp.shared_expert.down_proj.weight",
    "mlp.shared_gate.weight": "mlp.shared_expert_gate.weight",
    "ln_final.weight": "norm.weight",
}
EXPERT = re.compile(r"mlp\.experts\.(\d+)\.(gate|up|out)\.weight")
PREFIX, MULTIMODAL_PREFIX = "model.", "model.language_model."  # files of a base model have none


def decoder_sources(config: Config, names: Collection[str]) -> Callable[[str, tuple[int, ...]], Source]:
    """Where a file with tensors of these names has each weight: canonical name and shape -> Source"""
    inside = any(name.startswith(MULTIMODAL_PREFIX) for name in names)
    prefix = MULTIMODAL_PREFIX if inside else "" if NAMES["embed.weight"] in names else PREFIX

    def source(name: str, shape: tuple[int, ...]) -> Source:
        if name == "head.weight":
            return Source("lm_head.weight", shape)
        if not name.startswith("blocks."):
            return Source(prefix + NAMES[name], shape)
        _, i, part = name.split(".", 2)
        at = f"{prefix}layers.{i}."
        if config.moe is not None and (found := EXPERT.fullmatch(part)):
            fused = f"{at}mlp.experts.gate_up_proj" in names
            return expert(config.moe, at, int(found[1]), found[2], shape, fused)
        if part == "delta.conv.weight":  # [C, taps], for torch's Conv1d [C, 1, taps]
            return Source(at + NAMES[part], (shape[0], 1, shape[1]), lambda rows: rows)
        if config.delta is not None and config.family == "qwen3_next" and part in INTERLEAVED:
            return interleaved(config.delta, at, part, shape[1])
        return Source(at + NAMES[part], shape)

    return source


def expert(moe: Moe, at: str, e: int, part: str, shape: tuple[int, ...], fused: bool) -> Source:
    """One matrix of expert `e`, which a file has by itself or, fused, with those of all experts of the layer:
    gate_up_proj [experts, 2 * ffn, width], each gate before its up, and down_proj [experts, width, ffn]."""
    F, kind = moe.ffn, {"gate": "gate_proj", "up": "up_proj", "out": "down_proj"}[part]
    if not fused:
        return Source(f"{at}mlp.experts.{e}.{kind}.weight", shape)
    if part == "out":
        return Source(f"{at}mlp.experts.down_proj", (moe.experts, *shape), lambda rows: rows[e])
    own = slice(0, F) if part == "gate" else slice(F, 2 * F)
    return Source(f"{at}mlp.experts.gate_up_proj", (moe.experts, 2 * F, shape[1]), lambda rows: rows[e, own])


# The parts of Qwen3-Next's two projections, which hold them per key head: [q | k | v | z] and [b | a].
INTERLEAVED = {
    "delta.qkv.weight": ("in_proj_qkvz", (0, 1, 2)),
    "delta.z.weight": ("in_proj_qkvz", (3,)),
    "delta.b.weight": ("in_proj_ba", (0,)),
    "delta.a.weight": ("in_proj_ba", (1,)),
}


def interleaved(d: Delta, at: str, part: str, width: int) -> Source:
    """The rows of some parts, each part head by head."""
    tensor, parts = INTERLEAVED[part]
    group = d.value_heads // d.key_heads  # value heads that read one key head
    sizes = (d.dk, d.dk, group * d.dv, group * d.dv) if tensor == "in_proj_qkvz" else (group, group)
    ends = tuple(accumulate(sizes))

    def cut(rows: Bytes) -> Bytes:
        heads = rows.reshape(d.key_heads, sum(sizes), -1)  # [key_heads, rows of one, bytes per row]
        return np.concatenate([heads[:, ends[p] - sizes[p] : ends[p]].reshape(-1, rows.shape[-1]) for p in parts])

    return Source(f"{at}linear_attn.{tensor}.weight", (d.key_heads * sum(sizes), width), cut)
