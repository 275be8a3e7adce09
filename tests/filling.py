"""Weights that anybody can make again: a function of the tensor's name and of the place in it."""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray


def fill(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """f32 [shape], multiples of 2^-8 below 1/2 in magnitude; norm weights are around 1. Exact in bf16 and f16."""
    at = np.arange(int(np.prod(shape)), dtype=np.uint64)
    mixed = (at + np.uint64(crc32(name.encode()))) * np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
    values = ((mixed >> np.uint64(40)) % np.uint64(255)).astype(np.float32) - np.float32(127.0)
    out: NDArray[np.float32] = values / np.float32(256.0)
    if "norm" in name:
        out = np.rint(values / np.float32(16.0)) / np.float32(32.0) + np.float32(1.0)
    return out.reshape(shape)


def peaked(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The same, twice as large where it makes attention look somewhere and logits differ: q, k, embedding, head."""
    sharp = any(part in name for part in ("q_proj", "k_proj", "c_attn", "wte", "embed_tokens", "lm_head"))
    return fill(name, shape) * np.float32(2.0 if sharp else 1.0)
