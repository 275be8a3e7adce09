"""Contract, section 6: sampling. Integers after the exponential."""

from oracle.elementary import exp_neg
from oracle.f32 import div, f32, settle, sub
from oracle.rowwise import argmax

WORD = (1 << 64) - 1


def philox(seed: int, position: int) -> int:
    """First word of Philox4x64-10 (Salmon et al. 2011), key (seed, 0). NumPy counts up before it draws."""
    c0, c1 = (position + 1) & WORD, (position + 1) >> 64
    c2, c3, k0, k1 = 0, 0, seed, 0
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * c0, 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * c2, 1 << 64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return c0


def sample(logits: list[float], T: float, top_k: int, top_p: float, seed: int, position: int) -> int:
    """The token id; ValueError where the contract refuses."""
    T = f32(T)
    if T == 0.0:
        return argmax(logits)
    if not 2.0**-20 <= T <= 2.0**20:
        raise ValueError(f"Expected T = 0 or 2^-20 <= T <= 2^20 but got {T}")
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"Expected 0 < top_p <= 1 but got {top_p}")
    highest = max(logits)
    weights = [int(exp_neg(settle(div(settle(sub(x, highest)), T))) * 2**40) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: (-weights[i], i))
    kept = order[: top_k or len(order)]
    A = sum(weights[i] for i in kept)
    bound = round(top_p * 2**32) * A
    prefix, S = [], 0
    for i in kept:
        prefix.append(i)
        S += weights[i]
        if bound <= S << 32:
            break
    t = (philox(seed, position) * S) >> 64
    running = 0
    for i in sorted(prefix):
        running += weights[i]
        if running > t:
            return i
    raise AssertionError("t < total, so the walk ends before this line")
