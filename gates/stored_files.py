"""Small models that the oracle has judged beside micro: a GPT-2, and a Llama in GGUF files, one for each stored type.

All of it is made from a seed, by NumPy's PCG64, whose stream is stable. Every block holds any bits: each nibble, each
signed byte down to -128. Scales are f16 numbers; of every other matrix they are powers of two, for which kernels may
have a form of their own.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from gnomon.models.micro import CONFIG, micro
from gnomon.reference.model import Model

Bytes = NDArray[np.uint8]
HEADS, KV_HEADS, EPS, THETA = 4, 2, 1e-5, 10000.0
SHAPES: dict[str, tuple[int, ...]] = {  # by canonical name; super-blocks have 256 values
    "embed.weight": (24, 256), "blocks.0.ln1.weight": (256,),
    "blocks.0.attn.q.weight": (32, 256), "blocks.0.attn.k.weight": (16, 256), "blocks.0.attn.v.weight": (16, 256),
    "blocks.0.attn.out.weight": (256, 32), "blocks.0.ln2.weight": (256,),
    "blocks.0.mlp.gate.weight": (64, 256), "blocks.0.mlp.up.weight": (64, 256), "blocks.0.mlp.out.weight": (256, 64),
    "ln_final.weight": (256,), "head.weight": (24, 256),
}  # fmt: skip
MODULES = {  # as GGUF names them
    "embed": "token_embd", "ln1": "attn_norm", "attn.q": "attn_q", "attn.k": "attn_k", "attn.v": "attn_v",
    "attn.out": "attn_output", "ln2": "ffn_norm", "mlp.gate": "ffn_gate", "mlp.up": "ffn_up", "mlp.out": "ffn_down",
    "ln_final": "output_norm", "head": "output",
}  # fmt: skip


@dataclass(frozen=True)
class Scales:
    """Where the f16 numbers of a block stand; the power of two of the first, and of a second, a minimum. MXFP4 has a
    byte instead, an exponent above 128"""

    at: tuple[int, ...]
    power: int
    least: int = 0


FORMATS: dict[str, Scales] = {
    "F32": Scales((), 0), "F16": Scales((), 0), "BF16": Scales((), 0),
    "Q8_0": Scales((0,), -10), "Q4_0": Scales((0,), -6), "Q4_1": Scales((0, 2), -6, -3),
    "Q5_0": Scales((0,), -7), "Q5_1": Scales((0, 2), -7, -3),
    "Q4_K": Scales((0, 2), -13, -9), "Q5_K": Scales((0, 2), -14, -9), "Q6_K": Scales((208,), -15),
    "Q2_K": Scales((80, 82), -9, -8), "Q3_K": Scales((108,), -10), "IQ4_NL": Scales((0,), -10),
    "IQ4_XS": Scales((0,), -15), "MXFP4": Scales((0,), -8),
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor as a file holds it: [rows, bytes per row]"""

    dtype: str
    data: Bytes


def tensors(dtype: str) -> dict[str, Stored]:
    """Every tensor by its canonical name. A row that no whole block of the type fits takes Q8_0, a vector F32."""
    rng = np.random.Generator(np.random.PCG64(list(FORMATS).index(dtype)))
    out = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        kind = dtype if len(shape) == 2 else "F32"
        if shape[-1] % gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]:
            kind = "Q8_0"
        plain = FORMATS[kind].at == ()
        out[name] = Stored(kind, numbers(rng, kind, shape) if plain else blocks(rng, kind, shape, even=number % 2 == 0))
    return out


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Bytes:
    """Values about 0, or about 1 for a vector, by exact steps only."""
    unit = (rng.random(shape) * 2.0 - 1.0) * (0.125 if len(shape) == 2 else 0.25) + (len(shape) == 1)
    wide = unit.astype("<f4")
    if dtype == "F16":
        return wide.astype("<f2").view(np.uint8)
    if dtype == "BF16":
        return (wide.view(np.uint32) >> 16).astype("<u2").view(np.uint8)
    return wide.view(np.uint8).reshape(shape[0], -1) if len(shape) == 2 else wide.view(np.uint8)[None]


def blocks(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], even: bool) -> Bytes:
    """Random bits under scales that are numbers; even: powers of two, all the same"""
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[dtype]]
    data = rng.integers(0, 256, (shape[0], shape[1] // values, size), dtype=np.uint8)
    scales = FORMATS[dtype]
    if dtype == "MXFP4":
        data[..., 0] = 128 + scales.power + (0 if even else rng.integers(0, 4, data.shape[:2]))
        return data.reshape(shape[0], -1)
    for at, power in zip(scales.at, (scales.power, scales.least), strict=False):
        more = np.zeros(data.shape[:2]) if even else rng.integers(0, 1024, data.shape[:2]) / 1024.0
        minus = np.where(rng.random(data.shape[:2]) < 0.5, -1.0, 1.0) if at == scales.at[0] and not even else 1.0
        below = -1.0 if dtype in ("Q4_1", "Q5_1") and at else 1.0  # K types subtract their minimum
        scale = (below * minus * (1.0 + more) * 2.0**power).astype("<f2")
        data[..., at : at + 2] = scale[..., None].view(np.uint8)
    if dtype == "Q4_1" and not even:  # too far apart for 16d * (1 + q / 16) + (m - 16d) to round once
        data[0, 0, :4] = np.array([1.0 + 2.0**-10, 3.0 * 2.0**-24], "<f2").view(np.uint8)
    return data.reshape(shape[0], -1)


def write(path: Path, dtype: str) -> Path:
    """The file, with the rows of q and k as llama.cpp's converter lays them out: [heads, d / 2, 2]"""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(32 // HEADS)
    writer.add_value_length(32 // HEADS)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, stored in tensors(dtype).items():
        data = stored.data
        for part, heads in (("attn.q", HEADS), ("attn.k", KV_HEADS)):
            if name.endswith(f"{part}.weight"):
                data = data.reshape(heads, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        data = np.ascontiguousarray(data if len(SHAPES[name]) == 2 else data[0])
        kind = gguf.GGMLQuantizationType[stored.dtype]
        if stored.dtype in ("F32", "F16"):
            data = data.view({"F32": "<f4", "F16": "<f2"}[stored.dtype])
        module = MODULES[name.removeprefix("blocks.0.").removesuffix(".weight")]
        place = "blk.0." if name.startswith("blocks.0.") else ""
        writer.add_tensor(f"{place}{module}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gpt2() -> Model:
    """micro wired as a GPT-2: learned positions, layer norms, biases, a gelu."""
    shape = replace(
        CONFIG, family="gpt2", layers=2, kv_heads=4, rope=None, max_positions=32, windows=(None, None),
        kinds=("attention", "attention"), delta=None, qkv_bias=True,
    )  # fmt: skip
    return replace(micro(shape), name="gpt2-micro")
