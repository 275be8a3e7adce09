"""Contract, section 5: rotary embedding. Tables are real numbers, known to 200 bits, rounded once."""

from typing import Any

import mpmath

from oracle.f32 import add, mul, nearest, settle, sub

Scaling = dict[str, Any]  # as in a config file: rope_type "linear" or "llama3", factor, ...


def inverse_frequencies(theta: float, dim: int, scaling: Scaling | None = None) -> list[float]:
    """theta^(-2i/dim), changed by the scaling, rounded once: [dim / 2]"""
    with mpmath.workprec(200):
        exact = [mpmath.mpf(repr(theta)) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]
        return [nearest(f if scaling is None else scaled(f, scaling)) for f in exact]


def scaled(f: mpmath.mpf, scaling: Scaling) -> mpmath.mpf:
    """linear: f / factor. llama3: that for long wavelengths only, with a blend between the two bounds"""
    factor = mpmath.mpf(repr(scaling["factor"]))
    if scaling["rope_type"] == "linear":
        return f / factor
    low, high = mpmath.mpf(repr(scaling["low_freq_factor"])), mpmath.mpf(repr(scaling["high_freq_factor"]))
    turns = scaling["original_max_position_embeddings"] * f / (2 * mpmath.pi)  # within the trained context
    if turns > high:
        return f
    if turns < low:
        return f / factor
    smooth = (turns - low) / (high - low)
    return (1 - smooth) * f / factor + smooth * f


def tables(pos: list[int], inv_freq: list[float]) -> tuple[list[list[float]], list[list[float]]]:
    """Cosine and sine of the f32 angle f32(pos) * inv_freq, settled: [positions, dim / 2] each"""
    cos, sin = [], []
    for p in pos:
        assert 0 <= p < 1 << 24
        angles = [mul(float(p), f) for f in inv_freq]
        with mpmath.workprec(200):
            cos.append([settle(nearest(mpmath.cos(a))) for a in angles])
            sin.append([settle(nearest(mpmath.sin(a))) for a in angles])
    return cos, sin


def rope(x: list[float], cos: list[float], sin: list[float]) -> list[float]:
    """One head of one row [d] and the table rows of its position [dim / 2]; entries from dim on pass"""
    half = len(cos)
    x1, x2 = x[:half], x[half : 2 * half]
    pairs = list(zip(x1, x2, cos, sin, strict=True))
    y1 = [settle(sub(mul(a, c), mul(b, s))) for a, b, c, s in pairs]
    y2 = [settle(add(mul(b, c), mul(a, s))) for a, b, c, s in pairs]
    return y1 + y2 + x[2 * half :]
