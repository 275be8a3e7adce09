"""Contract, section 5 (and 8 for the gated norm): normalisations of one row."""

from oracle.elementary import silu
from oracle.f32 import add, chunked_dot, chunked_sum, constant, div, mul, settle, sqrt, sub


def rms_norm(x: list[float], w: list[float], eps: float) -> list[float]:
    m = div(chunked_dot(x, x), float(len(x)))
    s = div(1.0, sqrt(add(m, constant(eps))))
    return [settle(mul(settle(mul(a, s)), b)) for a, b in zip(x, w, strict=True)]


def layer_norm(x: list[float], w: list[float], b: list[float], eps: float) -> list[float]:
    n = float(len(x))
    mu = div(chunked_sum(x), n)
    c = [settle(sub(a, mu)) for a in x]
    v = div(chunked_dot(c, c), n)
    s = div(1.0, sqrt(add(v, constant(eps))))
    return [settle(add(settle(mul(settle(mul(a, s)), g)), h)) for a, g, h in zip(c, w, b, strict=True)]


def l2_norm(x: list[float]) -> list[float]:
    s = div(1.0, sqrt(add(chunked_dot(x, x), constant(1e-6))))
    return [settle(mul(a, s)) for a in x]


def gated_norm(o: list[float], w: list[float], z: list[float], eps: float) -> list[float]:
    """rms_norm(o, w), times silu(z)"""
    return [settle(mul(a, silu(b))) for a, b in zip(rms_norm(o, w, eps), z, strict=True)]
