"""Weights as the kernels read them: blocks of 64 outputs, groups of 32 terms, rows of 64 words (kernels/formats.h).

A weight is repacked once, at load, and keeps its stored type: what a block format scales, the kernel scales.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_library import FORMATS
from gnomon.gpu.host_memory import aligned
from gnomon.reference.errors import ModelError
from gnomon.reference.ops.bf16 import to_bf16
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.settle import settle
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen, widen_stored

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
Bytes = NDArray[Any]  # uint8
F16_NORMAL = 2.0**-14  # the smallest normal f16
INT8_TERMS = 131072  # so many products of two integers up to 127 stay below 2^31


@dataclass(frozen=True)
class Packed:
    """W [N, K] as blocks; format: its index in FORMATS; scale: of each output, int8 arm only"""

    shape: tuple[int, int]
    format: int
    words: U32
    scale: F32 | None = None

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + (self.scale.nbytes if self.scale is not None else 0)


def pack(weight: Weight, arm: str) -> Packed:
    """A matrix in the form that `arm` multiplies with. Raises ModelError for an int8 matrix too wide for its sums."""
    N, K = weight.shape
    if arm == "bf16":
        return blocks((N, K), "BF16", [], pairs(to_bf16(widen(weight))))
    if arm == "int8":
        if K > INT8_TERMS:
            raise ModelError(f"Expected at most {INT8_TERMS} terms in {weight.name} on the int8 arm but got {K}")
        q, scale = quant(widen(weight))
        return blocks((N, K), "I8", [], fours(q), scale)
    made = STORED.get(weight.dtype)
    if made is None or weight.plus_one:
        return blocks((N, K), "F32", [], groups(widen(weight).view(np.uint32)))
    name, heads, words = made(weight.data.reshape(N, -1))
    return blocks((N, K), name, heads, words)


def blocks(shape: tuple[int, int], name: str, heads: Sequence[U32], words: U32, scale: F32 | None = None) -> Packed:
    """heads: [N, groups, rows] each; words [N, groups, steps] -> rows of 64 words per group and block"""
    N = shape[0]
    rows = [*heads, words]
    count, height = -(-N // 64), sum(part.shape[2] for part in rows)
    out = aligned((count, words.shape[1], height, 64), np.uint32)
    at = 0
    for part in rows:
        stop = at + part.shape[2]
        full = N // 64
        lanes = part[: full * 64].reshape(full, 64, *part.shape[1:])  # [blocks, lane, groups, rows]
        out[:full, :, at:stop] = lanes.transpose(0, 2, 3, 1)
        if N % 64:
            out[full, :, at:stop] = 0
            out[full, :, at:stop, : N % 64] = part[full * 64 :].transpose(1, 2, 0)
        at = stop
    return Packed(shape, FORMATS.index(name), out, scale)


# --- words of k terms, ascending from the lowest bits -----------------------------------------------------------------
def groups(x: NDArray[Any]) -> NDArray[Any]:
    """[N, K] -> [N, ceil(K / 32), 32], padded with zeros"""
    N, K = x.shape
    if K % 32:
        padded = np.zeros((N, -(-K // 32) * 32), x.dtype)
        padded[:, :K] = x
        x = padded
    return np.ascontiguousarray(x).reshape(N, -1, 32)


def pairs(x: NDArray[np.uint16]) -> U32:
    return groups(x).view("<u4")


def fours(q: NDArray[np.int8]) -> U32:
    return groups(q).view("<u4")


def eights(q: Bytes) -> U32:
    """Nibbles [N, groups, 32] -> [N, groups, 4]"""
    twos = q[..., 0::2] | (q[..., 1::2] << 4)  # [N, groups, 16]
    return np.ascontiguousarray(twos).view("<u4")


def bits(q: Bytes, shift: int, width: int) -> U32:
    """`width` bits from `shift` on of each q [N, groups, 32] -> [N, groups, width] words of 32 / width terms"""
    terms = (q >> shift & (1 << width) - 1).reshape(*q.shape[:2], width, 32 // width).astype(np.uint32)
    words: U32 = np.bitwise_or.reduce(terms << (np.arange(32 // width, dtype=np.uint32) * width), axis=-1)
    return words


def f16(data: Bytes) -> F32:
    """Scales [..., 2 bytes] as f32, subnormals included"""
    return np.ascontiguousarray(data).view("<f2")[..., 0].astype(np.float32)


def row(x: F32) -> U32:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)[..., None]


# --- stored types: bytes [N, bytes per row] -> (format, heads, words) -------------------------------------------------
Made = tuple[str, list[U32], U32]


def _bf16(data: Bytes) -> Made:
    wide = (np.ascontiguousarray(data).view("<u2").astype(np.uint32) << 16).view(np.float32)
    return "BF16", [], pairs((settle(wide).view(np.uint32) >> 16).astype(np.uint16))


def _f16(data: Bytes) -> Made:
    return "F16", [], pairs(np.ascontiguousarray(data).view("<u2"))


def _q8_0(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 34)
    return "Q8", [row(f16(b[..., :2]))], np.ascontiguousarray(b[..., 2:]).view("<u4")


def halves(qs: Bytes) -> Bytes:
    """16 bytes of a block: low nibbles are its first 16 values, high nibbles the others"""
    return np.concatenate([qs & 15, qs >> 4], axis=-1)


def fifth(qh: Bytes, low: Bytes) -> Bytes:
    """Fifth bits, one per value in ascending order, joined to the low nibbles"""
    high = np.unpackbits(np.ascontiguousarray(qh), axis=-1, bitorder="little")
    joined: Bytes = low | (high << 4)
    return joined


def _q4_0(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 18)
    return "Q4", [row(f16(b[..., :2]))], eights(halves(b[..., 2:]))


def _q4_1(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 20)
    d, m, q = f16(b[..., :2]), f16(b[..., 2:4]), halves(b[..., 4:])
    normal = all(((x == 0) | (np.abs(x) >= F16_NORMAL)).all() for x in (d, m))
    if normal and all(shifts(d, m, places) for places in (16, 256, 4096)):
        return "Q4Half", [np.ascontiguousarray(b[..., :4]).view("<u4")], eights(q)  # d and m as they are stored
    return scaled_nibbles(d, m, q)


def shifts(d: F32, m: F32, places: int) -> bool:
    """Whether m - places * d is exact in f32 for every block, so that
    (places * d) * (1 + q / places) + (m - places * d) rounds once, as (d * q) + m does"""
    with np.errstate(invalid="ignore"):
        wide = m.astype(np.float64) - places * d.astype(np.float64)
        return bool((wide.astype(np.float32) == wide).all())


def scaled_nibbles(d: F32, m: F32, q: Bytes) -> Made:
    """(d*q)+m, by way of 16d*(1 + q/16) + (m - 16d) where that difference is exact for every block"""
    if shifts(d, m, 16) and (np.abs(d) <= np.float32(2.0**100)).all():
        return "Q4One", [row(16 * d), row(m - 16 * d)], eights(q)
    return "Q4M", [row(d), row(m)], eights(q)


def _q5_0(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 22)
    q = fifth(b[..., 2:6], halves(b[..., 6:]))
    return "Q5", [row(f16(b[..., :2])), bits(q, 4, 1)], eights(q & 15)


def _q5_1(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 24)
    q = fifth(b[..., 4:8], halves(b[..., 8:]))
    return "Q5M", [row(f16(b[..., :2])), row(f16(b[..., 2:4])), bits(q, 4, 1)], eights(q & 15)


def k_scales(b: Bytes) -> tuple[F32, F32]:
    """Of super-blocks of 256 [N, blocks, bytes]: d*sc and dmin*mn of their groups of 32, [N, groups] each"""
    packed = b[..., 4:16].reshape(*b.shape[:2], 3, 4)
    low, high, both = packed[..., 0, :], packed[..., 1, :], packed[..., 2, :]
    sc = np.concatenate([low & 63, (both & 15) | (low >> 6 << 4)], axis=-1)  # [N, blocks, 8]
    mn = np.concatenate([high & 63, (both >> 4) | (high >> 6 << 4)], axis=-1)
    d, dmin = f16(b[..., 0:2])[..., None], f16(b[..., 2:4])[..., None]
    return (d * sc.astype(np.float32)).reshape(len(b), -1), (dmin * mn.astype(np.float32)).reshape(len(b), -1)


def k_nibbles(qs: Bytes) -> Bytes:
    """128 bytes of a super-block: of every 32 bytes the low nibbles are one group, the high ones the next"""
    part = qs.reshape(len(qs), -1, 32)
    return np.stack([part & 15, part >> 4], axis=2).reshape(len(qs), -1, 32)


def _q4_k(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 144)
    d, m = k_scales(b)
    return scaled_nibbles(d, -m, k_nibbles(b[..., 16:]))


def _q5_k(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 176)
    d, m = k_scales(b)
    high = b[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # [N, blocks, 8 groups, 32]
    q = k_nibbles(b[..., 48:]) | (high.reshape(len(b), -1, 32) << 4)
    return "Q5M", [row(d), row(-m), bits(q, 4, 1)], eights(q & 15)


def _q6_k(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 210)
    low = b[..., :128].reshape(*b.shape[:2], 2, 64)  # halves of 128 values
    high = b[..., 128:192].reshape(*b.shape[:2], 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    nibbles = np.concatenate([low & 15, low >> 4], axis=-1).reshape(*b.shape[:2], 2, 4, 32)
    q = (nibbles | (high << 4)).reshape(len(b), -1, 32)
    scales = f16(b[..., 208:210])[..., None] * b[..., 192:208].view(np.int8).astype(np.float32)  # [N, blocks, 16]
    d = scales.reshape(len(b), -1, 2)  # [N, groups, 2]
    return "Q6", [row(d[..., 0]), row(d[..., 1]), bits(q, 4, 2)], eights(q & 15)


def _q3_k(data: Bytes) -> Made:
    """(d*(sc-32))*(q-4) is Q6's (d*sc)*(q-32) with q + 28"""
    b = data.reshape(len(data), -1, 110)
    third = b[..., None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # [N, blocks, 8 groups, 32]
    low = b[..., 32:96].reshape(*b.shape[:2], 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    q = (low.reshape(len(b), -1, 32) | (third.reshape(len(b), -1, 32) << 2)) + np.uint8(28)
    nibbles = b[..., 96:104]
    upper = b[..., None, 104:108] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3  # [N, blocks, 4, 4]
    sc = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1) | (upper.reshape(*b.shape[:2], 16) << 4)
    d = (f16(b[..., 108:110])[..., None] * (sc.astype(np.float32) - 32)).reshape(len(b), -1, 2)  # [N, groups, 2]
    return "Q6", [row(d[..., 0]), row(d[..., 1]), bits(q, 4, 2)], eights(q & 15)


# What a nibble stands for in IQ4_NL and IQ4_XS, and in MXFP4: integers, so that the products are those of Q8.
NON_LINEAR = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
TWICE_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
LEAST_E = 128 - 50  # a smaller exponent of MXFP4 gives values that settle


def _iq4_nl(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 18)
    return "Q8", [row(f16(b[..., :2]))], NON_LINEAR[halves(b[..., 2:])].view("<u4")


def _iq4_xs(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 136)
    shifts_of_8 = np.arange(0, 16, 2, dtype=np.uint16)
    upper = np.ascontiguousarray(b[..., 2:4]).view("<u2") >> shifts_of_8 & 3  # [N, blocks, 8]
    low = np.stack([b[..., 4:8] & 15, b[..., 4:8] >> 4], axis=-1).reshape(*b.shape[:2], 8)
    d = f16(b[..., :2])[..., None] * ((low | upper << 4).astype(np.float32) - 32)  # [N, blocks, 8]
    q = halves(b[..., 8:].reshape(len(b), -1, 16))  # [N, groups, 32]
    return "Q8", [row(d.reshape(len(b), -1))], NON_LINEAR[q].view("<u4")


def _mxfp4(data: Bytes) -> Made:
    b = data.reshape(len(data), -1, 17)
    if b[..., 0].min() < LEAST_E:
        return "F32", [], groups(settle(widen_stored("MXFP4", data)).view(np.uint32))
    d = np.ldexp(np.float32(1), b[..., 0].astype(np.int32) - 128)
    return "Q8", [row(d)], TWICE_E2M1[halves(b[..., 1:])].view("<u4")


STORED: dict[str, Callable[[Bytes], Made]] = {
    "BF16": _bf16, "F16": _f16, "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1,
    "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k, "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs, "MXFP4": _mxfp4,
}  # fmt: skip
