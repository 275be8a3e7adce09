"""Contract, section 5: mixture of experts, for one row."""

from collections.abc import Callable, Sequence

from oracle.elementary import sigmoid
from oracle.f32 import add, div, mul, settle
from oracle.rowwise import softmax

Row = list[float]
Expert = Callable[[Row], Row]


def mixture(
    a: Row,
    router: Row,
    experts: Sequence[Expert],
    top_k: int,
    normalise: bool,
    shared: tuple[float, Expert] | None = None,
) -> Row:
    """router: linear(a), one number per expert; shared: the gate linear(a) and the shared expert"""
    p = softmax(router)
    chosen = sorted(range(len(p)), key=lambda i: (-p[i], i))[:top_k]
    if normalise:
        z = 0.0
        for i in chosen:
            z = add(z, p[i])
        for i in chosen:
            p[i] = settle(div(p[i], z))
    y = [0.0] * len(a)
    for i in sorted(chosen):
        y = [settle(add(old, settle(mul(p[i], new)))) for old, new in zip(y, experts[i](a), strict=True)]
    if shared is not None:
        gate, expert = shared
        y = [settle(add(old, settle(mul(sigmoid(gate), new)))) for old, new in zip(y, expert(a), strict=True)]
    return y
