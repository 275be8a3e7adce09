"""Kernels of a GPU target on NumPy arrays, by way of the stand-in: arrays lie between margins of NaN that must stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_build import cache_folder
from gnomon.gpu.host_state import HostKV
from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_types import LEAST
from gnomon.gpu.kernel_units import Target
from gnomon.gpu.stand_in import StandIn
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]
Array = NDArray[Any]
TARGETS: tuple[Target, ...] = ("cuda", "hip", "metal")
MARGIN = 1024  # elements on either side
TYPES = {"float": np.float32, "i32": np.int32, "u32": np.uint32, "u16": np.uint16}


class Guarded:
    """A copy of an array, of at least 8 elements, or room for one, between margins of NaN, which differ between what is
    read and what is written, since a NaN may travel"""

    def __init__(self, shape: Sequence[int], dtype: Any, values: Array | None = None) -> None:
        size = int(np.prod(shape))
        dtype = np.dtype(dtype)
        self.fill = 0x7FC0DEAD if values is None else 0x7FC0CAFE
        words = np.full(MARGIN + max(size, LEAST) * dtype.itemsize // 4 + 1 + MARGIN, self.fill, np.uint32)
        self.words, self.last = words, len(words) - MARGIN
        self.flat = words[MARGIN:].view(dtype)[: max(size, LEAST)]
        self.array = self.flat[:size].reshape(shape)
        if values is not None:
            self.array[...] = values

    def check(self, name: str) -> None:
        outside = np.concatenate([self.words[:MARGIN], self.words[self.last :]])
        assert (outside == self.fill).all(), f"Expected {name} to stay within its array but it wrote outside"


@dataclass(frozen=True)
class Span:
    """Rows start .. stop of a step, whose sequence held `length` positions before"""

    start: int
    stop: int
    length: int

    @property
    def end(self) -> int:
        return self.length + self.stop - self.start


@dataclass
class On:
    """A target: what runs its kernels"""

    target: Target
    stand_in: StandIn

    def __call__(
        self,
        name: str,
        inputs: dict[str, Array],
        outputs: dict[str, Sequence[int]],
        tasks: int | None = None,
        **sizes: float,
    ) -> dict[str, Array]:
        """Launch a kernel without span arguments; outputs: shapes by name. tasks: where the table is not to say"""
        kernel = TABLE[name]
        held = {n: Guarded(a.shape, a.dtype, a) for n, a in inputs.items()}
        types = {a.name: TYPES[a.type] for a in kernel.named("out")}
        made = {n: Guarded(shape, types[n]) for n, shape in outputs.items()}
        groups = kernel.groups(sizes) if tasks is None else tasks  # type: ignore[arg-type]
        self.stand_in.run(name, {n: g.flat for n, g in (held | made).items()}, groups, **sizes)
        for n, g in (held | made).items():
            g.check(f"{name} ({n})")
        return {n: g.array for n, g in made.items()}

    def spans(
        self,
        name: str,
        inputs: dict[str, Array],
        per_span: dict[str, Sequence[Array | int]],
        outputs: dict[str, Sequence[int]],
        **sizes: int | float,
    ) -> dict[str, Array]:
        """One launch over several sequences; per_span: arrays or values of each. Metal: of exactly one"""
        kernel = TABLE[name]
        types = {a.name: TYPES[a.type] for a in kernel.named("out")}
        made = {n: Guarded(shape, types[n]) for n, shape in outputs.items()}
        arrays = {n: Guarded(a.shape, a.dtype, a).flat for n, a in inputs.items()} | {
            n: g.flat for n, g in made.items()
        }
        count = len(next(iter(per_span.values())))
        if "start" in per_span:
            sizes["rows"] = max(b - a for a, b in zip(per_span["start"], per_span["stop"], strict=True))  # type: ignore[operator]
        groups = kernel.groups(sizes)  # type: ignore[arg-type]
        held: dict[str, Guarded] = {}
        if self.target == "metal":
            for n, values in per_span.items():
                (value,) = values
                if isinstance(value, np.ndarray):
                    held[n] = Guarded(value.shape, value.dtype, value)
                    arrays[n] = held[n].flat
                else:
                    sizes[n] = value
        else:
            for n, values in per_span.items():
                pointers = isinstance(values[0], np.ndarray)
                arrays[n] = (
                    np.array([v.ctypes.data for v in values], np.uint64) if pointers else np.array(values, np.int32)
                )  # type: ignore[union-attr]
        self.stand_in.run(name, arrays, groups, count, **sizes)
        for n, g in held.items():
            np.copyto(per_span[n][0], g.array)
        for n, g in (made | held).items():
            g.check(f"{name} ({n})")
        return {n: g.array for n, g in made.items()}


@cache
def on(target: Target) -> On:
    """The whole table of a target, compiled once, whichever worker of the tests comes first"""
    with (cache_folder() / f"stand-in-{target}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        return On(target, StandIn(target))


def batches(target: Target, spans: Sequence[Span]) -> list[list[int]]:
    """Indices of spans that one launch takes: all, or one on Metal"""
    return [[i] for i in range(len(spans))] if target == "metal" else [list(range(len(spans)))]


def attention(
    run: On, storage: str, q: F32, caches: Sequence[HostKV], spans: Sequence[Span], scale: float, window: int
) -> F32:
    """The three launches of attention over keys and values that lie there: [rows, heads * d]"""
    kv_heads, d = caches[0].kv_heads, caches[0].d
    heads = q.shape[1] // d
    out = np.empty_like(q)
    for batch in batches(run.target, spans):
        some = [spans[i] for i in batch]
        per_span = cache_arguments([caches[i] for i in batch]) | row_arguments(some)
        longest, chunks = max(s.stop - s.start for s in some), -(-max(s.end for s in some) // 128)
        tiles = kv_heads * -(-longest * (heads // kv_heads) // 4)
        sizes: dict[str, int | float] = {
            "heads": heads, "kv_heads": kv_heads, "d": d, "window": window, "chunks": chunks, "scale": scale,
            "tiles": tiles,
        }  # fmt: skip
        parts = [len(batch), tiles, chunks]
        first = run.spans(
            f"attention_scores_{storage}",
            {"q": q},
            per_span,
            {"scores": [*parts, 4, 128], "most": [*parts, 4]},
            **sizes,
        )
        shapes = {"sums": [*parts, 4], "mixes": [*parts, -(-d // 64), 4, 64]}
        second = run.spans(f"attention_mix_{storage}", {"q": q, **first}, per_span, shapes, **sizes)
        third = run.spans("attention_merge", {"q": q, **second}, per_span, {"out": q.shape}, **sizes)
        for s in some:
            out[s.start : s.stop] = third["out"][s.start : s.stop]
    return out


def cache_arguments(caches: Sequence[HostKV]) -> dict[str, Sequence[Array | int]]:
    return {"k": [c.k for c in caches], "v": [c.v for c in caches], "capacity": [c.capacity for c in caches]}


def row_arguments(spans: Sequence[Span]) -> dict[str, Sequence[Array | int]]:
    return {name: [getattr(s, name) for s in spans] for name in ("start", "stop", "length")}


def append(run: On, storage: str, k: F32, v: F32, caches: Sequence[HostKV], spans: Sequence[Span]) -> None:
    """Keys and values [rows, kv_heads * d] join the caches, which have room: in place, or by the tail on Metal."""
    kv_heads, d = caches[0].kv_heads, caches[0].d
    if run.target != "metal":
        per_span = cache_arguments(caches) | row_arguments(spans)
        run.spans(f"kv_append_{storage}", {"x": k, "y": v}, per_span, {}, kv_heads=kv_heads, d=d)
        return
    for kept, s in zip(caches, spans, strict=True):
        first, last = s.length // 128, -(-s.end // 128)
        keys, values = kept.k[:, 2 * first : 2 * last], kept.v[:, :, 4 * first : 4 * last]
        made = run(
            f"kv_append_tail_{storage}",
            {"x": k[s.start : s.stop], "y": v[s.start : s.stop], "old_k": keys, "old_v": values},
            {"k": keys.shape, "v": values.shape},
            capacity=128 * (last - first), rows=s.stop - s.start, length=s.length, base=128 * first, kv_heads=kv_heads,
            d=d,
        )  # fmt: skip
        keys[...], values[...] = made["k"], made["v"]


# --- numbers --------------------------------------------------------------------------------------------------------
def numbers(*shape: int, seed: int = 0) -> F32:
    """Settled, of both signs, over many powers of two, with zeros and values at the edge of settling among them"""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape) * 2.0 ** random.integers(-12, 4, shape)
    x = np.where(random.random(shape) < 0.05, 0.0, x)
    x = np.where(random.random(shape) < 0.02, 2.0**-50, x)
    return settle(x.astype(np.float32))


def assert_same(observed: Array, expected: Array) -> None:
    assert observed.shape == expected.shape
    differ = observed.view(np.uint32) != expected.view(np.uint32)
    at = tuple(int(i) for i in np.argwhere(differ)[0]) if differ.any() else ()
    assert not differ.any(), (
        f"{differ.sum()} of {differ.size} differ, first at {at}: {observed[at].view(np.uint32):08x} "
        f"expected {expected[at].view(np.uint32):08x}"
    )
