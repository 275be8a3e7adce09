"""The op table on Metal: the kernels through mx.fast.metal_kernel. An MLX array never changes once made, so every
launch gives new arrays, a state refers to what it holds, and a step is one graph that `finish` evaluates.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_state import STEP, HostKV
from gnomon.gpu.kernel_table import CHUNK, QUERIES, TABLE
from gnomon.gpu.kernel_types import LEAST, Kernel
from gnomon.gpu.kernel_units import metal_kernel, metal_sizes
from gnomon.gpu.launch import DeviceArray, Recurrent
from gnomon.gpu.launch_calls import Given, Sizes, present
from gnomon.gpu.launch_ops import LaunchOps, attention_sizes
from gnomon.gpu.launch_table import Arrays, Shape, step_arrays
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Arm, Rows, Storage
from gnomon.reference.row_counts import chooses_by_rows
from gnomon.reference.state import State

F32 = NDArray[np.float32]
Make = Callable[..., Callable[..., list[mx.array]]]  # mx.fast.metal_kernel, or what stands in for it
TYPES = {"float": mx.float32, "i32": mx.int32, "u32": mx.uint32, "u16": mx.uint16}
SCRATCH_FLOATS = 1 << 24  # of attention in one launch: longer steps go in pieces
PIECE = chooses_by_rows("gpu.mlx_metal_ops.PIECE", 512)  # rows of a piece at most
NOTHING = DeviceArray((0, 0), None)


class MetalKV:
    """Keys and values of one attention layer, in the blocks of host_state.py; positions past the length are scratch."""

    def __init__(self, storage: str, kv_heads: int, d: int, k: mx.array, v: mx.array) -> None:
        self.storage = storage
        self.kv_heads = kv_heads
        self.d = d
        self.k = k  # [kv_heads, capacity / 64, groups, rows, 64]
        self.v = v  # [kv_heads, blocks, capacity / 32, rows, 64]

    @property
    def capacity(self) -> int:
        return 64 * int(self.k.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.k.nbytes + self.v.nbytes)

    @staticmethod
    def of(words: HostKV) -> "MetalKV":
        return MetalKV(words.storage, words.kv_heads, words.d, mx.array(words.k), mx.array(words.v))

    def grown(self, positions: int, fill: float) -> "MetalKV":
        """Room for so many positions: this, or a larger copy of it."""
        if positions <= self.capacity:
            return self
        more = HostKV(self.storage, self.kv_heads, self.d, max(positions, 2 * self.capacity) - self.capacity, fill)
        k, v = mx.concatenate([self.k, mx.array(more.k)], axis=1), mx.concatenate([self.v, mx.array(more.v)], axis=2)
        return MetalKV(self.storage, self.kv_heads, self.d, k, v)

    def host(self, length: int) -> HostKV:
        """The same on the host, for whoever reads positions below `length`."""
        made = HostKV(self.storage, self.kv_heads, self.d, self.capacity, 0.0)
        made.k[...], made.v[...] = np.array(self.k), np.array(self.v)
        return made


class MlxMetalOps(LaunchOps):
    """make: what makes a kernel, else mx.fast.metal_kernel; the rest as in HostOps"""

    def __init__(
        self, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0, make: Make | None = None
    ) -> None:
        super().__init__(arm, kv, scratch_fill)
        self.make: Make = make or cast(Make, mx.fast.metal_kernel)
        self.kernels: dict[str, Callable[..., list[mx.array]]] = {}

    # --- border -----------------------------------------------------------------------------------------------------
    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "MlxMetalOps":
        return type(self)(cast(Arm, arm), cast(Storage, kv), self.scratch_fill, self.make)

    def describe(self) -> dict[str, str]:
        name = str(mx.device_info().get("device_name", "unknown"))
        return {"arm": self.arm, "kv": self.kv, "mlx": version("mlx"), "device_name": name}

    def upload(self, values: NDArray[Any]) -> DeviceArray:
        """Flat, padded to 8 elements: MLX moves a smaller input into another address space."""
        flat = np.ascontiguousarray(values).reshape(-1)
        if flat.size < LEAST:
            flat = np.concatenate([flat, np.zeros(LEAST - flat.size, flat.dtype)])
        return DeviceArray(values.shape, mx.array(flat))

    def fetch(self, x: DeviceArray, dtype: Any) -> NDArray[Any]:
        flat = np.array(x.memory).reshape(-1)[: int(np.prod(x.shape))]
        return np.array(flat.reshape(x.shape), dtype, order="C")

    def finish(self, rows: Rows, results: Sequence[DeviceArray]) -> None:
        kept: list[mx.array] = []
        for span in rows.spans:
            for cache in span.state.pending.values():
                kept += [cache.k, cache.v] if isinstance(cache, MetalKV) else [a.memory for a in cache if a is not None]
        mx.eval([x.memory for x in results], kept)

    def part(self, x: DeviceArray, start: int, stop: int) -> DeviceArray:
        if (start, stop) == (0, x.shape[0]):
            return x
        row = int(np.prod(x.shape[1:]))
        return DeviceArray((stop - start, *x.shape[1:]), padded(x.memory[start * row : stop * row]))

    def join(self, parts: Sequence[DeviceArray]) -> DeviceArray:
        shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
        return DeviceArray(shape, padded(mx.concatenate([p.memory[: int(np.prod(p.shape))] for p in parts])))

    def new_array(self, like: DeviceArray, width: int) -> DeviceArray:
        raise TypeError("Expected no call: a result is made by its kernel")

    def activation(self, x: DeviceArray) -> tuple[DeviceArray, DeviceArray | None]:
        if self.arm != "int8":
            return super().activation(x)
        rows, width = x.shape
        q, scale = self.call("quant_rows", {"x": x}, {"q": x.shape, "scale": (rows, 1)}, {"rows": rows, "n": width})
        return q, scale

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
        shapes = [cast(Shape, outputs[a.name]) for a in kernel.named("out")]
        if not groups:
            return [self.upload(np.zeros(shape, np.float32)) for shape in shapes]
        made = self.kernel(kernel)(
            inputs=[*(inputs[a.name].memory for a in kernel.named("in")), mx.array(metal_sizes(kernel, sizes))],
            output_shapes=[(max(int(np.prod(shape)), LEAST),) for shape in shapes],
            output_dtypes=[TYPES[a.type] for a in kernel.named("out")],
            grid=(groups * kernel.threads, 1, 1),
            threadgroup=(kernel.threads, 1, 1),
        )
        return [DeviceArray(shape, memory) for shape, memory in zip(shapes, made, strict=True)]

    def kernel(self, kernel: Kernel) -> Callable[..., list[mx.array]]:
        """Made once and kept: MLX finds the compiled library by it."""
        if kernel.name not in self.kernels:
            m = metal_kernel(kernel)
            given = {
                "name": m.name, "input_names": list(m.input_names), "output_names": list(m.output_names),
                "source": m.source, "header": m.header,
            }  # fmt: skip
            try:
                self.kernels[kernel.name] = self.make(**given, compile_options={"math_mode": "safe"})
            except TypeError:  # an MLX before 0.32.1, for which safe is all there is
                self.kernels[kernel.name] = self.make(**given)
        return self.kernels[kernel.name]

    # --- the step: one sequence per launch ----------------------------------------------------------------------------
    def here(self, rows: Rows, tables: RopeTables | None) -> Arrays:
        return {name: self.upload(array) for name, array in step_arrays(rows, tables).items()}

    def alone(self, cache: MetalKV, length: int, rows: int) -> tuple[dict[str, DeviceArray], Sizes]:
        arrays = {"k": DeviceArray((), cache.k), "v": DeviceArray((), cache.v)}
        return arrays, {"capacity": cache.capacity, "start": 0, "stop": rows, "length": length}

    def emit_state(self, given: Given) -> DeviceArray:
        op, n, layer, rows = given.op.name, given.op.n, given.op.layer, given.op.rows
        assert rows is not None
        inputs, parts, width = present(given.op.inputs), list[DeviceArray](), given.op.width
        for span in rows.spans:
            old, cache = span.state.caches[layer], span.state.cache(layer)
            some = [self.part(x, span.start, span.stop) for x in inputs]
            count, sizes = span.stop - span.start, {"start": 0, "stop": span.stop - span.start}
            if op == "kv_append":
                span.state.pending[layer] = self.append(cache, some[0], some[1], span.state.length)
            elif op == "attention":
                parts += self.attention_in_pieces(some[0], cache, span.state.length, given)
            elif op == "causal_conv":
                arrays = {"x": some[0], "w": given.op.weights[0], "old": before(old, "conv", cache.conv)}
                outputs = {"fresh": cache.conv.shape, "out": (count, width)}
                fresh, y = self.call(op, arrays, outputs, sizes | {"C": n[0], "taps": n[1]})
                span.state.pending[layer] = Recurrent(fresh, old.delta if old else None)
                parts.append(y)
            else:
                arrays = dict(zip(("q", "k", "v", "g", "beta"), some, strict=True))
                arrays["old"] = before(old, "delta", cache.delta)
                sizes |= dict(zip(("key_heads", "value_heads", "dk", "dv"), n, strict=True))
                outputs = {"fresh": cache.delta.shape, "out": (count, width)}
                fresh, y = self.call(op, arrays, outputs, sizes)
                span.state.pending[layer] = Recurrent(cache.conv, fresh)
                parts.append(y)
        if not parts:
            return NOTHING
        return parts[0] if len(parts) == 1 else self.join(parts)

    def append(self, cache: MetalKV, k: DeviceArray, v: DeviceArray, length: int) -> MetalKV:
        """The chunks of 128 positions that these rows touch are made anew and put in the place of the old ones."""
        rows = k.shape[0]
        first, last = length // STEP, -(-(length + rows) // STEP)
        old_k, old_v = cache.k[:, 2 * first : 2 * last], cache.v[:, :, 4 * first : 4 * last]
        inputs = {"x": k, "y": v, "old_k": DeviceArray((), old_k), "old_v": DeviceArray((), old_v)}
        sizes = {
            "capacity": STEP * (last - first), "rows": rows, "length": length, "base": STEP * first,
            "kv_heads": cache.kv_heads, "d": cache.d,
        }  # fmt: skip
        outputs = {"k": tuple(old_k.shape), "v": tuple(old_v.shape)}
        new_k, new_v = self.call(f"kv_append_tail_{self.kv}", inputs, outputs, sizes)
        made_k = mx.slice_update(cache.k, new_k.memory.reshape(old_k.shape), mx.array([2 * first]), [1])
        made_v = mx.slice_update(cache.v, new_v.memory.reshape(old_v.shape), mx.array([4 * first]), [2])
        return MetalKV(cache.storage, cache.kv_heads, cache.d, made_k, made_v)

    def attention_in_pieces(self, q: DeviceArray, cache: MetalKV, length: int, given: Given) -> list[DeviceArray]:
        heads, kv_heads, d, window = given.op.n[:4]
        rows, parts = q.shape[0], []
        chunks = -(-(length + rows) // CHUNK)
        most = SCRATCH_FLOATS // (-(-heads // QUERIES) * chunks * QUERIES * (CHUNK + 2 + -(-d // 64) * 64))
        step = max(1, min(PIECE, most))
        for start in range(0, rows, step):
            some = self.part(q, start, min(start + step, rows))
            at, count = length + start, some.shape[0]
            arrays, sizes = self.alone(cache, at, count)
            sizes |= attention_sizes(heads, kv_heads, d, window, at + count, count) | {"scale": given.op.f[0]}
            parts.append(self.attend(some, arrays, sizes, some.shape, lambda name, shape: shape))
        return parts

    # --- states: arrays never change, so a copy shares them -----------------------------------------------------------
    def prepare_kv(self, rows: Rows, i: int, kv_heads: int, d: int) -> None:
        for span in rows.spans:
            old: MetalKV | None = span.state.cache(i)
            kept = old or MetalKV.of(HostKV(self.kv, kv_heads, d, span.end, self.scratch_fill))
            span.state.pending[i] = kept.grown(span.end, self.scratch_fill)

    def prepare_conv(self, rows: Rows, i: int, taps: int, channels: int) -> None:
        for span in rows.spans:
            old: Recurrent | None = span.state.caches[i]
            zeros = self.upload(np.zeros((taps - 1, channels), np.float32))
            span.state.pending[i] = Recurrent(zeros, old.delta if old else None)

    def prepare_delta(self, rows: Rows, i: int, value_heads: int, dk: int, dv: int) -> None:
        for span in rows.spans:
            zeros = self.upload(np.zeros((value_heads, dk, dv), np.float32))
            span.state.pending[i] = Recurrent(span.state.cache(i).conv, zeros)

    def load_kv(self, arrays: dict[str, NDArray[Any]]) -> MetalKV:
        return MetalKV.of(HostKV.of(self.kv, arrays))

    def copy_cache(self, state: State, i: int) -> Any:
        return state.caches[i]

    def cache_nbytes(self, cache: MetalKV | Recurrent | None) -> int:  # type: ignore[override]
        if cache is None:
            return 0
        return cache.nbytes if isinstance(cache, MetalKV) else sum(a.memory.nbytes for a in cache if a is not None)


def padded(flat: mx.array) -> mx.array:
    """With room for 8 elements"""
    return flat if flat.size >= LEAST else mx.pad(flat, (0, LEAST - int(flat.size)))


def before(old: Recurrent | None, field: str, zeros: DeviceArray) -> DeviceArray:
    """What a recurrent layer held before this step; zeros at the start"""
    kept: DeviceArray | None = getattr(old, field) if old is not None else None
    return kept if kept is not None else zeros
