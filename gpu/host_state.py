"""What the host engine carries of a sequence: keys and values as blocks that the kernels read like weights, and the
state of delta layers. The layouts are its own; canonical arrays exist only at export and load."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_library import FORMATS
from gnomon.gpu.host_memory import aligned
from gnomon.reference.kv import seen

F32 = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]
STEP = 128  # positions: a chunk
TYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype("<f4"), "bf16": np.dtype("<u2"), "int8": np.dtype("i1")}
FORMAT = {"f32": FORMATS.index("F32"), "bf16": FORMATS.index("BF16"), "int8": FORMATS.index("Q8")}


class Recurrent(NamedTuple):
    """A delta layer: the last conv inputs [taps - 1, C] and one matrix per head [value_heads, dk, dv]"""

    conv: F32
    delta: F32 | None = None


class HostKV:
    """Keys and values of one attention layer (kernels/attention.h).

    k: words [kv_heads, capacity / 64, ceil(d / 32), rows, 64]; v: [kv_heads, ceil(d / 64), capacity / 32, rows, 64]
    """

    def __init__(self, storage: str, kv_heads: int, d: int, capacity: int, fill: float) -> None:
        self.storage = storage
        self.kv_heads = kv_heads
        self.d = d
        self.capacity = -(-capacity // STEP) * STEP
        self.head = 1 if storage == "int8" else 0  # rows of scales in a group
        rows = self.head + TYPES[storage].itemsize * 8
        self.k = aligned((kv_heads, self.capacity // 64, -(-d // 32), rows, 64), np.uint32)
        self.v = aligned((kv_heads, -(-d // 64), self.capacity // 32, rows, 64), np.uint32)
        for words in (self.k, self.v):
            words[...] = 0x7FC07FC0 if np.isnan(fill) else 0
        self.pointers = (self.k.ctypes.data, self.v.ctypes.data, self.capacity)

    @property
    def nbytes(self) -> int:
        return int(self.k.nbytes + self.v.nbytes)

    def grown(self, positions: int, fill: float) -> "HostKV":
        """Room for so many positions: this, or a larger copy of it."""
        if positions <= self.capacity:
            return self
        larger = HostKV(self.storage, self.kv_heads, self.d, max(positions, 2 * self.capacity), fill)
        larger.k[:, : self.k.shape[1]] = self.k
        larger.v[:, :, : self.v.shape[2]] = self.v
        return larger

    def copy(self, length: int) -> "HostKV":
        """The blocks that hold the first `length` positions."""
        other = HostKV(self.storage, self.kv_heads, self.d, max(length, 1), 0.0)
        other.k[...] = self.k[:, : other.k.shape[1]]
        other.v[...] = self.v[:, :, : other.v.shape[2]]
        return other

    def _terms(self, words: NDArray[Any]) -> NDArray[Any]:
        """[..., rows, 64] words as the stored type: [..., rows, 64, terms per word]; a view"""
        dtype = TYPES[self.storage]
        terms: NDArray[Any] = words[..., self.head :, :].view(dtype)
        return terms.reshape(*words.shape[:-2], -1, 64, 4 // dtype.itemsize)

    def arrays(self, start: int, stop: int) -> Arrays:
        """Positions start .. stop as copies in canonical layout and stored type: "k", "v" [positions, kv_heads, d] and
        for int8 their scales [positions, kv_heads]"""
        first, last = start // STEP, -(-stop // STEP)
        at = slice(start - first * STEP, stop - first * STEP)
        k, v = self.k[:, 2 * first : 2 * last], self.v[:, :, 4 * first : 4 * last]
        keys = self._terms(k).transpose(1, 4, 0, 2, 3, 5)  # [blocks, lane, head, group, row, term]
        values = self._terms(v).transpose(2, 3, 5, 0, 1, 4)  # [groups, row, term, head, block, lane]
        count = (last - first) * STEP
        out = {
            "k": np.ascontiguousarray(keys.reshape(count, self.kv_heads, -1)[at, :, : self.d]),
            "v": np.ascontiguousarray(values.reshape(count, self.kv_heads, -1)[at, :, : self.d]),
        }
        if self.head:
            scales_k = k[:, :, 0, 0].view(np.float32).transpose(1, 2, 0).reshape(count, -1)
            scales_v = v[:, 0, :, 0, :32].view(np.float32).transpose(1, 2, 0).reshape(count, -1)
            out["k_scale"], out["v_scale"] = (np.ascontiguousarray(s[at]) for s in (scales_k, scales_v))
        return out

    def read(self, name: str, start: int, stop: int) -> F32:
        """ "k" or "v" as every read sees it: f32 [positions, kv_heads, d]"""
        return seen(name, self.arrays(start, stop))

    @staticmethod
    def of(storage: str, arrays: Arrays) -> "HostKV":
        """The cache whose `arrays` these are."""
        length, kv_heads, d = arrays["k"].shape
        made = HostKV(storage, kv_heads, d, max(length, 1), 0.0)
        for start in range(0, length, STEP):  # in pieces: a state may fill most of the memory there is
            made._fill(start, {name: array[start : start + STEP] for name, array in arrays.items()})
        return made

    def _fill(self, start: int, part: Arrays) -> None:
        """Up to 128 positions from `start`, a multiple of 128, on; what follows them is scratch."""
        n, heads, d = part["k"].shape
        k, v = self.k[:, start // 64 : start // 64 + 2], self.v[:, :, start // 32 : start // 32 + 4]
        keys, values = (
            self._terms(k),
            self._terms(v),
        )  # [head, 2, group, row, lane, term], [head, block, 4, row, lane, term]
        padded = np.zeros((STEP, heads, keys.shape[2] * 32), part["k"].dtype)
        padded[:n, :, :d] = part["k"]
        keys[...] = padded.reshape(2, 64, heads, *keys.shape[2:4], keys.shape[5]).transpose(2, 0, 3, 4, 1, 5)
        padded = np.zeros((STEP, heads, values.shape[1] * 64), part["v"].dtype)
        padded[:n, :, :d] = part["v"]
        values[...] = padded.reshape(4, values.shape[3], values.shape[5], heads, -1, 64).transpose(3, 4, 0, 1, 5, 2)
        if self.head:
            scales = np.ones((2, STEP, heads), np.float32)
            scales[:, :n] = part["k_scale"], part["v_scale"]
            k[:, :, :, 0] = scales[0].reshape(2, 64, heads).transpose(2, 0, 1)[:, :, None].view(np.uint32)
            v[:, :, :, 0, :32] = scales[1].reshape(4, 32, heads).transpose(2, 0, 1)[:, None].view(np.uint32)
