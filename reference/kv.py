"""Keys and values of one attention layer, as f32, bf16 or int8, in memory that grows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.bf16 import from_bf16, to_bf16
from gnomon.reference.ops.quant import dequant, quant

F32 = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


def stored(name: str, x: F32, storage: str) -> Arrays:
    """What is kept of new keys or values [rows, kv_heads, d]: bf16 rounded once; int8 with a scale per row and head."""
    if storage == "bf16":
        return {name: to_bf16(x)}
    if storage == "int8":
        q, s = quant(x)
        return {name: q, f"{name}_scale": s}
    return {name: x}


def seen(name: str, arrays: Arrays) -> F32:
    """What every read sees, the appending row's own included: f32 [rows, kv_heads, d]"""
    kept = arrays[name]
    if kept.dtype == np.uint16:
        return from_bf16(kept)
    if kept.dtype == np.int8:
        return dequant(kept, arrays[f"{name}_scale"])
    return kept


class KV:
    """Keys (after rope) and values: arrays [capacity, kv_heads, ...]; rows past the length are scratch."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    @property
    def capacity(self) -> int:
        return len(self.arrays["k"])

    def rows(self, start: int, stop: int) -> Arrays:
        """Views of some positions, as stored."""
        return {name: array[start:stop] for name, array in self.arrays.items()}

    def read(self, name: str, start: int, stop: int) -> F32:
        """ "k" or "v" as f32 [stop - start, kv_heads, d]"""
        return seen(name, self.rows(start, stop))

    @staticmethod
    def append(old: "KV | None", length: int, k: F32, v: F32, storage: str, scratch_fill: float) -> "KV":
        """Write rows at `length`, in place where they fit; growing copies only the first `length` rows."""
        new = stored("k", k, storage) | stored("v", v, storage)
        stop = length + len(k)
        cache = old
        if cache is None or cache.capacity < stop:
            capacity = max(stop, 32, 2 * cache.capacity if cache else 0)
            cache = KV({n: scratch((capacity, *a.shape[1:]), a.dtype, scratch_fill) for n, a in new.items()})
            if old is not None:
                for name, array in old.arrays.items():
                    cache.arrays[name][:length] = array[:length]
        for name, array in new.items():
            cache.arrays[name][length:stop] = array
        return cache


def scratch(shape: tuple[int, ...], dtype: np.dtype[Any], fill: float) -> NDArray[Any]:
    """Memory before it is written: `fill`, or the worst bytes of an integer type where fill is NaN."""
    if dtype == np.float32:
        return np.full(shape, fill, np.float32)
    return np.full(shape, 0x7F if np.isnan(fill) and dtype == np.int8 else 0x7FC0 if np.isnan(fill) else 0, dtype)
