"""How an op computes: the contract's way by default, and each departure from it as one field."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain.orders import CONTRACT, plan
from gnomon.compare.explain.rounding import STORED, exp_f64, flush, fma, rsqrt
from gnomon.reference.ops.exp_neg import C1, C2, LOG2E, LOWEST, P0, P1, P2, P3, P4, P5, exp_neg
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]
ONE = np.float32(1.0)


@dataclass(frozen=True)
class Recipe:
    """The defaults are the contract.

    order:       of every sum; see orders.py
    fused:       where a product meets a sum, "first" or "second" names the product of two that is not rounded;
                 "first second" and "second first" are for the two halves of a rotation
    accumulator: "f32", "bf16", "f16", "f64" (rounded products), "f64 exact" (products not rounded)
    mean:        what divides a float64 sum by n: "f64" or "f32"
    operands, results: "f32", "bf16", "f16", "tf32", "tf32 even", "tf32 cut"
    flush:       subnormals become zero: "none", "inputs", "results" (of every operation)
    root:        "1/sqrt", "rsqrt" (rounded once) or "x/sqrt" (the row is divided by the root)
    exp:         "contract", "f64" or "f64 below" (also where the contract gives zero)
    eps, eps_at: another epsilon; "inside" the root, "outside" it, or "at least" it
    reciprocal:  a division by n or by the denominator is a product with 1/n
    early:       a factor that goes in before the sum: "scale" into q, "denominator" into e
    layout:      of a rotation: "half", "interleaved" or "backwards" (the opposite angle)
    """

    order: str = CONTRACT
    fused: str = ""
    accumulator: str = "f32"
    mean: str = "f64"
    operands: str = "f32"
    results: str = "f32"
    settled: bool = True
    flush: str = "none"
    root: str = "1/sqrt"
    exp: str = "contract"
    eps: float | None = None
    eps_at: str = "inside"
    reciprocal: bool = False
    early: str = ""
    layout: str = "half"

    # --- values -------------------------------------------------------------------------------------------------
    def read(self, x: F32) -> F32:
        """An operand as the op sees it."""
        return STORED[self.operands](flush(x) if self.flush == "inputs" else x)

    def made(self, x: F32) -> F32:
        """The result of any operation inside."""
        return flush(x) if self.flush == "results" else x

    def settle(self, x: F32) -> F32:
        return settle(x) if self.settled else self.made(x)

    def stored(self, x: F32) -> F32:
        return STORED[self.results](x)

    def result(self, x: F32) -> F32:
        """What leaves the op."""
        return self.stored(self.settle(x))

    # --- products and sums --------------------------------------------------------------------------------------
    def mul_add(self, a: F32, b: F32, c: F32) -> F32:
        """a * b + c"""
        return self.made(fma(a, b, c) if self.fused else self.made(a * b) + c)

    def dot(self, a: F32, b: F32) -> Any:
        """sum of a[i] * b[i]: [K, ...] twice -> [...], f32, or float64 from a float64 accumulator"""
        made = plan(self.order, a.shape[0])
        a, b = (np.concatenate([x, np.zeros_like(x[:1])]) for x in (a, b))  # term -1 adds nothing
        wide = self.accumulator.startswith("f64")
        if self.accumulator == "f64 exact":
            a = a.astype(np.float64)  # a product of two f32 is exact there
        if wide or (self.accumulator == "f32" and self.flush != "results" and not self.fused):
            return made.sum_at_once(lambda i: a[i] * b[i], np.float64 if wide else np.float32)
        store = STORED[self.accumulator]

        def add(x: Any, y: Any) -> Any:
            return store(self.made(x + y))

        def step(acc: Any, i: Any) -> Any:
            return store(self.mul_add(a[i], b[i], acc))

        shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
        return made.run(np.zeros((made.steps.shape[1], *shape), np.float32), step, add)

    def total(self, t: F32) -> F32:
        """The sum over the first axis, as f32."""
        return self.f32(self.dot(t, np.ones((len(t),) + (1,) * (t.ndim - 1), np.float32)))

    def mean_of(self, a: F32, b: F32, n: int) -> F32:
        """dot(a, b) / n"""
        total = self.dot(a, b)
        if total.dtype == np.float64 and self.mean == "f64":
            return self.f32(total / n)
        return self.over(self.f32(total), np.float32(n))

    def over(self, x: F32, n: Any) -> F32:
        """x / n"""
        return self.made(x * (ONE / n) if self.reciprocal else x / n)

    @staticmethod
    def f32(x: Any) -> F32:
        return np.asarray(x, np.float32)

    # --- functions ----------------------------------------------------------------------------------------------
    def over_root(self, x: F32, m: F32, eps: float) -> F32:
        """x / sqrt(m + eps): x [..., n], m [...]"""
        e = np.float32(eps if self.eps is None else self.eps)
        if self.eps_at == "outside":
            root = np.sqrt(m) + e
            return x * (ONE / root)[..., None]
        inside = (np.maximum(m, e) if self.eps_at == "at least" else m + e)[..., None]
        if self.root == "x/sqrt":
            return self.f32(x / np.sqrt(inside))
        return x * (rsqrt(inside) if self.root == "rsqrt" else ONE / np.sqrt(inside))

    def exp_neg(self, x: F32) -> F32:
        if self.exp != "contract":
            e = exp_f64(x)
            return np.where(x < LOWEST, np.float32(0.0), e) if self.exp == "f64" else e
        if not self.fused:
            return exp_neg(x)
        below = x < LOWEST
        x = np.where(below, LOWEST, x)
        n = np.rint(x * LOG2E)
        r = fma(-n, np.full_like(x, C2), fma(-n, np.full_like(x, C1), x))
        p = np.full_like(x, P5)
        for coefficient in (P4, P3, P2, P1, P0):
            p = fma(p, r, np.full_like(x, coefficient))
        y = fma(p, r * r, r) + ONE
        return np.where(below, np.float32(0.0), np.ldexp(y, n.astype(np.int32)))

    def sigmoid(self, x: F32) -> F32:
        e = self.exp_neg(-np.abs(x))
        return self.settle(np.where(x >= 0, ONE, e) / (ONE + e))

    def silu(self, x: F32) -> F32:
        return self.settle(x * self.sigmoid(x))
