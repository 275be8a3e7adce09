"""Each op of the contract written out in scalar Python, with one or two things that can be changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import departures as d
from departures import add, div, dot, f32, mul, settle, table

Arrays = dict[str, NDArray[Any]]
Made = tuple[Arrays, dict[str, Any], d.F32]
Dot = Callable[[Any, Any], float]
CONTRACT = dot(d.chunk(128))


def values(seed: int, *shape: int, scale: float = 1.0) -> d.F32:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def floats(x: NDArray[Any]) -> Any:
    return x.tolist()


def product(
    rule: Dot = CONTRACT,
    K: int = 300,
    scale: float = 1.0,
    operand: Callable[[float], float] = lambda x: x,
    result: Callable[[float], float] = settle,
    rewire: Callable[[d.F32, d.F32], tuple[d.F32, d.F32]] = lambda x, w: (x, w),
    outputs: int = 10,
    bias: bool = False,
) -> Callable[[], Made]:
    """linear"""

    def make() -> Made:
        x, w, b = values(1, 4, K, scale=scale), values(2, outputs, K, scale=scale), values(3, outputs)
        read_x, read_w = ([[operand(v) for v in row] for row in floats(m)] for m in rewire(x, w))
        y = [[result(rule(row, column)) for column in read_w] for row in read_x]
        if bias:
            y = [[result(add(v, c)) for v, c in zip(row, floats(b), strict=True)] for row in y]
        return {"x": x, "w": w} | ({"b": b} if bias else {}), {}, table(y)

    return make


def norm(
    rule: Dot = CONTRACT,
    eps: float = 1e-5,
    told: float = 1e-5,
    root: Callable[[float, float], float] = lambda m, e: div(1.0, d.sqrt(add(m, e))),
    divided: bool = False,
    mean: Callable[[Any], float] | None = None,
    scale: float = 0.01,
) -> Callable[[], Made]:
    """rms_norm; told: the eps that `explain` is given"""

    def make() -> Made:
        x, w = values(4, 30, 200, scale=scale), values(5, 200)
        y = []
        for row in floats(x):
            m = mean(row) if mean else div(rule(row, row), 200.0)
            s = root(m, f32(eps))
            unit = [settle(div(v, s) if divided else mul(v, s)) for v in row]
            y.append([settle(mul(v, c)) for v, c in zip(unit, floats(w), strict=True)])
        return {"x": x, "w": w}, {"eps": told}, table(y)

    return make


def layer(
    rule: Dot = CONTRACT, eps: float = 1e-5, scale: float = 0.02, root: Callable[[float], float] | None = None
) -> Callable[[], Made]:
    """layer_norm"""

    def make() -> Made:
        x, w, b = values(6, 30, 150, scale=scale), values(7, 150), values(8, 150)
        y = []
        for row in floats(x):
            mu = div(rule(row, [1.0] * 150), 150.0)
            c = [settle(add(v, -mu)) for v in row]
            v = add(div(rule(c, c), 150.0), f32(eps))
            s = root(v) if root else div(1.0, d.sqrt(v))
            y.append(
                [
                    settle(add(settle(mul(settle(mul(t, s)), f)), g))
                    for t, f, g in zip(c, floats(w), floats(b), strict=True)
                ]
            )
        return {"x": x, "w": w, "b": b}, {"eps": 1e-5}, table(y)

    return make


def rotation(how: str) -> Callable[[], Made]:
    """rope, head width 16"""

    def make() -> Made:
        from gnomon.reference.ops.rope import RopeTables  # only for exact tables, which no departure touches

        x, pos, tables = values(9, 6, 3 * 16), np.arange(5, 11), RopeTables(10000.0, 16)
        cos, sin = (floats(t) for t in tables.at(pos + 1 if how == "next" else pos))
        y = np.array(x).reshape(6, 3, 16)
        for r in range(6):
            for h in range(3):
                head = floats(x.reshape(6, 3, 16)[r, h])
                for i in range(8):
                    at = (2 * i, 2 * i + 1) if how == "interleaved" else (i, i + 8)
                    (x1, x2), c, s = (head[j] for j in at), cos[r][i], sin[r][i]
                    if how == "first":
                        made = d.fma(x1, c, -mul(x2, s)), d.fma(x2, c, mul(x1, s))
                    elif how == "second":
                        made = d.fma(-x2, s, mul(x1, c)), d.fma(x1, s, mul(x2, c))
                    elif how == "opposite":
                        made = add(mul(x1, c), mul(x2, s)), add(mul(x2, c), -mul(x1, s))
                    else:
                        made = add(mul(x1, c), -mul(x2, s)), add(mul(x2, c), mul(x1, s))
                    y[r, h, at[0]], y[r, h, at[1]] = (settle(v) for v in made)
        return {"x": x, "pos": pos}, {"heads": 3, "tables": tables}, y.reshape(6, 48)

    return make


def cache(seed: int, T: int, width: int) -> d.F32:
    return values(seed, T, 3, width)


def scores(
    rule: Dot = CONTRACT, head: Callable[[int], int] = lambda h: h // 2, swap: bool = False
) -> Callable[[], Made]:
    """Six heads on three kv heads, rows at positions 4 .. 8 of 9."""

    def make() -> Made:
        q, k, v, pos = values(10, 5, 6, 140), cache(11, 9, 140), cache(12, 9, 140), np.arange(4, 9)
        scale, keys = f32(140**-0.5), floats(v if swap else k)
        y = np.zeros((5, 6, 9), np.float32)
        for r, p in enumerate(pos):
            for h in range(6):
                for j in range(p + 1):
                    y[r, h, j] = settle(mul(settle(rule(floats(q[r, h]), keys[j][head(h)])), scale))
        return {"q": q, "k": k, "v": v, "pos": pos}, {"scale": scale}, y

    return make


def exponentials(function: Callable[[float], float]) -> Callable[[], Made]:
    """exp_scores"""

    def make() -> Made:
        pos = np.arange(20, 24)
        seen = np.arange(24) <= pos[:, None]
        s = np.where(seen[:, None], values(13, 4, 20, 24, scale=9.0), np.float32(0.0))
        y = np.zeros_like(s)
        for r, p in enumerate(pos):
            for h in range(20):
                top = max(floats(s[r, h, : p + 1]))
                y[r, h, : p + 1] = [function(settle(add(v, -top))) for v in floats(s[r, h, : p + 1])]
        return {"s": s, "pos": pos}, {}, y

    return make


def denominators(order: d.Sum) -> Callable[[], Made]:
    def make() -> Made:
        e = np.exp(-np.abs(values(14, 6, 8, 300, scale=3.0)))
        return {"e": e}, {}, table([order(row) for row in rows] for rows in floats(e))

    return make


def mixes(rule: Dot = CONTRACT, head: Callable[[int], int] = lambda h: h // 2, how: str = "") -> Callable[[], Made]:
    def make() -> Made:
        e, k, v = np.exp(-np.abs(values(15, 3, 6, 150, scale=3.0))), cache(16, 150, 5), cache(17, 150, 5)
        total = table([d.chunk(128)(row) for row in rows] for rows in floats(e))
        y = np.zeros((3, 6, 5), np.float32)
        for r in range(3):
            for h in range(6):
                row, by = floats(e[r, h]), float(total[r, h])
                row = [settle(div(x, by)) for x in row] if how == "early" else row
                for i in range(5):
                    column = floats((k if how == "swapped" else v)[:, head(h), i])
                    o = settle(rule(row, column))
                    y[r, h, i] = o if how == "early" else settle(mul(o, div(1.0, by)) if how == "times" else div(o, by))
        return {"e": e, "denom": total, "v": v, "k": k}, {}, y

    return make


def gate(x: float, exp: Callable[[float], float]) -> float:
    """sigmoid"""
    e = exp(-abs(x))
    return settle(div(1.0 if x >= 0 else e, add(1.0, e)))


def activation(op: str, exp: Callable[[float], float], swapped: bool = False) -> Callable[[], Made]:
    def make() -> Made:
        x, up = values(18, 5, 60, scale=15.0), values(19, 5, 60)
        a, b = (up, x) if swapped else (x, up)
        y = [[gate(v, exp) for v in row] for row in floats(a)]
        if op != "sigmoid":
            y = [[settle(mul(v, s)) for v, s in zip(*rows, strict=True)] for rows in zip(floats(a), y, strict=True)]
        if op == "swiglu":
            y = [[settle(mul(v, u)) for v, u in zip(*rows, strict=True)] for rows in zip(y, floats(b), strict=True)]
        return {"gate": x, "up": up} if op == "swiglu" else {"x": x}, {}, table(y)

    return make


def sums(
    read: Callable[[float], float] = float,
    result: Callable[[float], float] = settle,
    roll: int = 0,
    tiny: bool = False,
) -> Callable[[], Made]:
    """add"""

    def make() -> Made:
        x, y = values(20, 6, 40), values(21, 6, 40)
        if tiny:
            x, y = x * np.float32(2.0**-49), y * np.float32(2.0**-49)
        rows = zip(floats(x), floats(np.roll(y, roll, axis=0)), strict=True)
        return (
            {"x": x, "y": y},
            {},
            table([result(add(read(a), read(b))) for a, b in zip(*r, strict=True)] for r in rows),
        )

    return make
