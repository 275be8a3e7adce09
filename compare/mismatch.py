"""What a mismatch is made of: where, which two numbers, how far apart, how many, and how to see it again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gnomon.compare import bits
from gnomon.compare.bits import Format, Patterns

LISTED = 5  # positions a record spells out


@dataclass(frozen=True)
class Number:
    """One number in the four forms a reader may want; none loses a bit, or the others stand beside it."""

    decimal: str
    hex: str
    bits: str
    strip: str

    @staticmethod
    def of(pattern: int, form: Format) -> "Number":
        return Number(
            bits.decimal(pattern, form),
            bits.hex_float(pattern, form),
            bits.bit_text(pattern, form),
            bits.bit_strip(pattern, form),
        )


@dataclass(frozen=True)
class Place:
    """One position. ulp: observed - expected in ulp of the stored type; None where either is not finite"""

    index: tuple[int, ...]
    observed: Number
    expected: Number
    ulp: int | None

    @property
    def distance(self) -> str:
        return "not finite" if self.ulp is None else f"{self.ulp:+d} ulp" if self.ulp else "sign of zero"


@dataclass(frozen=True)
class Mismatch:
    """Two tensors of one type and shape that are not equal.

    name:    the case or tap
    op, inputs: what made the tensor, where that is known
    count:   how many of `values` positions differ or are not finite; `first` holds the first five, in C order
    max_ulp: the largest distance; None where some position is not finite
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: int
    count: int
    max_ulp: int | None
    first: tuple[Place, ...]
    op: str = ""
    inputs: tuple[str, ...] = field(default=())
    command: str = ""

    def text(self) -> str:
        """case, op, index, inputs, observed bits => expected bits, distance; positions; count; command"""
        lines = [*self.places(), self.total()]
        if self.command:
            lines.append(f"to see it again: {self.command}")
        return "\n  ".join([self.headline(), *lines])

    def headline(self) -> str:
        """The first position in one line, as bits."""
        place = self.first[0]
        what = " ".join(part for part in (self.name or "tensor", self.op, self.dtype, listed(self.shape)) if part)
        read = f" of ({', '.join(self.inputs)})" if self.inputs else ""
        return (
            f"{what} at {listed(place.index)}{read}: "
            f"{place.observed.bits} => expected {place.expected.bits} ({place.distance})"
        )

    def places(self) -> list[str]:
        """The first five positions: decimal, hexadecimal float, bits, distance."""
        return [
            f"{listed(p.index)}: {p.observed.decimal} => expected {p.expected.decimal}   "
            f"{p.observed.hex} => {p.expected.hex}   {p.observed.bits} => {p.expected.bits} ({p.distance})"
            for p in self.first
        ]

    def total(self) -> str:
        most = "not all finite" if self.max_ulp is None else f"at most {self.max_ulp} ulp apart"
        return f"{self.count} of {self.values} values, {most}"


def mismatch(
    observed: Patterns,
    expected: Patterns,
    form: Format,
    name: str,
    op: str = "",
    inputs: tuple[str, ...] = (),
    command: str = "",
) -> Mismatch | None:
    """The record of all positions whose patterns differ or are not finite; None where there are none.

    observed, expected: patterns of one type and one shape, which the caller has made sure of
    """
    finite = bits.is_finite(observed, form) & bits.is_finite(expected, form)
    wrong = np.flatnonzero((observed != expected) | ~finite)
    if len(wrong) == 0:
        return None
    o, e, ok = observed.reshape(-1)[wrong], expected.reshape(-1)[wrong], finite.reshape(-1)[wrong]
    distance = bits.ulp_distance(o, e, form)
    first = []
    for i in range(min(LISTED, len(wrong))):
        index = tuple(int(n) for n in np.unravel_index(wrong[i], observed.shape))
        above = bits.ordinal(o[i : i + 1], form) >= bits.ordinal(e[i : i + 1], form)
        ulp = (int(distance[i]) if above[0] else -int(distance[i])) if ok[i] else None
        first.append(Place(index, Number.of(int(o[i]), form), Number.of(int(e[i]), form), ulp))
    return Mismatch(
        name,
        form.name,
        tuple(observed.shape),
        observed.size,
        len(wrong),
        int(distance.max()) if ok.all() else None,
        tuple(first),
        op,
        inputs,
        command,
    )


def listed(numbers: Sequence[int]) -> str:
    """[3, 17]"""
    return f"[{', '.join(str(n) for n in numbers)}]"
