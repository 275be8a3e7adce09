"""The ops of the contract, computed by a recipe. With the default recipe they give the contract's bytes.

Every op takes its arrays by name and its numbers by name, and gives one array. Attention is one sequence at a time:
`pos` holds the absolute positions of the rows, `k` and `v` all T positions that the state holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain.recipe import Recipe
from gnomon.reference.ops.attention import Seen, seen
from gnomon.reference.ops.gelu_tanh import G, H

F32 = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]
Numbers = Mapping[str, Any]
Function = Callable[[Recipe, Arrays, Numbers], F32]


def linear(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x, w = r.read(a["x"]), r.read(a["w"])  # [rows, K], [N, K]
    y = r.f32(r.dot(x.T[:, :, None], w.T[:, None]))  # [rows, N]
    if "b" not in a:
        return r.result(y)
    return r.result(r.settle(y) + a["b"])


def rms_norm(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x, w = r.read(grouped(a["x"], p)), r.read(a["w"])
    t = np.moveaxis(x, -1, 0)
    m = r.mean_of(t, t, x.shape[-1])
    return r.result(r.settle(r.over_root(x, m, p["eps"])) * w).reshape(a["x"].shape)


def layer_norm(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x, w, b = r.read(a["x"]), r.read(a["w"]), r.read(a["b"])
    n = x.shape[-1]
    t = np.moveaxis(x, -1, 0)
    c = r.settle(x - r.mean_of(t, np.ones_like(t), n)[..., None])
    t = np.moveaxis(c, -1, 0)
    unit = r.settle(r.over_root(c, r.mean_of(t, t, n), p["eps"]))
    if r.settled:
        return r.result(r.settle(unit * w) + b)
    return r.result(r.mul_add(unit, w, b))


def l2_norm(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x = r.read(grouped(a["x"], p))
    t = np.moveaxis(x, -1, 0)
    y = r.result(r.over_root(x, r.f32(r.dot(t, t)), 1e-6)).reshape(a["x"].shape)
    return y if p.get("scale") is None else r.result(y * np.float32(p["scale"]))


def rope(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x = r.read(a["x"].reshape(len(a["x"]), p["heads"], -1))  # [rows, heads, d]
    c, s = (r.read(t)[:, None] for t in p["tables"].at(a["pos"]))  # [rows, 1, dim/2]
    dim = 2 * c.shape[-1]
    if r.layout == "interleaved":
        x1, x2 = x[..., 0:dim:2], x[..., 1:dim:2]
    else:
        x1, x2 = x[..., : dim // 2], x[..., dim // 2 : dim]
    if r.layout == "backwards":
        s = -s
    words = r.fused.split()
    y1 = r.result(turned(r, x1, c, -x2, s, words[0] if words else ""))
    y2 = r.result(turned(r, x2, c, x1, s, words[-1] if words else ""))
    out = np.array(x)
    if r.layout == "interleaved":
        out[..., 0:dim:2], out[..., 1:dim:2] = y1, y2
    else:
        out[..., : dim // 2], out[..., dim // 2 : dim] = y1, y2
    return out.reshape(a["x"].shape)


def turned(r: Recipe, x: F32, c: F32, y: F32, s: F32, fused: str) -> F32:
    """x * c + y * s"""
    if fused == "first":
        return r.mul_add(x, c, r.made(y * s))
    if fused == "second":
        return r.mul_add(y, s, r.made(x * c))
    return r.made(r.made(x * c) + r.made(y * s))


def scores(r: Recipe, a: Arrays, p: Numbers) -> F32:
    q, k, scale = r.read(a["q"]), r.read(a["k"]), np.float32(p["scale"])
    if r.early == "scale":
        q = r.settle(q * scale)
    rows, heads, d = q.shape
    T, kv_heads, _ = k.shape
    q_first = q.reshape(rows, kv_heads, -1, d).transpose(3, 0, 1, 2)[..., None]  # [d, rows, kv_heads, group, 1]
    k_first = k.transpose(2, 1, 0)[:, None, :, None]  # [d, 1, kv_heads, 1, T]
    dot = r.settle(r.f32(r.dot(q_first, k_first))).reshape(rows, heads, T)
    return np.where(visible(a, p, T), r.result(dot if r.early == "scale" else dot * scale), np.float32(0.0))


def exp_scores(r: Recipe, a: Arrays, p: Numbers) -> F32:
    s = r.read(a["s"])
    see = visible(a, p, s.shape[-1])
    m = np.max(np.where(see, s, np.float32(-np.inf)), axis=-1, keepdims=True)
    difference = np.where(see, r.settle(s - m), np.float32(0.0))
    return np.where(see, r.stored(r.exp_neg(difference)), np.float32(0.0))


def denom(r: Recipe, a: Arrays, p: Numbers) -> F32:
    return r.stored(r.total(np.moveaxis(r.read(a["e"]), -1, 0)))  # a denominator is not settled


def mix(r: Recipe, a: Arrays, p: Numbers) -> F32:
    e, v, total = r.read(a["e"]), r.read(a["v"]), a["denom"][..., None]
    if r.early == "denominator":
        e = r.settle(r.over(e, total))
    rows, heads, T = e.shape
    _, kv_heads, d = v.shape
    e_first = e.reshape(rows, kv_heads, -1, T).transpose(3, 0, 1, 2)[..., None]  # [T, rows, kv_heads, group, 1]
    o = r.f32(r.dot(e_first, v[:, None, :, None])).reshape(rows, heads, d)
    return r.result(o) if r.early == "denominator" else r.result(r.over(r.settle(o), total))


def attention(r: Recipe, a: Arrays, p: Numbers) -> F32:
    """The four steps; what lies between them stays in this op."""
    inner = replace(r, results="f32")
    e = exp_scores(inner, {**a, "s": scores(inner, a, p)}, p)
    return mix(r, {**a, "e": e, "denom": denom(inner, {"e": e}, p)}, p)


def visible(a: Arrays, p: Numbers, T: int) -> Seen:
    return seen(a["pos"], T, p.get("window"))


def grouped(x: F32, p: Numbers) -> F32:
    """[rows, groups * n] -> [rows, groups, n]"""
    return x.reshape(len(x), p["groups"], -1) if p.get("groups", 1) != 1 else x


def gelu_tanh(r: Recipe, a: Arrays, p: Numbers) -> F32:
    x = r.read(a["x"])
    cube = r.settle(x * x) * x
    return r.result(x * r.sigmoid(G * r.mul_add(np.full_like(x, H), cube, x)))


def swiglu(r: Recipe, a: Arrays, p: Numbers) -> F32:
    return r.result(r.silu(r.read(a["gate"])) * r.read(a["up"]))


@dataclass(frozen=True)
class Op:
    """rows: the arrays whose first axis counts rows, in step with the result
    sums: the arrays over whose last axis the op adds
    groups: the groups of variants (see menu.py) that can touch it
    unit: leading axes of the result whose parts decide for themselves, as the rows of a norm do, which have one root
          each; None: every element does
    """

    function: Function
    arrays: tuple[str, ...]
    rows: tuple[str, ...]
    sums: tuple[str, ...]
    groups: tuple[str, ...]
    optional: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    unit: int | None = None


PLAIN = ("operands", "results", "settling", "flush", "rows")
PRODUCT = (*PLAIN, "order", "fused", "accumulator")
NORM = (*PRODUCT, "mean", "root", "eps", "reciprocal")
EXP = (*PLAIN, "fused", "exp")

OPS: dict[str, Op] = {
    "linear": Op(linear, ("x", "w"), ("x",), ("x",), (*PRODUCT, "matrix"), ("b",)),
    "rms_norm": Op(rms_norm, ("x", "w"), ("x",), ("x",), NORM, numbers=("eps",), unit=1),
    "layer_norm": Op(layer_norm, ("x", "w", "b"), ("x",), ("x",), NORM, numbers=("eps",), unit=1),
    "l2_norm": Op(l2_norm, ("x",), ("x",), ("x",), (*PRODUCT, "root", "eps"), unit=1),
    "rope": Op(rope, ("x", "pos"), ("x", "pos"), (), (*PLAIN, "position"), numbers=("heads", "tables")),
    "scores": Op(
        scores, ("q", "k", "pos"), ("q", "pos"), ("q",), (*PRODUCT, "scale", "heads", "cache", "position"),
        optional=("v",), numbers=("scale",),
    ),
    "exp_scores": Op(exp_scores, ("s", "pos"), ("s", "pos"), (), (*EXP, "position")),
    "denom": Op(denom, ("e",), ("e",), ("e",), ("rows", "operands", "results", "order", "accumulator")),
    "mix": Op(
        mix, ("e", "denom", "v"), ("e", "denom"), ("e",), (*PRODUCT, "denominator", "reciprocal", "heads", "cache"),
        optional=("k",),
    ),
    "attention": Op(
        attention, ("q", "k", "v", "pos"), ("q", "pos"), ("q", "k"),
        (*PRODUCT, "exp", "scale", "denominator", "reciprocal", "heads", "cache", "position"),
        numbers=("scale",), unit=2,
    ),
    "sigmoid": Op(lambda r, a, p: r.stored(r.sigmoid(r.read(a["x"]))), ("x",), ("x",), (), EXP),
    "silu": Op(lambda r, a, p: r.stored(r.silu(r.read(a["x"]))), ("x",), ("x",), (), EXP),
    "gelu_tanh": Op(gelu_tanh, ("x",), ("x",), (), EXP),
    "swiglu": Op(swiglu, ("gate", "up"), ("gate", "up"), (), (*EXP, "gate")),
    "add": Op(lambda r, a, p: r.result(r.read(a["x"]) + r.read(a["y"])), ("x", "y"), ("x", "y"), (), PLAIN),
    "mul": Op(lambda r, a, p: r.result(r.read(a["x"]) * r.read(a["y"])), ("x", "y"), ("x", "y"), (), PLAIN),
}  # fmt: skip
