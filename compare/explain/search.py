"""The search: compute the op under every variant of the menu, alone and then in pairs, and compare bytes.

Most variants fail on the first few values, so each is tried on a sample first; only what survives is computed in
full. Nothing is named that does not give every byte of the whole tensor.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.explain.menu import Variant, menu, pairs
from gnomon.compare.explain.ops import OPS, Arrays, Numbers, Op
from gnomon.compare.explain.recipe import Recipe
from gnomon.compare.explain.result import Candidate, Explanation, Verdict
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.tiling import pack_matrix

F32 = NDArray[np.float32]

BLOCK = 1 << 21  # products formed at a time
SMALL = 1 << 17  # products up to which single variants are counted on the whole tensor
SAMPLE_ROWS, SAMPLE_COLUMNS = 4, 48
MARGIN = 10.0  # bits beyond log2(variants tried): a chance below one in a thousand that any of them fits by luck


@dataclass(frozen=True)
class Part:
    """Some rows of the result, and for `linear` some of its columns. None: all of them."""

    rows: NDArray[np.intp] | None = None
    columns: NDArray[np.intp] | None = None

    def of_result(self, y: NDArray[Any]) -> NDArray[Any]:
        y = y if self.rows is None else y[self.rows]
        return y if self.columns is None else y[:, self.columns]

    def of_inputs(self, spec: Op, arrays: Arrays) -> Arrays:
        out = dict(arrays)
        for name in spec.rows if self.rows is not None else ():
            out[name] = out[name][self.rows]
        for name in ("w", "b") if self.columns is not None else ():
            if name in out:
                out[name] = out[name][self.columns]
        return out


def explain(op: str, inputs: Arrays, observed: F32, params: Numbers | None = None, name: str = "") -> Explanation:
    """Name the departures from the contract that give the bytes of `observed`, or say that none does.

    op:       a key of OPS; inputs: its arrays by name, as the observed op read them; params: its numbers by name
    observed: what the op made, f32; name: of the tensor, for the text
    Raises UsageError for an unknown op, missing inputs, or shapes that do not fit.
    """
    numbers = dict(params or {})
    arrays = _checked(op, inputs, numbers)
    with np.errstate(all="ignore"):
        expected = _contract(op, arrays, numbers)
        if observed.dtype != np.float32 or observed.shape != expected.shape:
            raise UsageError(
                f"Expected observed f32 {list(expected.shape)} of {op} but got {observed.dtype} {list(observed.shape)}"
            )
        return _search(op, arrays, observed, expected, numbers, name)


def _search(op: str, arrays: Arrays, observed: F32, expected: F32, numbers: Numbers, name: str) -> Explanation:
    different = ~same(observed, expected)
    count = int(np.count_nonzero(different))

    def found(verdict: Verdict, causes: Sequence[Candidate], seen: Sequence[Candidate], tried: int) -> Explanation:
        weight = evidence(OPS[op], observed, expected, int(numbers.get("groups", 1))) if count else 0.0
        needed = math.log2(tried) + MARGIN if tried else 0.0
        if verdict == "explained" and weight < needed:
            verdict = "undecided"
        ranked = sorted(seen, key=lambda c: (-c.differing, -c.reproduced))
        shape, names = tuple(observed.shape), tuple(c.names for c in causes)
        return Explanation(op, verdict, shape, observed.size, count, names, tuple(ranked), tried, weight, needed, name)

    if not count:
        return found("identical", (), (), 0)
    variants = menu(op, arrays, numbers)
    work = observed.size * _terms(op, arrays, numbers)
    part = Part() if work <= SMALL else _sample(op, different, SAMPLE_ROWS, SAMPLE_COLUMNS)
    singles = [_try(op, (v,), arrays, observed, different, numbers, part) for v in variants]
    fits = [c for v, c in zip(variants, singles, strict=True) if _fits(op, (v,), c, arrays, observed, numbers)]
    if fits:
        return found("explained", fits, singles, len(variants))
    small = _sample(op, different, 2, 24)
    both = list(pairs(variants))
    doubles = [_try(op, pair, arrays, observed, different, numbers, small) for pair in both]
    fits = [c for pair, c in zip(both, doubles, strict=True) if _fits(op, pair, c, arrays, observed, numbers)]
    tried = len(variants) + len(both)
    return found("explained" if fits else "not explained", fits, singles, tried)


def evidence(spec: Op, observed: F32, expected: F32, groups: int = 1) -> float:
    """How many bits it takes to say what was observed to someone who knows the contract's result: which of the parts
    that decide for themselves differ, and each by how much (a sign, and the logarithm of its least distance in ulp).

    A part is an element, or what shares a root or a denominator, as the row of a norm does. Repeated parts count once.
    """
    form = bits.format_of(observed)
    if spec.unit is None:
        o, e = bits.patterns(observed).reshape(-1, 1), bits.patterns(expected).reshape(-1, 1)
    else:
        parts = math.prod(observed.shape[: spec.unit]) * groups
        o, e = bits.patterns(observed).reshape(parts, -1), bits.patterns(expected).reshape(parts, -1)
    once = np.unique(np.concatenate([o, e], axis=1), axis=0)
    o, e = np.split(once, 2, axis=1)
    ulp = np.maximum(bits.ulp_distance(o, e, form), 1).astype(np.float64)
    least = np.where(o == e, np.inf, ulp).min(axis=1)
    distances = least[np.isfinite(least)]
    n, d = len(least), len(distances)
    which = (math.lgamma(n + 1) - math.lgamma(d + 1) - math.lgamma(n - d + 1)) / math.log(2.0)
    return which + float(np.sum(1.0 + np.log2(distances)))


def same(a: F32, b: F32) -> NDArray[np.bool_]:
    """The same bytes, and not NaN."""
    equal: NDArray[np.bool_] = (a.view(np.uint32) == b.view(np.uint32)) & ~np.isnan(a)
    return equal


def _try(
    op: str, chosen: Sequence[Variant], arrays: Arrays, observed: F32, different: Any, numbers: Numbers, part: Part
) -> Candidate:
    y = _compute(op, chosen, arrays, numbers, part)
    equal, differ = same(part.of_result(observed), y), part.of_result(different)
    return Candidate(
        tuple(v.name for v in chosen),
        int(np.count_nonzero(equal)),
        equal.size,
        int(np.count_nonzero(equal & differ)),
        int(np.count_nonzero(differ)),
    )


def _fits(
    op: str, chosen: Sequence[Variant], tried: Candidate, arrays: Arrays, observed: F32, numbers: Numbers
) -> bool:
    """Whether a variant that fits its sample fits everywhere."""
    if tried.reproduced < tried.of:
        return False
    return all(
        same(part.of_result(observed), _compute(op, chosen, arrays, numbers, part)).all()
        for part in _parts(op, arrays, numbers, observed.shape)
    )


def _compute(op: str, chosen: Sequence[Variant], arrays: Arrays, numbers: Numbers, part: Part) -> F32:
    """The op under some variants, on a part of its result. What it reads is rewired before it is narrowed."""
    changes: dict[str, Any] = {}
    for variant in chosen:
        arrays = variant.rewire(arrays) if variant.rewire else arrays
        changes |= variant.fields
    y = OPS[op].function(Recipe(**changes), part.of_inputs(OPS[op], arrays), numbers)
    return np.ascontiguousarray(y)


def _contract(op: str, arrays: Arrays, numbers: Numbers) -> F32:
    """The whole result as the contract gives it."""
    if op == "linear":  # the reference packs and uses threads, which the recipes do not
        return linear(arrays["x"], pack_matrix(arrays["w"]), arrays.get("b"))
    shape = _compute(op, (), arrays, numbers, Part(np.arange(1))).shape
    out = np.empty((len(arrays[OPS[op].rows[0]]), *shape[1:]), np.float32)
    for part in _parts(op, arrays, numbers, out.shape):
        out[part.rows] = _compute(op, (), arrays, numbers, part)
    return out


def _parts(op: str, arrays: Arrays, numbers: Numbers, shape: tuple[int, ...]) -> Iterator[Part]:
    """Blocks of rows (and, for `linear`, columns) of at most BLOCK products each."""
    row = math.prod(shape[1:]) * _terms(op, arrays, numbers)
    step = max(1, BLOCK // max(row, 1))
    width = max(1, BLOCK // _terms(op, arrays, numbers)) if op == "linear" and row > BLOCK else 0
    for start in range(0, shape[0], step):
        rows = np.arange(start, min(start + step, shape[0]))
        if not width:
            yield Part(rows)
            continue
        for first in range(0, shape[1], width):
            yield Part(rows, np.arange(first, min(first + width, shape[1])))


def _sample(op: str, different: NDArray[np.bool_], rows: int, columns: int) -> Part:
    """Rows that differ and one that does not; for `linear`, columns that differ there and some that do not."""
    flat = different.reshape(len(different), -1)
    picked = _spread(np.flatnonzero(flat.any(axis=1)), rows - 1)
    picked = np.union1d(picked, np.flatnonzero(~flat.any(axis=1))[:1])
    if op != "linear":
        return Part(picked)
    here = flat[picked].any(axis=0)
    return Part(
        picked,
        np.union1d(_spread(np.flatnonzero(here), 2 * columns // 3), _spread(np.flatnonzero(~here), columns // 3)),
    )


def _spread(found: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of them, evenly."""
    return found if len(found) <= most else found[np.linspace(0, len(found) - 1, most).astype(np.intp)]


def _terms(op: str, arrays: Arrays, numbers: Numbers) -> int:
    """The length of the longest sum."""
    lengths: list[int] = [arrays[name].shape[-1] // numbers.get("groups", 1) for name in OPS[op].sums]
    if op == "attention":
        lengths.append(len(arrays["k"]))
    return max(lengths, default=1)


def _checked(op: str, inputs: Arrays, numbers: Numbers) -> dict[str, NDArray[Any]]:
    spec = OPS.get(op)
    if spec is None:
        raise UsageError(f"Expected an op among {', '.join(OPS)} but got {op!r}")
    missing = [n for n in spec.arrays if n not in inputs] + [n for n in spec.numbers if n not in numbers]
    if missing:
        raise UsageError(f"Expected {', '.join(missing)} for {op} but got {', '.join([*inputs, *numbers])}")
    return {n: np.ascontiguousarray(inputs[n]) for n in (*spec.arrays, *spec.optional) if n in inputs}
