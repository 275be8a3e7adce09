"""How far the values of two tensors lie apart: counts per signed distance in ulp of the stored type."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Format, Patterns


@dataclass(frozen=True)
class Histogram:
    """Every value of a tensor, counted once.

    equal:     the same finite pattern on both sides
    zero_sign: +0.0 against -0.0
    nonfinite: NaN or infinity on either side
    across:    on two sides of zero or of the settle threshold, where a distance in ulp means nothing
    below:     below[0] values lie 1 ulp below what was expected, below[k] more than 2^(k-1) and at most 2^k ulp;
               ends with the last count that is not zero
    above:     the same for values above what was expected
    """

    name: str
    dtype: str
    values: int
    equal: int
    zero_sign: int
    nonfinite: int
    below: tuple[int, ...]
    above: tuple[int, ...]
    across: int = 0
    type: str = field(default="histogram", init=False)

    def __post_init__(self) -> None:
        if (
            self.equal + self.zero_sign + self.nonfinite + self.across + sum(self.below) + sum(self.above)
            != self.values
        ):
            raise AssertionError("a histogram must count every value once")


def histogram(observed: Patterns, expected: Patterns, form: Format, name: str) -> Histogram:
    """Count distances. observed, expected: patterns of one type and one shape, which the caller has made sure of"""
    o, e = observed.reshape(-1), expected.reshape(-1)
    finite = bits.is_finite(o, form) & bits.is_finite(e, form)
    unequal = finite & (o != e)
    o, e = o[unequal], e[unequal]
    near = bits.comparable(o, e, form)
    across = len(o) - int(np.count_nonzero(near))
    o, e = o[near], e[near]
    distance = bits.ulp_distance(o, e, form)
    higher = bits.ordinal(o, form) > bits.ordinal(e, form)
    return Histogram(
        name,
        form.name,
        observed.size,
        equal=int(np.count_nonzero(finite)) - len(distance) - across,
        zero_sign=int(np.count_nonzero(distance == 0)),
        nonfinite=int(np.count_nonzero(~finite)),
        below=_per_power(distance[~higher]),
        above=_per_power(distance[higher]),
        across=across,
    )


def _per_power(distance: NDArray[np.uint64]) -> tuple[int, ...]:
    """Counts of 1, 2, 3 to 4, 5 to 8, ... ulp; zeros are not counted."""
    edges = np.uint64(1) << np.arange(64, dtype=np.uint64)
    power = np.searchsorted(edges, distance[distance > 0], side="left")  # the first edge that is not smaller
    return tuple(int(n) for n in np.bincount(power)) if len(power) else ()
