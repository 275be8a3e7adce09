"""Inputs for op cases: f32 arrays that depend on nothing but their name."""

import zlib

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]

# Magnitudes as powers of two: between the ops of a model lie settled values below 2^60.
RANGES = {"plain": (-6, 3), "tiny": (-50, -40), "large": (50, 59), "wide": (-50, 10)}


def uniform(name: str, *shape: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), the same for the same name."""
    return np.random.Generator(np.random.PCG64(zlib.crc32(name.encode()))).random(shape)


def scattered(kind: str, name: str, *shape: int) -> F32:
    """Either sign; magnitudes spread evenly over the powers of two of the kind."""
    low, high = RANGES[kind]
    exponent = np.floor(uniform(f"{name} exponent", *shape) * (high - low)) + low
    magnitude = np.ldexp(1.0 + uniform(f"{name} mantissa", *shape), exponent.astype(int))
    below = np.nextafter(np.float32(2.0**high), np.float32(0))  # where rounding would reach the next power
    magnitude = np.minimum(magnitude.astype(np.float32), below)
    signed: F32 = np.where(uniform(f"{name} sign", *shape) < 0.5, -magnitude, magnitude)
    return signed


def cancelling(x: F32) -> F32:
    """Along the last axis every second value takes back the one before it: all, up to an ulp, or too much."""
    x = x.copy()
    odd = x[..., 1::2]
    odd[...] = -x[..., 0 : 2 * odd.shape[-1] : 2]
    odd[..., 1::3] = np.nextafter(odd[..., 1::3], np.copysign(np.float32(np.inf), odd[..., 1::3]))
    odd[..., 2::3] *= np.float32(1.5)
    return x


def paired(x: F32) -> F32:
    """Along the last axis every second value repeats the one before it: the weights of a cancelling row."""
    x = x.copy()
    odd = x[..., 1::2]
    odd[...] = x[..., 0 : 2 * odd.shape[-1] : 2]
    return x


def sparse(x: F32) -> F32:
    """Every third value is +0.0, so that products are zeros of either sign."""
    x = x.copy()
    x.reshape(-1)[::3] = 0.0
    return x


def unsettled(x: F32) -> F32:
    """As a file may store weights: subnormals, -0.0 and values below the floor among them."""
    x = x.copy()
    flat = x.reshape(-1)
    for start, value in enumerate((-0.0, 1e-40, -(2.0**-51), 2.0**-50, -(2.0**-50) * (1 - 2.0**-24))):
        flat[start::11] = value
    return x


def near(*points: float) -> F32:
    """Each point and its two neighbours."""
    at = np.array(points, np.float32)
    return np.concatenate([np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))])


FLOORS = 2.0**-50 * np.array([1, 1 + 2.0**-23, 2, 2 - 2.0**-23, 3, 4, 4 - 2.0**-22, 0])


def about_floor(name: str, *shape: int) -> F32:
    """Settled values whose halves, quarters, sums and differences lie at the floor of settling and one place below."""
    chosen = FLOORS[(uniform(f"{name} floor", *shape) * len(FLOORS)).astype(int)]
    signed: F32 = np.where(uniform(f"{name} sign", *shape) < 0.5, -chosen, chosen).astype(np.float32)
    return signed + np.float32(0)  # no negative zero


def neighbours(point: float, n: int) -> F32:
    """The f32 numbers around a point other than 0, n on either side of it."""
    word = int(np.float32(point).view(np.int32))
    around: F32 = np.arange(word - n, word + n + 1).astype(np.int32).view(np.float32)
    return around
