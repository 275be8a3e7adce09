"""Every number of rows at which an engine of this package takes another path: of the kernels and of what is loaded."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import isqrt
from typing import cast, get_args

from gnomon.gpu import host_library, host_step, kernel_table, launch_pointers  # noqa: F401 - they register
from gnomon.gpu.host_build import kernel_sources
from gnomon.reference.model import Model
from gnomon.reference.row_counts import Choice, Unit, choices

DEFINED = re.compile(rf"^#define (\w+) (\d+) *// by ({'|'.join(get_args(Unit))}): ", re.MULTILINE)
HEAD = "head.weight"  # of selected rows only, so no part of the work that a step is weighed by


def defined(sources: Mapping[str, str]) -> list[Choice]:
    """What kernels register, by file and name."""
    return [
        Choice(f"{file}: {name}", int(count), cast(Unit, unit))
        for file, text in sources.items()
        for name, count, unit in DEFINED.findall(text)
    ]


@cache
def _kernels() -> tuple[Choice, ...]:
    return tuple(defined(kernel_sources()))


def row_choices() -> list[Choice]:
    """Those of modules that are not loaded, because their device or package is absent, are not among them."""
    return [*_kernels(), *choices()]


def sides(choice: Choice, model: Model) -> set[int]:
    """Numbers of rows, on this model, about which the path may change: before, at and after what is registered"""
    config, count = model.config, choice.count
    matrices = {w.shape for w in model.weights.values() if w.role == "linear"}
    if choice.unit == "rows":
        return {count - 1, count, count + 1}
    if choice.unit == "queries":  # a full tile, and a half full one
        group = config.heads // config.kv_heads
        return {count // size + step for size in (group, 2 * group) for step in (-1, 0, 1)}
    if choice.unit == "floats":  # [rows, width], and [rows, heads, positions] where there are as many positions as rows
        sizes, square = {width for shape in matrices for width in shape}, config.heads
    else:
        layers = sum(w.shape[0] * w.shape[1] for n, w in model.weights.items() if w.role == "linear" and n != HEAD)
        sizes, square = {n * k for n, k in matrices} | {layers}, config.heads * config.head_dim
    last = {(count - 1) // size for size in sizes} | {count // size for size in sizes} | {isqrt(count // square)}
    return {n + step for n in last for step in (0, 1)}


def both_sides(chosen: Iterable[Choice], model: Model, most: int) -> list[int]:
    """The numbers of rows from 1 to `most` on both sides of everything that something chooses by; ascending"""
    return sorted({n for choice in chosen for n in sides(choice, model) if 1 <= n <= most})
