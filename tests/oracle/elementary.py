"""Contract, section 4: the exponential and what is made from it."""

import math

from oracle.f32 import add, div, from_bits, mul, rint, settle, sub

LOG2E = from_bits(0x3FB8AA3B)
C1 = from_bits(0x3F318000)
C2 = from_bits(0xB95E8083)
P0, P1, P2, P3, P4, P5 = (
    from_bits(word) for word in (0x3F000000, 0x3E2AAAAA, 0x3D2AA9C1, 0x3C088908, 0x3AB743CE, 0x39506967)
)
G = from_bits(0x3FCC422A)  # 2 * sqrt(2 / pi)
H = from_bits(0x3D372713)  # 0.044715
Q0, Q1, Q2, Q3, Q4 = (from_bits(word) for word in (0x3EAAAAAB, 0x3E4CCC6A, 0x3E1264AA, 0x3DDE437A, 0x3DEDE0B9))


def exp_neg(x: float) -> float:
    """e^x for x <= 0"""
    if x < -34.5:
        return 0.0
    n = rint(mul(x, LOG2E))
    r = sub(sub(x, mul(n, C1)), mul(n, C2))
    p = P5
    p = add(mul(p, r), P4)
    p = add(mul(p, r), P3)
    p = add(mul(p, r), P2)
    p = add(mul(p, r), P1)
    p = add(mul(p, r), P0)
    y = add(add(mul(p, mul(r, r)), r), 1.0)
    return math.ldexp(y, int(n))


def sigmoid(x: float) -> float:
    e = exp_neg(-abs(x))
    d = add(1.0, e)
    return settle(div(1.0, d) if x >= 0 else div(e, d))


def silu(x: float) -> float:
    return settle(mul(x, sigmoid(x)))


def gelu_tanh(x: float) -> float:
    cube = mul(settle(mul(x, x)), x)
    return settle(mul(x, sigmoid(mul(G, add(x, mul(H, cube))))))


def log1p01(u: float) -> float:
    """log(1 + u) for 0 <= u <= 1"""
    s = div(u, add(2.0, u))
    z = settle(mul(s, s))
    q = Q4
    q = add(mul(q, z), Q3)
    q = add(mul(q, z), Q2)
    q = add(mul(q, z), Q1)
    q = add(mul(q, z), Q0)
    t = add(s, s)
    return add(t, mul(t, mul(z, q)))


def softplus(x: float) -> float:
    return settle(add(max(x, 0.0), log1p01(exp_neg(-abs(x)))))
