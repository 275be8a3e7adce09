"""The menu: every departure from the contract that is tried, in groups; one of a group at a time.

A variant changes how the op computes (`fields` of the recipe) or what it reads (`rewire`, data movement only).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain.ops import OPS, Arrays, Numbers
from gnomon.compare.explain.orders import orders

Rewire = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Variant:
    """name: as the explanation says it; group: at most one variant of a group is used at a time"""

    name: str
    group: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    rewire: Rewire | None = None


def menu(op: str, arrays: Arrays, numbers: Numbers) -> list[Variant]:
    """The variants that can touch this op on inputs of these shapes."""
    spec = OPS[op]
    out = [v for v in (*FIELDS, *_orders(op, arrays, numbers)) if v.group in spec.groups]
    if op == "rope":
        out += ROTATION
    if op in ("rms_norm", "layer_norm", "l2_norm"):
        out += [v for v in EPS if v.fields.get("eps") != numbers.get("eps", 1e-6)]
    return out + [v for v in _rewirings(op, arrays) if v.group in spec.groups]


def pairs(variants: list[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Two at a time, of different groups."""
    return ((a, b) for a, b in combinations(variants, 2) if a.group != b.group)


FIELDS = (
    Variant("fused multiply-add", "fused", {"fused": "first"}),
    Variant("accumulator f64", "accumulator", {"accumulator": "f64"}),
    Variant("accumulator f64, products not rounded", "accumulator", {"accumulator": "f64 exact"}),
    Variant("accumulator bf16", "accumulator", {"accumulator": "bf16"}),
    Variant("accumulator f16", "accumulator", {"accumulator": "f16"}),
    Variant("sum rounded to f32 before the mean", "mean", {"mean": "f32"}),
    Variant("operands bf16", "operands", {"operands": "bf16"}),
    Variant("operands f16", "operands", {"operands": "f16"}),
    Variant("operands tf32, ties away from zero", "operands", {"operands": "tf32"}),
    Variant("operands tf32, ties to even", "operands", {"operands": "tf32 even"}),
    Variant("operands tf32, cut off", "operands", {"operands": "tf32 cut"}),
    Variant("results bf16", "results", {"results": "bf16"}),
    Variant("results f16", "results", {"results": "f16"}),
    Variant("unsettled", "settling", {"settled": False}),
    Variant("subnormal inputs flushed", "flush", {"flush": "inputs"}),
    Variant("subnormal results flushed", "flush", {"flush": "results"}),
    Variant("rsqrt for 1/sqrt", "root", {"root": "rsqrt"}),
    Variant("divided by the root", "root", {"root": "x/sqrt"}),
    Variant("float64 exp", "exp", {"exp": "f64"}),
    Variant("float64 exp, also below -34.5", "exp", {"exp": "f64 below"}),
    Variant("product with the reciprocal for a division", "reciprocal", {"reciprocal": True}),
    Variant("scale before the sum", "scale", {"early": "scale"}),
    Variant("division before the sum", "denominator", {"early": "denominator"}),
)

EPS = (
    *(Variant(f"eps {eps:g}", "eps", {"eps": eps}) for eps in (1e-5, 1e-6, 1e-8, 1e-12, 0.0)),
    Variant("eps outside the root", "eps placement", {"eps_at": "outside"}),
    Variant("eps as a lower bound", "eps placement", {"eps_at": "at least"}),
)

ROTATION = (
    Variant("fused multiply-add of the first products", "fused", {"fused": "first"}),
    Variant("fused multiply-add of the second products", "fused", {"fused": "second"}),
    Variant("fused multiply-add of the first, then the second product", "fused", {"fused": "first second"}),
    Variant("fused multiply-add of the second, then the first product", "fused", {"fused": "second first"}),
    Variant("interleaved pairs", "layout", {"layout": "interleaved"}),
    Variant("opposite angle", "layout", {"layout": "backwards"}),
)


def _orders(op: str, arrays: Arrays, numbers: Numbers) -> list[Variant]:
    """Sums in another order, for every length of sum in the op."""
    lengths = {arrays[name].shape[-1] // numbers.get("groups", 1) for name in OPS[op].sums}
    if op == "attention":
        lengths |= {len(arrays["k"])}
    names = dict.fromkeys(order for K in sorted(lengths) for order in orders(K))
    return [Variant(f"order {name}", "order", {"order": name}) for name in names]


def _rewirings(op: str, arrays: Arrays) -> Iterator[Variant]:
    for name in dict.fromkeys((*OPS[op].rows, *(n for n in ("w", "k", "v") if n in arrays))):
        rows = arrays[name]
        group = "position" if name == "pos" else "cache" if name in "kv" else "matrix" if name == "w" else "rows"
        if name == "pos":
            yield Variant("positions + 1", group, rewire=_with(pos=lambda a: a["pos"] + 1))
            if rows.min() > 0:
                yield Variant("positions - 1", group, rewire=_with(pos=lambda a: a["pos"] - 1))
        elif len(rows) > 1 and rows.ndim > 1:
            yield from _shifts(name, group)
    shapes = {name: array.shape for name, array in arrays.items()}
    if "w" in shapes and len(shapes["w"]) == 2 and shapes["w"][0] == shapes["w"][1]:
        yield Variant("transposed matrix", "matrix", rewire=_with(w=lambda a: np.ascontiguousarray(a["w"].T)))
    if "k" in shapes and shapes.get("k") == shapes.get("v"):
        yield Variant("swapped K and V", "cache", rewire=_with(k=lambda a: a["v"], v=lambda a: a["k"]))
    if shapes.get("gate") and shapes["gate"] == shapes["up"]:
        yield Variant("swapped gate and up", "gate", rewire=_with(gate=lambda a: a["up"], up=lambda a: a["gate"]))
    heads = next((shapes[name][1] for name in ("q", "e") if name in shapes and len(shapes[name]) == 3), 0)
    kv_heads = next((shapes[name][1] for name in ("k", "v") if name in shapes), 0)
    if 1 < kv_heads < heads:
        for name, which in (
            ("head h reads kv head h mod kv_heads", np.arange(heads) % kv_heads),
            ("head h reads kv head kv_heads - 1 - h // group", kv_heads - 1 - np.arange(heads) // (heads // kv_heads)),
        ):
            yield Variant(name, "heads", rewire=_picked(which))


def _shifts(name: str, group: str) -> Iterator[Variant]:
    for step, side in ((1, "before"), (-1, "after")):
        for edge in ("wrapped", "edge kept"):
            yield Variant(f"{name} from the row {side} ({edge})", group, rewire=_moved(name, step, edge))


def _moved(name: str, step: int, edge: str) -> Rewire:
    return lambda a: {**a, name: shifted(a[name], step, edge)}


def shifted(x: NDArray[Any], step: int, edge: str) -> NDArray[Any]:
    """Row r becomes row r - step."""
    at = np.arange(len(x)) - step
    return x[at % len(x) if edge == "wrapped" else np.clip(at, 0, len(x) - 1)]


def _with(**made: Callable[[Arrays], NDArray[Any]]) -> Rewire:
    return lambda a: {**a, **{name: make(a) for name, make in made.items() if name in a}}


def _picked(which: NDArray[np.intp]) -> Rewire:
    """k and v with one kv head for each head."""
    return lambda a: {**a, **{name: a[name][:, which] for name in ("k", "v") if name in a}}
