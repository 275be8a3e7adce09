"""Faults of the elementary functions and of the ops on rows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.exp_neg import C1, C2, LOG2E, P0, P1, P2, P3, P4, P5, exp_neg
from gnomon.reference.ops.rope import Rotation, rope
from gnomon.reference.ops.settle import FLOOR, settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.protocol import Rows
from mutants.linear import F32, ONE, ZERO, Array, Change, Three


def horner(multiply_add: Three, lowest: float = -34.5) -> Callable[[Array], Array]:
    """exp_neg with another multiply-add, or another end"""

    def mutant(x: Array) -> Array:
        n = np.rint(x * LOG2E)
        r, p = (x - n * C1) - n * C2, np.broadcast_to(P5, x.shape)
        for coefficient in (P4, P3, P2, P1, P0):
            p = multiply_add(p, r, coefficient)
        y = multiply_add(p, r * r, r) + ONE
        return np.where(x < F32(lowest), ZERO, np.ldexp(y, np.maximum(n, -60).astype(int)))

    return mutant


def plain(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def fma(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.float64) * b + c).astype(F32)


def elementary_with(**functions: Callable[[Array], Array]) -> Change:
    def elementary(self: NumpyOps) -> Mapping[str, Callable[[Array], Array]]:
        return {**NumpyOps.elementary(self), **functions}

    return {"elementary": elementary}


def row_op(name: str, function: Callable[..., Array]) -> Change:
    """A method without self and `at`."""
    return {name: lambda self, at, *args: function(*args)}


def quotient_sigmoid(x: Array) -> Array:
    """Without the branch on the sign."""
    return settle(ONE / (ONE + np.exp(-x)))


def library_softplus(x: Array) -> Array:
    return settle(np.maximum(x, ZERO) + np.log1p(exp_neg(-np.abs(x))))


def quotient_silu(x: Array) -> Array:
    return settle(x / (ONE + exp_neg(-np.abs(x))))


def swiglu_settled_once(gate: Array, up: Array) -> Array:
    return settle(gate * sigmoid(gate) * up)


def floor_flushed(x: Array) -> Array:
    return np.where(np.abs(x) <= FLOOR, ZERO, x)


def sign_kept(x: Array) -> Array:
    return np.where(np.abs(x) < FLOOR, x * ZERO, x)


def norm(scale: Three, finish: Three) -> Change:
    """rms_norm from its parts; scale: sum of squares, n, eps -> s; finish: x, s, w -> y"""

    def rms_norm(self: NumpyOps, at: str, x: Array, w: Array, eps: float, groups: int = 1) -> Array:
        split = x.reshape(len(x), groups, -1)
        squares = chunked_sum(np.moveaxis(split * split, -1, 0))[..., None]
        return finish(split, scale(squares, F32(split.shape[-1]), F32(eps)), w).reshape(x.shape)

    return {"rms_norm": rms_norm}


def usual_scale(squares: Array, n: Array, eps: Array) -> Array:
    return ONE / np.sqrt(squares / n + eps)


def usual_finish(x: Array, s: Array, w: Array) -> Array:
    return settle(settle(x * s) * w)


def reciprocal_of_n(squares: Array, n: Array, eps: Array) -> Array:
    return ONE / np.sqrt(squares * (ONE / n) + eps)


def exact_root(squares: Array, n: Array, eps: Array) -> Array:
    """rsqrt, rounded once"""
    return (1.0 / np.sqrt((squares / n + eps).astype(np.float64))).astype(F32)


def eps_outside(squares: Array, n: Array, eps: Array) -> Array:
    return ONE / (np.sqrt(squares / n) + eps)


def root(squares: Array, n: Array, eps: Array) -> Array:
    return np.sqrt(squares / n + eps)


def divided(x: Array, s: Array, w: Array) -> Array:
    return settle(settle(x / s) * w)


def settled_once(x: Array, s: Array, w: Array) -> Array:
    return settle(x * s * w)


def gain_first(x: Array, s: Array, w: Array) -> Array:
    return settle(x * (s * w))


def all_groups(self: NumpyOps, at: str, x: Array, w: Array, eps: float, groups: int = 1) -> Array:
    return NumpyOps.rms_norm(self, at, x, np.tile(w, groups), eps)


def rotated_with(rotate: Callable[[Array, Rotation], Array], rotation: Any = None) -> Change:
    def method(self: NumpyOps, at: str, x: Array, rows: Rows, heads: int, tables: Any) -> Array:
        turn = tables.at(rows.pos) if rotation is None else rotation(rows.pos, tables.inv_freq)
        return rotate(x.reshape(len(x), heads, -1), turn).reshape(x.shape)

    return {"rope": method}


def interleaved(x: Array, turn: Rotation) -> Array:
    dim = 2 * turn.cos.shape[-1]
    order = [*range(0, dim, 2), *range(1, dim, 2), *range(dim, x.shape[-1])]
    return rope(x[..., order], turn)[..., np.argsort(order)]


def turned_back(x: Array, turn: Rotation) -> Array:
    return rope(x, Rotation(turn.cos, -turn.sin))


def float32_table(pos: Array, inv_freq: Array) -> Rotation:
    angle = pos.astype(F32)[:, None] * inv_freq
    return Rotation(settle(np.cos(angle)), settle(np.sin(angle)))


def float64_angle(pos: Array, inv_freq: Array) -> Rotation:
    angle = pos[:, None] * inv_freq.astype(np.float64)
    return Rotation(settle(np.cos(angle).astype(F32)), settle(np.sin(angle).astype(F32)))


def first_row(x: Array, rows: Rows, want: str) -> Array:
    """Of each span, where the last is wanted."""
    return x if want == "all" else x[[span.start for span in rows.spans]]


def tanh_of_the_library(x: Array) -> Array:
    inner = F32(0.7978845608) * (x + F32(0.044715) * x * x * x)
    return settle(F32(0.5) * x * (ONE + np.tanh(inner)))


def sigmoid_gelu(x: Array) -> Array:
    """The other approximation of the same paper."""
    return settle(x * sigmoid(F32(1.702) * x))


def parts_behind_each_other(x: Array, sizes: list[int], heads: int) -> list[Array]:
    """All heads of the first part, then all of the second."""
    return np.split(x, np.cumsum([size * heads for size in sizes])[:-1], axis=-1)


def last_part_first(x: Array, sizes: list[int], heads: int) -> list[Array]:
    parts = np.split(x.reshape(len(x), heads, -1), np.cumsum(sizes[::-1])[:-1], axis=-1)
    return [part.reshape(len(x), -1) for part in parts[::-1]]


def split_with(cut: Callable[[Array, list[int], int], list[Array]]) -> Change:
    return {"split": lambda self, at, x, sizes, heads=1: cut(x, sizes, heads)}
