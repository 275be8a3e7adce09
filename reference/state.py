"""What a sequence leaves behind for its next token: one cache per layer, changed only when a step has succeeded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference import shown
from gnomon.reference.config import Config
from gnomon.reference.errors import UsageError

Cache = Any  # of one layer, in the engine's own form


class State:
    """One sequence on one engine.

    length:  number of positions it holds
    ids:     the token ids at those positions
    caches:  what the layers hold; a cache may keep rows at positions >= length, and nothing ever reads them
    forks:   the lengths at which copies were taken
    pending: what the step in flight appended, by layer; `commit` makes it part of the state, `discard` forgets it
    memo:    what the engine made for the last step and may find again; no part of the state
    """

    def __init__(self, owner: object, caches: list[Cache]) -> None:
        self.owner = owner
        self.length = 0
        self.ids: list[int] = []
        self.caches = caches
        self.pending: dict[int, Cache] = {}
        self.forks: list[int] = []
        self.memo: Any = None

    def cache(self, layer: int) -> Cache:
        """The cache as the step in flight sees it."""
        return self.pending.get(layer, self.caches[layer])

    def commit(self, ids: list[int]) -> None:
        for layer, cache in self.pending.items():
            self.caches[layer] = cache
        self.pending = {}
        self.ids.extend(ids)
        self.length += len(ids)

    def discard(self) -> None:
        self.pending = {}

    def _shown(self) -> tuple[str, dict[str, str]]:
        owner = getattr(self.owner, "name", "")
        model = getattr(getattr(self.owner, "model", None), "name", "")
        return f"State of {self.length:,} positions", {
            "engine": f"{owner} on {model}",
            "ids": shown.listed(self.ids),
            "forked": f"at {shown.listed(self.forks)}" if self.forks else "",
        }

    def __repr__(self) -> str:
        return shown.lines(*self._shown())

    def _repr_html_(self) -> str:
        return shown.table(*self._shown())


STORED: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "bf16": np.dtype(np.uint16), "int8": np.dtype(np.int8)}


def state_specs(config: Config, kv: str, length: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Name -> (shape, type) of every array of an exported state of `length` positions."""
    f32 = STORED["f32"]
    out: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    for i, kind in enumerate(config.kinds if length else ()):
        if kind == "delta" and config.delta is not None:
            d = config.delta
            out[f"blocks.{i}.rec.conv"] = ((d.conv - 1, d.channels), f32)
            out[f"blocks.{i}.rec.delta"] = ((d.value_heads, d.dk, d.dv), f32)
            continue
        for name in ("k", "v"):
            out[f"blocks.{i}.kv.{name}"] = ((length, config.kv_heads, config.head_dim), STORED[kv])
            if kv == "int8":
                out[f"blocks.{i}.kv.{name}_scale"] = ((length, config.kv_heads), f32)
    return out


def check_arrays(
    arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
) -> None:
    """Raises UsageError unless the arrays have exactly these names, shapes and types."""
    for name in sorted(expected.keys() | arrays.keys()):
        if name not in arrays:
            raise UsageError(f"Expected an array {name} in the state but it is missing")
        if name not in expected:
            raise UsageError(f"Expected no array {name} in the state but there is one")
        shape, dtype = expected[name]
        if tuple(arrays[name].shape) != shape or arrays[name].dtype != dtype:
            raise UsageError(
                f"Expected {name} to be {dtype.name} {list(shape)} but got "
                f"{arrays[name].dtype.name} {list(arrays[name].shape)}"
            )
