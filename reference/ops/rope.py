"""Rotary position embedding, half layout."""

from typing import NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.config import RopeScaling
from gnomon.reference.ops.settle import FLOOR, settle

F32 = NDArray[np.float32]
TIE = 2.0**-20  # of an ulp: far more than the error of any float64 cosine


class Rotation(NamedTuple):
    """cos and sin of some positions: [rows, dim / 2] each"""

    cos: F32
    sin: F32


def rope(x: F32, rotation: Rotation) -> F32:
    """Rotate the pairs (x[i], x[i + dim/2]) of every head by the angle of the row's position

    Shapes:   x [rows, heads, d], cos and sin [rows, dim/2] -> [rows, heads, d]; entries from dim on pass
    Formats:  f32 in and out
    Order:    y1 = settle(x1*cos - x2*sin);  y2 = settle(x2*cos + x1*sin)
    Source:   Su et al. 2021, arXiv 2104.09864; contract, section 5
    """
    c, s = rotation.cos[:, None], rotation.sin[:, None]  # [rows, 1, dim/2]
    half = c.shape[-1]
    x1, x2, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return np.concatenate([settle(x1 * c - x2 * s), settle(x2 * c + x1 * s), rest], axis=-1)


class RopeTables:
    """cos and sin tables, grown on demand and kept: exact values of the f32 angle, rounded once, settled.

    theta: base of the frequencies; dim: rotary width (even); scaling: how the model stretches them
    """

    def __init__(self, theta: float, dim: int, scaling: RopeScaling | None = None) -> None:
        self.inv_freq = inverse_frequencies(theta, dim, scaling)  # [dim/2]
        self.cos = np.empty((0, dim // 2), np.float32)
        self.sin = np.empty((0, dim // 2), np.float32)

    def at(self, pos: NDArray[np.int64]) -> Rotation:
        """The rows of the tables at positions `pos`, each below 2^24."""
        need = int(pos.max()) + 1
        have = len(self.cos)
        if need > max(have, DENSE_POSITIONS):  # far positions: compute these rows, keep nothing
            return rotation(pos, self.inv_freq)
        if need > have:
            fresh = rotation(np.arange(have, max(need, min(2 * have, DENSE_POSITIONS))), self.inv_freq)
            self.cos = np.concatenate([self.cos, fresh.cos])
            self.sin = np.concatenate([self.sin, fresh.sin])
        return Rotation(self.cos[pos], self.sin[pos])


DENSE_POSITIONS = 1 << 16


def inverse_frequencies(theta: float, dim: int, scaling: RopeScaling | None = None) -> F32:
    """theta ** (-2i/dim), i = 0 .. dim/2 - 1, scaled, as real numbers, each rounded once to f32: [dim/2]"""
    with mpmath.workprec(200):
        exact = [mpmath.mpf(theta) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]
        if scaling is not None:
            exact = [scaled(freq, scaling) for freq in exact]
    return np.array([round_once(x) for x in exact], np.float32)


def scaled(freq: "mpmath.mpf", scaling: RopeScaling) -> "mpmath.mpf":
    """One frequency as the model stretches it, a real number.

    linear: freq / factor. llama3: freq where the wavelength is below original / high, freq / factor where it is above
    original / low, and between them (1 - t) freq / factor + t freq, t = (original / wavelength - low) / (high - low).
    Source: Chen et al. 2023, arXiv 2306.15595; Llama 3.1 model card and its published code
    """
    slow = freq / mpmath.mpf(scaling.factor)
    if scaling.kind == "linear":
        return slow
    wavelength = 2 * mpmath.pi / freq
    low, high = mpmath.mpf(scaling.low), mpmath.mpf(scaling.high)
    if wavelength < scaling.original_positions / high:
        return freq
    if wavelength > scaling.original_positions / low:
        return slow
    t = (scaling.original_positions / wavelength - low) / (high - low)
    return (1 - t) * slow + t * freq


def rotation(pos: NDArray[np.int64], inv_freq: F32) -> Rotation:
    """cos and sin of f32(pos) * inv_freq, the product rounded to f32: [rows, dim/2] each"""
    angle = pos.astype(np.float32)[:, None] * inv_freq  # [rows, dim/2] f32
    return Rotation(table(np.cos, mpmath.cos, angle), table(np.sin, mpmath.sin, angle))


def table(fast: np.ufunc, exact: "mpmath.ctx_mp.MPContext", angle: F32) -> F32:
    """The function of the f32 angle, rounded once to f32 and settled; in float64 except within a hair of a tie."""
    value = fast(angle.astype(np.float64))
    rounded = value.astype(np.float32)
    ulp = np.spacing(np.maximum(np.abs(rounded), FLOOR)).astype(np.float64)  # below the floor settling decides
    off = np.abs(value - rounded.astype(np.float64)) / ulp  # 0.5 at a tie
    near = np.abs(off - 0.5) <= TIE
    with mpmath.workprec(200):
        for at in zip(*np.nonzero(near), strict=True):
            rounded[at] = round_once(exact(mpmath.mpf(float(angle[at]))))
    return settle(rounded)


def round_once(x: "mpmath.mpf") -> float:
    """A real number as the nearest f32, ties to even, in one rounding."""
    with mpmath.workprec(24):
        return float(+x)
