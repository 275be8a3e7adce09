"""A GGUF file of architecture llama, qwen2 or qwen3 -> Model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.reference.config import Config
from gnomon.reference.errors import ModelError, UnknownTokenizerError
from gnomon.reference.load import gguf_rope
from gnomon.reference.load.chat_template import chat_of_gguf
from gnomon.reference.load.gguf_header import GgufFile
from gnomon.reference.load.gguf_split import read_files
from gnomon.reference.load.options import Options, head_width
from gnomon.reference.load.stored import Source, assemble
from gnomon.reference.model import Model
from gnomon.reference.strict_json import show
from gnomon.reference.tokenizer import Tokenizer
from gnomon.reference.weights import Weight

ARCHITECTURES = ("llama", "qwen2", "qwen3")

# canonical name, without "blocks.{i}." -> name in the file, without "blk.{i}."
NAMES = {
    "embed": "token_embd",
    "ln1": "attn_norm",
    "attn.q": "attn_q",
    "attn.k": "attn_k",
    "attn.v": "attn_v",
    "attn.q_norm": "attn_q_norm",
    "attn.k_norm": "attn_k_norm",
    "attn.out": "attn_output",
    "ln2": "ffn_norm",
    "mlp.gate": "ffn_gate",
    "mlp.up": "ffn_up",
    "mlp.out": "ffn_down",
    "ln_final": "output_norm",
    "head": "output",
}
HEAD = "output.weight"

# Metadata under "{architecture}." with one value that this contract can honour; no other may stand there.
NEUTRAL: dict[str, Any] = {
    "attention.causal": True,
    "attention.sliding_window": 0,
    "expert_count": 0,
    "expert_used_count": 0,
    "tensor_data_layout": "Meta AI original pth",
    "use_parallel_residual": False,
}
# Elsewhere metadata describe the file or the tokenizer; these alone would change what the bytes mean.
GENERAL: dict[str, tuple[Any, ...]] = {
    "general.type": ("model",),
    "general.quantization_version": (2,),
}


def load_gguf(path: Path, name: str) -> Model:
    """The model in the file. Raises ModelError where it is broken or asks for something unknown."""
    file = read_files(path)
    config = read_config(file)
    tensors = {key: tensor for key, tensor in file.tensors.items() if key != gguf_rope.FREQS}
    weights = assemble(config, tensors, lambda name, shape: Source(file_name(name), shape))
    if config.family == "llama":
        for i in range(config.layers):
            for part, heads in (("q", config.heads), ("k", config.kv_heads)):
                key = f"blocks.{i}.attn.{part}.weight"
                weights[key] = halves(weights[key], heads)
    tokenizer, lacks = read_tokenizer(file.metadata, config.vocab)
    return Model(name, config, weights, tokenizer, chat_of_gguf(file.metadata), lacks)


def file_name(name: str) -> str:
    """blocks.0.attn.q.weight -> blk.0.attn_q.weight"""
    module, _, kind = name.rpartition(".")
    if module.startswith("blocks."):
        _, i, module = module.split(".", 2)
        return f"blk.{i}.{NAMES[module]}.{kind}"
    return f"{NAMES[module]}.{kind}"


def halves(weight: Weight, heads: int) -> Weight:
    """Rows of q or k, which llama.cpp's converter lays out as [heads, d/2, 2], back in the half layout

    Whole rows of stored bytes move, so this holds for blocks too: they run along a row.
    """
    pairs = weight.data.reshape(heads, -1, 2, weight.data.shape[1])  # [heads, d/2, 2, bytes per row]
    return replace(weight, data=np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.data.shape))


def read_config(file: GgufFile) -> Config:
    """The Config that the metadata describe. A number stored as f32 is taken for exactly that number."""
    for key, values in GENERAL.items():
        if file.metadata.get(key, values[0]) not in values:
            raise ModelError(f"Expected {key}={values[0]!r} in the GGUF metadata but got {show(file.metadata[key])}")
    name = file.metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        raise ModelError(f"Expected general.architecture among {', '.join(ARCHITECTURES)} but got {show(name)}")
    embed = file.tensors.get("token_embd.weight")
    if embed is None:
        raise ModelError("Expected a tensor token_embd.weight but the model has none")
    options = Options(file.metadata, "the GGUF metadata", f"{name}.")
    width, layers = options.integer("embedding_length"), options.layers("block_count")
    heads = options.integer("attention.head_count")
    head_dim = options.integer_or_none("attention.key_length") or head_width(width, heads)
    vocab = embed.shape[0]
    for key, value in (
        ("attention.value_length", head_dim),
        ("rope.dimension_count", head_dim),
        ("vocab_size", vocab),
    ):
        if (given := options.integer(key, value)) != value:
            raise options.wrong(key, given, f"{name}.{key}={value}")
    config = Config(
        family=name,
        vocab=vocab,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=options.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=options.integer("feed_forward_length"),
        eps=options.number("attention.layer_norm_rms_epsilon"),
        rope=gguf_rope.rope(options, file.tensors, head_dim),
        max_positions=options.integer("context_length"),
        windows=(None,) * layers,
        tied=HEAD not in file.tensors,
        qkv_bias=name == "qwen2",
        qk_norm=name == "qwen3",
    )
    options.refuse_rest(NEUTRAL, gguf_rope.HARMLESS)
    return config


def read_tokenizer(metadata: dict[str, Any], vocab: int) -> tuple[Tokenizer | None, str]:
    """The tokenizer in the metadata, one token for each row of the embedding; or None, and why there is none"""
    options = Options(metadata, "the GGUF metadata", "tokenizer.ggml.")
    if options.left.get("model", "no_vocab") == "no_vocab":
        return None, "the file holds none"
    model, pre = options.text("model"), options.take("pre")
    tokens = options.items("tokens", str)
    if len(tokens) != vocab:
        raise ModelError(f"Expected a token for each of {vocab} rows of token_embd.weight but got {len(tokens)} tokens")
    ends = [options.integer_or_none(key) for key in ("eos_token_id", "eot_token_id", "eom_token_id")]
    try:
        return Tokenizer.from_gguf(
            tokens,
            options.items("merges", str, []),
            options.items("token_type", int, [1] * vocab),
            pre=pre,
            model=model,
            bos_id=options.integer_or_none("bos_token_id"),
            eos_ids=[i for i in ends if i is not None],
            add_bos=options.flag("add_bos_token", False) if "add_bos_token" in options.left else None,
            add_eos=options.flag("add_eos_token", False),
            scores=options.items("scores", float, []),
            space=options.flag("add_space_prefix", True),
            rows=vocab,
        ), ""
    except UnknownTokenizerError as error:
        return None, str(error)
