"""A GPT-2 of transformers: its config.json, and where its file has each weight.

Matrices are stored [inputs, outputs], as its Conv1D multiplies, and q, k and v side by side in one of them.
"""

from collections.abc import Callable, Collection

import numpy as np

from gnomon.reference.config import Config
from gnomon.reference.load.hf_options import FAMILY_HARMLESS, FAMILY_NEUTRAL, HARMLESS, NEUTRAL
from gnomon.reference.load.options import Options, head_width
from gnomon.reference.load.stored import Bytes, Source

# canonical name, without "blocks.{i}." -> name in the file, without "transformer." and "h.{i}."
NAMES = {
    "embed": "wte",
    "positions": "wpe",
    "ln1": "ln_1",
    "attn.q": "attn.c_attn",
    "attn.k": "attn.c_attn",
    "attn.v": "attn.c_attn",
    "attn.out": "attn.c_proj",
    "ln2": "ln_2",
    "mlp.up": "mlp.c_fc",
    "mlp.out": "mlp.c_proj",
    "ln_final": "ln_f",
}
PREFIX = "transformer."  # some published files leave it out
GELU_TANH = ("gelu_new", "gelu_pytorch_tanh")  # two names of one function; "gelu" is another


def read_gpt2(options: Options) -> Config:
    """The Config of a GPT-2."""
    width, layers, heads = options.integer("n_embd"), options.layers("n_layer"), options.integer("n_head")
    act = options.take("activation_function")
    if act not in (None, *GELU_TANH):
        raise options.wrong("activation_function", act, f"activation_function among {', '.join(GELU_TANH)}")
    ffn = options.integer_or_none("n_inner")
    config = Config(
        family="gpt2",
        vocab=options.integer("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=head_width(width, heads),
        ffn=4 * width if ffn is None else ffn,
        eps=options.number("layer_norm_epsilon", 1e-5),
        rope=None,
        max_positions=options.integer("n_positions"),
        windows=(None,) * layers,
        tied=options.flag("tie_word_embeddings", True),
        qkv_bias=True,
    )
    options.refuse_rest(NEUTRAL | FAMILY_NEUTRAL["gpt2"], (*HARMLESS, *FAMILY_HARMLESS["gpt2"]))
    return config


def gpt2_sources(names: Collection[str]) -> Callable[[str, tuple[int, ...]], Source]:
    """Where a file with tensors of these names has each weight: canonical name and shape -> Source"""
    prefix = "" if "wte.weight" in names else PREFIX

    def source(name: str, shape: tuple[int, ...]) -> Source:
        if name == "head.weight":
            return Source("lm_head.weight", shape)
        module, _, kind = name.rpartition(".")
        at = prefix
        if module.startswith("blocks."):
            _, i, module = module.split(".", 2)
            at += f"h.{i}."
        theirs = f"{at}{NAMES[module]}.{kind}"
        if module in ("attn.q", "attn.k", "attn.v"):
            part = "qkv".index(module[-1])
            return Source(theirs, (*shape[1:], 3 * shape[0]), lambda rows: columns(rows, 3 * shape[0], part))
        if kind == "weight" and len(shape) == 2 and at != prefix:
            return Source(theirs, shape[::-1], lambda rows: columns(rows, shape[0]))
        return Source(theirs, shape)

    return source


def columns(rows: Bytes, n: int, third: int | None = None) -> Bytes:
    """All `n` columns, or a third of them, as rows: uint8 [..., bytes per row] -> [columns, bytes per column]"""
    values = rows.reshape(-1, n, rows.shape[-1] // n)  # [K, n, bytes per value]
    if third is not None:
        values = values[:, third * (n // 3) : (third + 1) * (n // 3)]
    return np.ascontiguousarray(values.swapaxes(0, 1))
