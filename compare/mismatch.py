"""What a mismatch is made of: where, which two numbers, how far apart, how many, and how to see it again.

A distance in ulp is told between two numbers of one sign that lie on one side of the settle threshold. Across zero it
would count every number that is smaller still, hundreds of millions of them; there only the size of the error is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gnomon.compare import bits
from gnomon.compare.bits import Format, Patterns
from gnomon.compare.where import pattern
from gnomon.compare.words import counted, is_are

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
    """One position.

    ulp: observed - expected in ulp of the stored type, in ones for integers; None where `apart` says why
    apart: "not finite", "other sign", "across zero" or "across 2^-50" (the settle threshold); else ""
    absolute, relative: the size of the error, and its share of the expected value, in three digits; "" where either
    side is not finite, relative "" also where zero was expected
    """

    index: tuple[int, ...]
    observed: Number
    expected: Number
    ulp: int | None
    apart: str = ""
    absolute: str = ""
    relative: str = ""
    unit: str = "ulp"

    @property
    def distance(self) -> str:
        if self.ulp is None:
            return self.apart
        return f"{self.ulp:+,d} {self.unit}".rstrip() if self.ulp else "sign of zero"

    @property
    def size(self) -> str:
        """The error without ulp: its size, and its share of the expected value."""
        if not self.absolute:
            return ""
        return f"off by {self.absolute}" + (f", relative {self.relative}" if self.relative else "")

    @property
    def told(self) -> str:
        """distance and size"""
        return "; ".join(part for part in (self.distance, self.size if self.ulp != 0 else "") if part)


@dataclass(frozen=True)
class Mismatch:
    """Two tensors of one type and shape that are not equal.

    name:    the case or tap
    op, inputs: what made the tensor, where that is known
    count:   how many of `values` positions differ or are not finite
    first:   the first five of them, in C order; the anchor of a report is the first
    worst:   the five with the largest absolute error, the largest first; those that are not finite come before all
    where:   in which rows, heads or columns alone they lie; "" where there is no pattern
    max_ulp: the largest distance; None where some position has no distance in ulp
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: int
    count: int
    max_ulp: int | None
    first: tuple[Place, ...]
    worst: tuple[Place, ...] = ()
    where: str = ""
    op: str = ""
    inputs: tuple[str, ...] = field(default=())
    command: str = ""

    def text(self) -> str:
        """case, op, index, inputs, observed bits => expected bits, distance; positions; count; command"""
        lines = [*self.places(), self.total(), *([self.where] if self.where else [])]
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
        """The worst positions: decimal, hexadecimal float, bits, distance and size."""
        return [
            f"{listed(p.index)}: {p.observed.decimal} => expected {p.expected.decimal}   "
            f"{p.observed.hex} => {p.expected.hex}   {p.observed.bits} => {p.expected.bits} ({p.told})"
            for p in self.worst
        ]

    def total(self) -> str:
        """How many values, and how far apart they are."""
        verb = "differs" if self.count == 1 else "differ"
        if self.max_ulp is None and self.worst[0].apart == "not finite":
            return f"{self.count:,} of {counted(self.values, 'value')} {verb} or {is_are(self.count)} not finite"
        if self.max_ulp == 0:
            return f"{self.count:,} of {counted(self.values, 'value')} {verb}, by the sign of zero only"
        unit = f" {self.worst[0].unit}".rstrip()
        how = "" if self.max_ulp is None else f", at most {self.max_ulp:,}{unit} apart"
        size = f"; the largest error is {self.worst[0].absolute}" if unit or self.max_ulp is None else ""
        return f"{self.count:,} of {counted(self.values, 'value')} {verb}{how}{size}"

    def worst_title(self) -> str:
        """Above the list of the worst places: how they were chosen."""
        if len(self.worst) == 1:
            return "the place"
        many = f"the {len(self.worst)} worst places" if self.count > len(self.worst) else "all places"
        return f"{many}, by absolute error"


def mismatch(
    observed: Patterns,
    expected: Patterns,
    form: Format,
    name: str,
    op: str = "",
    inputs: tuple[str, ...] = (),
    command: str = "",
    heads: int = 0,
) -> Mismatch | None:
    """The record of all positions whose patterns differ or are not finite; None where there are none.

    observed, expected: patterns of one type and one shape, which the caller has made sure of
    heads: how many share the second of two axes; 0 where none do
    """
    finite = bits.is_finite(observed, form) & bits.is_finite(expected, form)
    wrong = np.flatnonzero((observed != expected) | ~finite)
    if len(wrong) == 0:
        return None
    o, e, ok = observed.reshape(-1)[wrong], expected.reshape(-1)[wrong], finite.reshape(-1)[wrong]
    distance, measurable = bits.ulp_distance(o, e, form), ok & bits.comparable(o, e, form)
    size = np.where(ok, bits.absolute_error(o, e, form), np.inf)

    def place(i: int) -> Place:
        return _place(tuple(int(n) for n in np.unravel_index(wrong[i], observed.shape)), int(o[i]), int(e[i]), form)

    chosen = np.argsort(-size, kind="stable")[:LISTED]
    return Mismatch(
        name,
        form.name,
        tuple(observed.shape),
        observed.size,
        len(wrong),
        int(distance.max()) if measurable.all() else None,
        tuple(place(i) for i in range(min(LISTED, len(wrong)))),
        tuple(place(int(i)) for i in chosen),
        pattern(observed.shape, wrong, name, heads),
        op,
        inputs,
        command,
    )


def _place(index: tuple[int, ...], observed: int, expected: int, form: Format) -> Place:
    """One position, from two patterns."""
    o, e = (np.array([p], f"<u{form.bits // 8}") for p in (observed, expected))
    numbers = Number.of(observed, form), Number.of(expected, form)
    unit = "ulp" if form.kind == "float" else ""
    if not (bits.is_finite(o, form) & bits.is_finite(e, form))[0]:
        return Place(index, *numbers, None, "not finite", unit=unit)
    error = float(bits.absolute_error(o, e, form)[0])
    value = abs(float(bits.number(expected, form)))
    sizes = f"{error:.3g}", f"{error / value:.3g}" if value else ""
    if not bits.comparable(o, e, form)[0]:
        return Place(index, *numbers, None, _apart(o, e, form), *sizes, unit)
    above = bits.ordinal(o, form)[0] >= bits.ordinal(e, form)[0]
    distance = int(bits.ulp_distance(o, e, form)[0])
    return Place(index, *numbers, distance if above else -distance, "", *sizes, unit)


def _apart(o: Patterns, e: Patterns, form: Format) -> str:
    """Why there is no figure in ulp."""
    if bits.is_zero(o, form)[0] or bits.is_zero(e, form)[0]:
        return "across zero"
    return "other sign" if bits.is_negative(o, form)[0] != bits.is_negative(e, form)[0] else "across 2^-50"


def listed(numbers: Sequence[int]) -> str:
    """[3, 17]"""
    return f"[{', '.join(str(n) for n in numbers)}]"
