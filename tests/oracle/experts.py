"""Contract, section 5: mixture of experts, for one row."""

from collections.abc import Callable, Sequence

from oracle.elementary import sigmoid
from oracle.f32 import add, div, mul, settle
from oracle.rowwise import softmax

Row = list[float]
Expert = Callable[[Row], Row]


def route(router: Row, top_k: int, normalise: bool) -> dict[int, float]:
    """router: linear(a), one number per expert -> the chosen experts by id, ascending, and their weights"""
    p = softmax(router)
    chosen = sorted(range(len(p)), key=lambda i: (-p[i], i))[:top_k]
    if normalise:
        z = 0.0
        for i in chosen:
            z = add(z, p[i])
        for i in chosen:
            p[i] = settle(div(p[i], z))
    return {i: p[i] for i in sorted(chosen)}


def mixture(
    a: Row,
    router: Row,
    experts: Sequence[Expert],
    top_k: int,
    normalise: bool,
    shared: tuple[float, Expert] | None = None,
) -> Row:
    """shared: the gate linear(a) and the shared expert"""
    y = [0.0] * len(a)
    for i, p in route(router, top_k, normalise).items():
        y = [settle(add(old, settle(mul(p, new)))) for old, new in zip(y, experts[i](a), strict=True)]
    if shared is not None:
        gate, expert = shared
        y = [settle(add(old, settle(mul(sigmoid(gate), new)))) for old, new in zip(y, expert(a), strict=True)]
    return y
