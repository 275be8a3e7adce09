"""Inputs for one's own kernel: every op of the contract on awkward shapes and adversarial values.

A case is a few named sizes, a kind of values and a draw; with the seed it fixes every bit of the inputs, so a line of
text is enough to see it again. Sizes are listed from simple to awkward, which is also the order of shrinking.
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import UsageError
from gnomon.reference.ops.settle import settle

Array = NDArray[Any]
Draw = Callable[..., Array]  # draw(*shape): settled f32 values of the kind

LONGEST = 1000  # characters of a case as text
KINDS = ("normal", "ties", "cancel", "tiny", "hard", "huge", "zeros", "nan")
FAR_APART = (1.0, 0.5, 1 + 2.0**-12, 1 + 2.0**-23, 2.0**-24, 3 * 2.0**-24)  # sums and products of these fall on ties
# Halves, sums and products of these are 2^-50, the floor of settling, or the place below it.
AT_THE_FLOOR = (2.0**-25, 2.0**-25 * (1 - 2.0**-24), 2.0**-49, 2.0**-49 * (1 - 2.0**-24), 2.0**-50, 1.0, 0.5, 0.0)
BY_ALL_ONES = (1.5 * 2.0**-24, 2.5 * 2.0**-24)  # between these 1 + exp_neg(-x) is 2 - 2^-23


@dataclass(frozen=True)
class Case:
    """sizes: by name; kind: of KINDS; draw: which of the inputs of these sizes and this kind"""

    sizes: tuple[tuple[str, int | str], ...]
    kind: str
    draw: int

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in (*self.sizes, ("kind", self.kind), ("draw", self.draw)))

    def __getitem__(self, name: str) -> Any:
        return dict(self.sizes)[name]


def values(case: Case, seed: int) -> Draw:
    """Settled f32 values of the case's kind. The "nan" kind gets its NaN from `plant_nan`."""
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(str(case).encode())]))

    def draw(*shape: int) -> Array:
        x = rng.standard_normal(shape)
        if case.kind == "ties":
            x = rng.choice((1.0, -1.0), shape) * rng.choice(FAR_APART, shape)
        elif case.kind == "cancel":  # neighbours are nearly opposite
            flat = x.reshape(-1)
            flat[1::2] = -flat[: len(flat) // 2 * 2 : 2] * (1 + rng.integers(-2, 3, len(flat) // 2) * 2.0**-22)
        elif case.kind == "tiny":  # about the threshold of settling
            x = x * 2.0 ** rng.integers(-52, -46, shape)
        elif case.kind == "hard":  # see probe_hard
            pick = np.where(rng.random(shape) < 0.5, rng.choice(AT_THE_FLOOR, shape), rng.uniform(*BY_ALL_ONES, shape))
            x = rng.choice((1.0, -1.0), shape) * pick
        elif case.kind == "huge":
            x = np.sign(x) * 2.0 ** rng.uniform(50, 57, shape)
        elif case.kind == "zeros":
            x = x * (rng.random(shape) < 0.3)
        return settle(x.astype(np.float32))

    return draw


def plant_nan(arguments: list[Any], case: Case, seed: int) -> None:
    """One NaN in one of the f32 arrays, which are changed in place; only the "nan" kind has one.

    It goes into the last row of its array: every position of a cache is seen by some row only there.
    """
    arrays = [x for x in arguments if isinstance(x, np.ndarray) and x.dtype == np.float32 and x.size]
    if case.kind != "nan" or not arrays:
        return
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(f"{case} nan".encode())]))
    chosen = arrays[int(rng.integers(len(arrays)))]
    row = chosen if chosen.ndim == 1 else chosen[-1]
    row.reshape(-1)[int(rng.integers(row.size))] = np.nan


def sequence(sizes: Mapping[str, Sequence[int | str]], seed: int, runs: int) -> list[Case]:
    """The first cases meet every size of every axis with every kind in turn; after that all is drawn at random."""
    rng = np.random.Generator(np.random.PCG64([seed, 0]))
    longest = max((len(options) for options in sizes.values()), default=1)
    cases = []
    for at in range(runs):
        covering = at < longest * len(KINDS)
        picked = []
        for name, options in sizes.items():
            turn = at // len(KINDS) if covering and len(options) == longest else int(rng.integers(len(options)))
            picked.append((name, options[turn]))
        kind = KINDS[at % len(KINDS)] if covering else KINDS[int(rng.integers(len(KINDS)))]
        cases.append(Case(tuple(picked), kind, at))
    return cases


def read_case(text: str, sizes: Mapping[str, Sequence[int | str]]) -> Case:
    """A case from the text it prints as. Raises UsageError where it does not name each size, a kind and a draw."""
    if len(text) > LONGEST:  # no case is, and the pattern takes the square of what it cannot match
        raise UsageError(f"Expected a case of at most {LONGEST} characters but got {len(text):,}")
    fields = dict(re.findall(r"([^,=]+)=([^,=]+)", text))
    wanted = (*sizes, "kind", "draw")
    numbers = [fields.get(n, "") for n in (*(n for n, options in sizes.items() if isinstance(options[0], int)), "draw")]
    if tuple(fields) != wanted or fields["kind"] not in KINDS or not all(n.isascii() and n.isdigit() for n in numbers):
        example = str(Case(tuple((n, options[0]) for n, options in sizes.items()), KINDS[0], 0))
        raise UsageError(f"Expected a case such as {example} but got {text!r}")
    if any(int(n) > 1 << 16 for n in numbers):
        raise UsageError(f"Expected sizes and a draw of at most 65536 but got {text!r}")
    picked = tuple((n, int(fields[n]) if isinstance(options[0], int) else fields[n]) for n, options in sizes.items())
    return Case(picked, fields["kind"], int(fields["draw"]))
