"""The op table where kernels write in place: CUDA and ROCm. What every sequence has for itself reaches a kernel as an
array of pointers or sizes, so one launch takes all sequences of a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.kernel_table import CHUNK, QUERIES, TABLE
from gnomon.gpu.kernel_types import LEAST
from gnomon.gpu.launch import Block, DeviceArray, Driver, Launch, Memory, Recurrent
from gnomon.gpu.launch_calls import Given, Sizes, present
from gnomon.gpu.launch_ops import LaunchOps, attention_sizes
from gnomon.gpu.launch_state import DeviceKV, pointers
from gnomon.gpu.launch_table import Arrays, Shape, starts, step_arrays
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Arm, Rows, Span, Storage
from gnomon.reference.row_counts import chooses_by_rows
from gnomon.reference.state import State

NOTHING = DeviceArray((0, 0), None)
SCRATCH_FLOATS = 1 << 24  # of attention in one launch: longer steps go in pieces
PIECE = chooses_by_rows("gpu.launch_pointers.PIECE", 512)  # rows of a piece at most


@dataclass(frozen=True)
class Pieces:
    """The rows of a step in pieces that attention has scratch for.

    spans: each a sequence at a length of its own; longest: rows; chunks: of positions, at least what the longest sees;
    together: pieces of one launch
    """

    spans: tuple[Span, ...]
    lengths: tuple[int, ...]
    longest: int
    chunks: int
    together: int

    def arrays(self) -> dict[str, NDArray[np.int32]]:
        columns = zip(*((s.start, s.stop, n) for s, n in zip(self.spans, self.lengths, strict=True)), strict=True)
        return {
            f"piece.{name}": np.array(c, np.int32) for name, c in zip(("start", "stop", "length"), columns, strict=True)
        }


def pieces(rows: Rows, heads: int, d: int, chunks: int = 0) -> Pieces:
    """chunks: of positions, where more than needed are to be reckoned with"""
    chunks = max(chunks, *(-(-span.end // CHUNK) for span in rows.spans))
    per_row = -(-heads // QUERIES) * chunks * QUERIES * (CHUNK + 2 + -(-d // 64) * 64)  # floats
    most = max(1, min(PIECE, SCRATCH_FLOATS // per_row))
    spans, lengths = [], []
    for span in rows.spans:
        for start in range(span.start, span.stop, most):
            spans.append(Span(span.state, start, min(start + most, span.stop)))
            lengths.append(span.state.length + start - span.start)
    longest = max(s.stop - s.start for s in spans)
    together = max(1, SCRATCH_FLOATS // (per_row * longest))
    return Pieces(tuple(spans), tuple(lengths), longest, chunks, together)


class PointerOps(LaunchOps):
    """driver: the device; the rest as in HostOps.

    fixed, cut: the small arrays and pieces of a step that is being bound to a plan; recording: its launches, which then
    do not run; moved: how often scratch has moved, and so every launch that was bound to it
    """

    def __init__(self, driver: Driver, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> None:
        super().__init__(arm, kv, scratch_fill)
        self.driver = driver
        self.byte = 0xFF if np.isnan(scratch_fill) else 0
        self.functions: dict[str, Any] = {}
        self.scratch: dict[str, Memory] = {}
        self.zeros: dict[Shape, DeviceArray] = {}
        self.fixed: Block | None = None
        self.cut: Pieces | None = None
        self.recording: list[Launch] | None = None
        self.moved = 0

    # --- border -----------------------------------------------------------------------------------------------------
    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "PointerOps":
        return type(self)(self.driver, cast(Arm, arm), cast(Storage, kv), self.scratch_fill)

    def describe(self) -> dict[str, str]:
        return {"arm": self.arm, "kv": self.kv, **self.driver.describe()}

    def room(self, shape: Shape) -> DeviceArray:
        """Four bytes per element"""
        memory = self.driver.room(4 * max(int(np.prod(shape)), LEAST))
        self.driver.fill(memory, self.byte)
        return DeviceArray(shape, memory)

    def new_array(self, like: DeviceArray, width: int) -> DeviceArray:
        return self.room((like.shape[0], width))

    def upload(self, values: NDArray[Any]) -> DeviceArray:
        memory = self.driver.room(max(values.nbytes, 4 * LEAST))
        self.driver.upload(memory, np.ascontiguousarray(values))
        return DeviceArray(values.shape, memory)

    def fetch(self, x: DeviceArray, dtype: Any) -> NDArray[Any]:
        out = np.empty(x.shape, dtype)
        if out.size:
            self.driver.download(x.memory, out)
        return out

    def finish(self, rows: Rows, results: Sequence[DeviceArray]) -> None:
        """The logits wait for everything before them."""

    def part(self, x: DeviceArray, start: int, stop: int) -> DeviceArray:
        row = 4 * int(np.prod(x.shape[1:]))
        return DeviceArray((stop - start, *x.shape[1:]), x.memory.part(start * row, (stop - start) * row))

    def join(self, parts: Sequence[DeviceArray]) -> DeviceArray:
        out, at = self.room((sum(p.shape[0] for p in parts), *parts[0].shape[1:])), 0
        for p in parts:
            size = 4 * int(np.prod(p.shape))
            self.driver.copy(out.memory.part(at, size), p.memory.part(0, size))
            at += size
        return out

    # --- calls ------------------------------------------------------------------------------------------------------
    def call(
        self,
        name: str,
        inputs: Arrays,
        outputs: Mapping[str, Shape | DeviceArray],
        sizes: Sizes,
        sequences: int = 1,
    ) -> list[DeviceArray]:
        kernel, groups = TABLE[name], TABLE[name].groups(sizes)
        made = {n: out if isinstance(out, DeviceArray) else self.room(out) for n, out in outputs.items()}
        arrays, arguments = {**inputs, **made}, list[np.generic]()
        for a in kernel.arguments:
            if a.pointer or a.span:
                arguments.append(np.uint64(arrays[a.name].memory.pointer))
            else:
                arguments.append(np.float32(sizes[a.name]) if a.type == "float" else np.int32(sizes[a.name]))
        if name not in self.functions:
            self.functions[name] = self.driver.compile(kernel)
        one = Launch(self.functions[name], (groups, sequences), kernel.threads, [*arguments, np.int32(groups)])
        if groups and self.recording is not None:
            self.recording.append(one)
        elif groups:
            self.driver.launch(one)
        return list(made.values())

    def kept_room(self, name: str, shape: Shape) -> DeviceArray:
        """Scratch of attention, the same for every layer; it need not be cleared."""
        size = 4 * int(np.prod(shape))
        held = self.scratch.get(name)
        if held is None or held.nbytes < size:
            held = self.scratch[name] = self.driver.room(size)
            self.moved += 1
        return DeviceArray(shape, held)

    # --- the step ---------------------------------------------------------------------------------------------------
    def here(self, rows: Rows, tables: RopeTables | None) -> Any:
        return self.fixed or Block(self.driver, step_arrays(rows, tables))

    def alone(self, cache: DeviceKV, length: int, rows: int) -> tuple[dict[str, DeviceArray], Sizes]:
        values = {"start": 0, "stop": rows, "length": length, "capacity": cache.capacity}
        arrays: dict[str, NDArray[Any]] = {name: np.array([value], np.int32) for name, value in values.items()}
        block = Block(self.driver, arrays | {"k": pointers([cache.k]), "v": pointers([cache.v])})
        return {name: block[name] for name in block.offsets}, {}

    def carried(self, rows: Rows, layer: int, op: str, cut: Pieces | None) -> dict[str, NDArray[Any]]:
        """Where `op` of a layer finds what its sequences, or their pieces, carry"""
        if op == "attention":
            assert cut is not None
            return cache_arrays(f"{layer}.piece", [s.state.cache(layer) for s in cut.spans])
        caches = [span.state.cache(layer) for span in rows.spans]
        if op == "kv_append":
            return cache_arrays(str(layer), caches)
        field = "conv" if op == "causal_conv" else "delta"
        old = [self.before(span.state, layer, field) for span in rows.spans]
        fresh = [getattr(cache, field) for cache in caches]
        return {
            f"{layer}.{field}.old": pointers([a.memory for a in old]),
            f"{layer}.{field}.fresh": pointers([a.memory for a in fresh]),
        }

    def before(self, state: State, layer: int, field: str) -> DeviceArray:
        """What a recurrent layer held before this step; zeros at the start"""
        old = state.caches[layer]
        kept: DeviceArray | None = getattr(old, field) if old is not None else None
        if kept is not None:
            return kept
        shape = getattr(state.cache(layer), field).shape
        if shape not in self.zeros:
            self.zeros[shape] = self.upload(np.zeros(shape, np.float32))
        return self.zeros[shape]

    def emit_state(self, given: Given) -> DeviceArray:
        op, n, inputs, layer, rows = given.op.name, given.op.n, given.op.inputs, given.op.layer, given.op.rows
        assert rows is not None
        cut = None
        if op == "attention":
            cut = self.cut or pieces(rows, n[0], n[2])
        block = self.fixed
        if block is None:
            small = self.carried(rows, layer, op, cut) | starts(rows.spans) | (cut.arrays() if cut else {})
            block = Block(self.driver, small)
        count = len(rows.spans)
        common = {name: block[name] for name in ("start", "stop", "length")}
        longest = max(span.stop - span.start for span in rows.spans)
        if op == "attention":
            assert cut is not None
            return self.attention_in_pieces(given, cut, block)
        if op == "kv_append":
            carried = {name: block[f"{layer}.{name}"] for name in ("k", "v", "capacity")}
            sizes = {"rows": longest, "kv_heads": n[0], "d": n[2]}
            self.call(f"kv_append_{self.kv}", {"x": given.x, "y": given.y, **carried, **common}, {}, sizes, count)
            return NOTHING
        shape = given.op.out or (given.rows, given.op.width)
        field = "conv" if op == "causal_conv" else "delta"
        states = {name: block[f"{layer}.{field}.{name}"] for name in ("old", "fresh")}
        if op == "causal_conv":
            arrays = {"x": given.x, "w": given.op.weights[0], **states, **common}
            return self.call(op, arrays, {"out": shape}, {"C": n[0], "taps": n[1]}, count)[0]
        arrays = {**dict(zip(("q", "k", "v", "g", "beta"), present(inputs), strict=True)), **states, **common}
        sizes = dict(zip(("key_heads", "value_heads", "dk", "dv"), n, strict=True))
        return self.call(op, arrays, {"out": shape}, sizes, count)[0]

    def attention_in_pieces(self, given: Given, cut: Pieces, block: Block) -> DeviceArray:
        op = given.op
        heads, kv_heads, d, window = op.n[:4]
        out = op.out or self.room((given.rows, op.width))
        sizes = attention_sizes(heads, kv_heads, d, window, cut.chunks * CHUNK, cut.longest) | {"scale": op.f[0]}
        names = {name: f"piece.{name}" for name in ("start", "stop", "length")}
        names |= {name: f"{op.layer}.piece.{name}" for name in ("k", "v", "capacity")}
        for first in range(0, len(cut.spans), cut.together):
            some = min(cut.together, len(cut.spans) - first)
            carried = {}
            for name, where in names.items():
                whole, size = block[where], 8 if name in ("k", "v") else 4
                carried[name] = DeviceArray((some,), whole.memory.part(first * size, some * size))
            self.attend(given.x, carried, sizes, out, self.kept_room, some)
        return out

    # --- states -----------------------------------------------------------------------------------------------------
    def prepare_kv(self, rows: Rows, i: int, kv_heads: int, d: int) -> None:
        for span in rows.spans:
            old: DeviceKV | None = span.state.cache(i)
            kept = old or DeviceKV(self.driver, self.kv, kv_heads, d, span.end, self.byte)
            span.state.pending[i] = kept.grown(span.end)

    def prepare_conv(self, rows: Rows, i: int, taps: int, channels: int) -> None:
        for span in rows.spans:
            old: Recurrent | None = span.state.caches[i]
            span.state.pending[i] = Recurrent(self.room((taps - 1, channels)), old.delta if old else None)

    def prepare_delta(self, rows: Rows, i: int, value_heads: int, dk: int, dv: int) -> None:
        for span in rows.spans:
            span.state.pending[i] = Recurrent(span.state.cache(i).conv, self.room((value_heads, dk, dv)))

    def load_kv(self, arrays: dict[str, NDArray[Any]]) -> DeviceKV:
        return DeviceKV.of(self.driver, self.kv, arrays, self.byte)

    def copy_cache(self, state: State, i: int) -> DeviceKV | Recurrent | None:  # type: ignore[override]
        cache: DeviceKV | Recurrent | None = state.caches[i]
        return cache.resized(state.length) if isinstance(cache, DeviceKV) else cache  # a step replaces a recurrent one

    def cache_nbytes(self, cache: DeviceKV | Recurrent | None) -> int:  # type: ignore[override]
        if cache is None:
            return 0
        if isinstance(cache, DeviceKV):
            return cache.nbytes
        return sum(4 * int(np.prod(a.shape)) for a in cache if a is not None)


def cache_arrays(at: str, caches: Sequence[DeviceKV]) -> dict[str, NDArray[Any]]:
    return {
        f"{at}.k": pointers([c.k for c in caches]), f"{at}.v": pointers([c.v for c in caches]),
        f"{at}.capacity": np.array([c.capacity for c in caches], np.int32),
    }  # fmt: skip
