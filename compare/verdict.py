"""The verdict words, and the one function that gives them.

Judging asks, in this order: is it there, is it of the same type and shape, is anything in it, is it finite,
is it alive, are the bytes equal. So NaN beside NaN is `nonfinite`, zeros beside zeros are `dead`, and
nothing empty passes.

| word | meaning | exit code |
|---|---|---|
| `identical` | the same bytes | 0 |
| `zero-sign` | only +0.0 against -0.0 | 1 |
| `ulp<=k` | no value further than k ulp of the stored type, k at most NEAR_ULP | 1 |
| `differs` | other bytes; further apart, on two sides of zero, or known by digest only | 1 |
| `dead` | one side has too few values that are finite and not zero (see `rule_of`) | 1 |
| `nonfinite` | NaN or infinity on either side | 1 |
| `extra`, `missing` | only on the observed, only on the expected side | 3 |
| `dtype`, `shape` | not comparable | 3 |
| `not-run` | nothing was compared | 3 |

A distance is a grade of a difference: no word but `identical` passes.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Uint16
from gnomon.compare.histogram import Histogram, histogram
from gnomon.compare.mismatch import Mismatch, mismatch

NEAR_ULP: Final = 16  # the largest k that `ulp<=k` names; it says how far, not why: cancellation goes further
LIVE_SHARE: Final = 8  # a dense tensor is dead when fewer than one value in this many is finite and not zero

WORDS: Final = (  # from harmless to worst
    "identical", "zero-sign", "ulp<=k", "differs", "dead", "nonfinite",
    "extra", "missing", "dtype", "shape", "not-run",
)  # fmt: skip
INCOMPARABLE: Final = ("extra", "missing", "dtype", "shape", "not-run")
COUNTED: Final = ("i16", "i32", "i64", "u16", "u32", "u64", "bool")  # types of ids, counts and flags

Rule = Literal["dense", "exp", "count"]


@dataclass(frozen=True)
class Measure:
    """What is kept of a tensor when its values are not.

    live: values that are finite and not zero; finite: values that are neither NaN nor infinity
    rows_without_one: under the "exp" rule, rows along the last axis that hold no 1.0; else 0
    """

    dtype: str
    shape: tuple[int, ...]
    values: int
    nbytes: int
    finite: int
    live: int
    rows_without_one: int
    sha256: str


@dataclass(frozen=True)
class Finding:
    """A verdict with its reason, the measures of both sides and, where bytes can be shown, what parts them."""

    name: str
    verdict: str
    detail: str
    observed: Measure | None
    expected: Measure | None
    mismatch: Mismatch | None = None
    histogram: Histogram | None = None

    def text(self) -> str:
        head = f"{self.name or 'tensor'}: {self.verdict}" + (f" ({self.detail})" if self.detail else "")
        return head if self.mismatch is None else f"{head}\n{self.mismatch.text()}"


def rank(verdict: str) -> tuple[int, int]:
    """Sort key: the worse the verdict, the larger."""
    if verdict.startswith("ulp<="):
        return WORDS.index("ulp<=k"), int(verdict[5:])
    return WORDS.index(verdict), 0


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts; of none, `not-run`."""
    return max(verdicts, key=rank, default="not-run")


def exit_code(verdict: str) -> int:
    """0 identical, 1 differs, 3 incomparable or not run"""
    rank(verdict)  # raises ValueError for a word that is not in the list
    return 0 if verdict == "identical" else 3 if verdict in INCOMPARABLE else 1


def rule_of(name: str, dtype: str) -> Rule:
    """When a tensor is dead, by the last part of its name and its stored type.

    "exp"    `...exp`: when a row (along the last axis) holds no 1.0, which is what its largest score becomes.
             Zeros say nothing there: unseen positions are zero, and under a window most are unseen.
    "count"  `...scores`, for the same reason, and flags and integers of more than 8 bits (ids, counts), where
             zero is as good as any: never; the number of live values is reported.
    "dense"  all others: when fewer than 1/8 of the values are finite and not zero. 8-bit integers are among
             them: they hold quantised values.
    """
    last = name.rpartition(".")[2]
    if last == "exp":
        return "exp"
    return "count" if last == "scores" or dtype in COUNTED else "dense"


def measure(array: NDArray[Any], name: str, uint16: Uint16 = "u16") -> Measure:
    """Count and hash a tensor. The hash is SHA-256 of its little-endian bytes in C order."""
    form = bits.format_of(array, uint16)
    pattern = bits.patterns(array)
    finite = bits.is_finite(pattern, form)
    live = int(np.count_nonzero(finite & ~bits.is_zero(pattern, form)))
    without_one = 0
    if rule_of(name, form.name) == "exp" and array.ndim:
        without_one = int(np.count_nonzero(~bits.is_one(pattern, form).any(axis=-1)))
    return Measure(
        form.name,
        tuple(array.shape),
        array.size,
        pattern.nbytes,
        int(np.count_nonzero(finite)),
        live,
        without_one,
        hashlib.sha256(pattern.data).hexdigest(),
    )


def judge_measures(observed: Measure | None, expected: Measure | None, name: str, rule: Rule | None = None) -> Finding:
    """The verdict that needs no values: all words but `zero-sign` and `ulp<=k`, which are `differs` here."""

    def found(verdict: str, detail: str = "") -> Finding:
        return Finding(name, verdict, detail, observed, expected)

    if observed is None and expected is None:
        return found("not-run", "neither side has it")
    if observed is None:
        return found("missing", "only the expected side has it")
    if expected is None:
        return found("extra", "only the observed side has it")
    if observed.dtype != expected.dtype:
        return found("dtype", f"observed {observed.dtype}, expected {expected.dtype}")
    if observed.shape != expected.shape:
        return found("shape", f"observed {list(observed.shape)}, expected {list(expected.shape)}")
    if expected.values == 0:
        return found("not-run", f"no value in shape {list(expected.shape)}")
    sides = (("observed", observed), ("expected", expected))
    bad = [f"{m.values - m.finite} of {m.values} {side}" for side, m in sides if m.finite < m.values]
    if bad:
        return found("nonfinite", f"NaN or infinity: {', '.join(bad)}")
    dead = [f"{side}: {why}" for side, m in sides if (why := _dead(m, rule or rule_of(name, m.dtype)))]
    if dead:
        return found("dead", "; ".join(dead))
    return found("identical" if observed.sha256 == expected.sha256 else "differs")


def judge(
    observed: NDArray[Any] | None,
    expected: NDArray[Any] | None,
    name: str,
    *,
    uint16: Uint16 = "u16",
    rule: Rule | None = None,
    op: str = "",
    inputs: tuple[str, ...] = (),
    command: str = "",
    heads: int = 0,
) -> Finding:
    """Compare two tensors, bit for bit.

    uint16: what uint16 arrays hold; rule: overrides `rule_of`; op, inputs, command, heads: for the mismatch text
    Raises UsageError for arrays that hold no numbers.
    """
    o = None if observed is None else measure(observed, name, uint16)
    e = None if expected is None else measure(expected, name, uint16)
    found = judge_measures(o, e, name, rule)
    if observed is None or expected is None or o is None or found.verdict in ("identical", *INCOMPARABLE):
        return found
    form = bits.format_of(observed, uint16)
    pair = bits.patterns(observed), bits.patterns(expected)
    differences = mismatch(*pair, form, name, op, inputs, command, heads)
    verdict = found.verdict
    if verdict == "differs" and differences is not None and differences.max_ulp is not None:
        k = differences.max_ulp
        verdict = "zero-sign" if k == 0 else f"ulp<={k}" if k <= NEAR_ULP else "differs"
    return Finding(name, verdict, found.detail, o, e, differences, histogram(*pair, form, name))


def _dead(m: Measure, rule: Rule) -> str:
    """Why a tensor is dead; empty where it is alive."""
    if rule == "exp" and m.rows_without_one:
        return f"{m.rows_without_one} rows without a 1.0"
    if rule == "dense" and m.live * LIVE_SHARE < m.values:
        return f"{m.live} of {m.values} values are finite and not zero"
    return ""
