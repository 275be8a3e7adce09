"""Quantised blocks, one value at a time, from the definition of each format; the judge of `widen`.

It imports neither gguf nor the package under test. Every operation is rounded to f32 by itself, in the order
that section 1 of the contract writes.
Source: ggml, src/ggml-common.h (layouts) and src/ggml-quants.c (dequantize_row_*, get_scale_min_k4).
"""

import math
from collections.abc import Callable, Iterator

from oracle.f32 import add, from_bits, mul, sub

Reader = Callable[[bytes], list[float]]


def half(low: int, high: int) -> float:
    """The IEEE binary16 number of two bytes: sign, 5 bits of exponent, 10 of mantissa. Exact as a float."""
    word = low | high << 8
    sign, exponent, mantissa = -1.0 if word >> 15 else 1.0, word >> 10 & 31, word & 1023
    if exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, -24)
    return sign * math.ldexp(1024 + mantissa, exponent - 25)


def signed(byte: int) -> int:
    """Two's complement."""
    return byte - 256 if byte > 127 else byte


def f32(block: bytes) -> list[float]:
    return [from_bits(int.from_bytes(block, "little"))]


def f16(block: bytes) -> list[float]:
    return [half(block[0], block[1])]


def bf16(block: bytes) -> list[float]:
    """The upper half of an f32."""
    return [from_bits(int.from_bytes(block, "little") << 16)]


def nibbles(quants: bytes) -> list[int]:
    """The low halves of all bytes, then the high halves."""
    return [q & 15 for q in quants] + [q >> 4 for q in quants]


def five_bits(high: bytes, quants: bytes) -> list[int]:
    """Nibbles with a fifth bit: bit i of the little-endian word `high` belongs to value i."""
    word = int.from_bytes(high, "little")
    return [q | (word >> i & 1) << 4 for i, q in enumerate(nibbles(quants))]


def q8_0(block: bytes) -> list[float]:
    """d f16, 32 signed bytes: d * q"""
    d = half(block[0], block[1])
    return [mul(d, signed(q)) for q in block[2:]]


def q4_0(block: bytes) -> list[float]:
    """d f16, 16 bytes of nibbles: d * (q - 8)"""
    d = half(block[0], block[1])
    return [mul(d, q - 8) for q in nibbles(block[2:])]


def q4_1(block: bytes) -> list[float]:
    """d, m f16, 16 bytes of nibbles: (d * q) + m"""
    d, m = half(block[0], block[1]), half(block[2], block[3])
    return [add(mul(d, q), m) for q in nibbles(block[4:])]


def q5_0(block: bytes) -> list[float]:
    """d f16, 4 bytes of fifth bits, 16 bytes of nibbles: d * (q - 16)"""
    d = half(block[0], block[1])
    return [mul(d, q - 16) for q in five_bits(block[2:6], block[6:])]


def q5_1(block: bytes) -> list[float]:
    """d, m f16, 4 bytes of fifth bits, 16 bytes of nibbles: (d * q) + m"""
    d, m = half(block[0], block[1]), half(block[2], block[3])
    return [add(mul(d, q), m) for q in five_bits(block[4:8], block[8:])]


def scale_and_min(packed: bytes, j: int) -> tuple[int, int]:
    """The 6-bit scale and minimum of sub-block j of 8, from 12 bytes."""
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    return packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4


def with_minimum(block: bytes, quants: Iterator[int]) -> list[float]:
    """d, dmin f16, 12 bytes of scales and minima; 8 sub-blocks of 32: ((d * sc) * q) - (dmin * mn)"""
    d, dmin = half(block[0], block[1]), half(block[2], block[3])
    out = []
    for j in range(8):
        scale, minimum = scale_and_min(block[4:16], j)
        out += [sub(mul(mul(d, scale), next(quants)), mul(dmin, minimum)) for _ in range(32)]
    return out


def q4_k(block: bytes) -> list[float]:
    """... and 128 bytes: each 32 of them hold the low, then the high nibbles of two sub-blocks"""
    return with_minimum(block, (q for at in range(16, 144, 32) for q in nibbles(block[at : at + 32])))


def q5_k(block: bytes) -> list[float]:
    """... 32 bytes of fifth bits, bit j of byte i for value i of sub-block j, then nibbles as in q4_k"""
    high, low = block[16:48], block[48:]
    four = [q for at in range(0, 128, 32) for q in nibbles(low[at : at + 32])]
    return with_minimum(block, (q | (high[i % 32] >> i // 32 & 1) << 4 for i, q in enumerate(four)))


def q6_k(block: bytes) -> list[float]:
    """128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d f16: (d * sc) * (q - 32)

    Each half of 128 values has 64 + 32 + 8 of these bytes. Value 32 g + i of it: nibble from byte i (even g)
    or 32 + i (odd g), the low one for g < 2; bits 2g, 2g + 1 of upper byte i; scale 2g + i // 16.
    """
    low, upper, scales, d = block[:128], block[128:192], block[192:208], half(block[208], block[209])
    out = []
    for n in range(2):
        for g in range(4):
            for i in range(32):
                byte = low[64 * n + 32 * (g % 2) + i]
                q = (byte & 15 if g < 2 else byte >> 4) | (upper[32 * n + i] >> 2 * g & 3) << 4
                out.append(mul(mul(d, signed(scales[8 * n + 2 * g + i // 16])), q - 32))
    return out


def q2_k(block: bytes) -> list[float]:
    """16 bytes of scale (low) and minimum (high nibble), 64 of bit pairs, d, dmin f16; 16 sub-blocks of 16:
    ((d * sc) * q) - (dmin * mn)

    Each half of 128 values has 32 of the bytes; bits 2g, 2g + 1 of byte i are value 32 g + i of the half.
    """
    d, dmin = half(block[80], block[81]), half(block[82], block[83])
    out = []
    for n in range(256):
        within, scales = n % 128, block[n // 16]
        q = block[16 + 32 * (n // 128) + within % 32] >> 2 * (within // 32) & 3
        out.append(sub(mul(mul(d, scales & 15), q), mul(dmin, scales >> 4)))
    return out


def q3_k(block: bytes) -> list[float]:
    """32 bytes of third bits, 64 of bit pairs as in q2_k, 12 of scales, d f16: (d * (sc - 32)) * (q - 4)

    Value 32 g + i has bit g of byte i as its third bit. Of the 16 six-bit scales, the low nibbles of bytes 0 to 7 are
    the low bits of 0 to 7, the high nibbles those of 8 to 15; bits 2g, 2g + 1 of byte 8 + i are upper, of 4 g + i.
    """
    d = half(block[108], block[109])
    out = []
    for n in range(256):
        j, within = n // 16, n % 128
        low = block[96 + j % 8] >> 4 * (j // 8) & 15
        scale = (low | (block[104 + j % 4] >> 2 * (j // 4) & 3) << 4) - 32
        q = block[32 + 32 * (n // 128) + within % 32] >> 2 * (within // 32) & 3
        third = block[n % 32] >> n // 32 & 1
        out.append(mul(mul(d, scale), q + 4 * third - 4))
    return out


# What the 16 nibbles stand for: ggml's table of a non-linear quantiser, and twice the numbers of four bits (OCP E2M1).
NON_LINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
TWICE_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def iq4_nl(block: bytes) -> list[float]:
    """d f16, 16 bytes of nibbles: d * v[q]"""
    d = half(block[0], block[1])
    return [mul(d, NON_LINEAR[q]) for q in nibbles(block[2:])]


def iq4_xs(block: bytes) -> list[float]:
    """d f16, u16 of upper scale bits, 4 bytes of lower ones, 128 of nibbles: (d * (sc - 32)) * v[q] in 8 sub-blocks"""
    d, upper = half(block[0], block[1]), int.from_bytes(block[2:4], "little")
    out = []
    for j in range(8):
        scale = (block[4 + j // 2] >> 4 * (j % 2) & 15 | (upper >> 2 * j & 3) << 4) - 32
        out += [mul(mul(d, scale), NON_LINEAR[q]) for q in nibbles(block[8 + 16 * j : 24 + 16 * j])]
    return out


def mxfp4(block: bytes) -> list[float]:
    """e, 16 bytes of nibbles: 2^(e - 128) * v[q], exact but where it is above every f32"""
    return [mul(math.ldexp(1.0, block[0] - 128), TWICE_E2M1[q]) for q in nibbles(block[1:])]


# type -> bytes per block, values per block, where its f16 scales stand, reader
FORMATS: dict[str, tuple[int, int, tuple[int, ...], Reader]] = {
    "F32": (4, 1, (), f32),
    "F16": (2, 1, (), f16),
    "BF16": (2, 1, (), bf16),
    "Q8_0": (34, 32, (0,), q8_0),
    "Q4_0": (18, 32, (0,), q4_0),
    "Q4_1": (20, 32, (0, 2), q4_1),
    "Q5_0": (22, 32, (0,), q5_0),
    "Q5_1": (24, 32, (0, 2), q5_1),
    "Q4_K": (144, 256, (0, 2), q4_k),
    "Q5_K": (176, 256, (0, 2), q5_k),
    "Q6_K": (210, 256, (208,), q6_k),
    "Q2_K": (84, 256, (80, 82), q2_k),
    "Q3_K": (110, 256, (108,), q3_k),
    "IQ4_NL": (18, 32, (0,), iq4_nl),
    "IQ4_XS": (136, 256, (0,), iq4_xs),
    "MXFP4": (17, 32, (), mxfp4),
}


def read_blocks(dtype: str, data: bytes) -> list[float]:
    """Every value of a run of blocks."""
    size, _, _, reader = FORMATS[dtype]
    return [value for at in range(0, len(data), size) for value in reader(data[at : at + size])]
