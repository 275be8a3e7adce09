"""The half of the GPU op table that touches states: attention, its steps for taps, and what a sequence carries."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_ops import STEPS, replaced
from gnomon.gpu.kernel_table import CHUNK, QUERIES
from gnomon.gpu.launch import DeviceArray, Recurrent
from gnomon.gpu.launch_calls import Sizes
from gnomon.gpu.launch_table import Arrays, LaunchTable, Shape
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State


class LaunchOps(LaunchTable):
    """Attention is three launches over some sequences, or pieces of them."""

    @abstractmethod
    def alone(self, cache: Any, length: int, rows: int) -> tuple[dict[str, DeviceArray], Sizes]:
        """k, v, capacity, start, stop and length of one sequence whose rows are 0 .. rows: arrays and sizes"""

    # --- caches -------------------------------------------------------------------------------------------------------
    @abstractmethod
    def load_kv(self, arrays: dict[str, NDArray[Any]]) -> Any:
        """Keys and values that export as "k", "v" and their scales"""

    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        cache = state.caches[i]
        if cache is None:
            return {}
        if isinstance(cache, Recurrent):
            return {f"rec.{name}": self.numpy(a) for name, a in cache._asdict().items() if a is not None}
        return {f"kv.{name}": array for name, array in cache.host(state.length).arrays(0, state.length).items()}

    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> Any:
        if "rec.conv" in arrays:
            delta = arrays.get("rec.delta")
            return Recurrent(self.upload(arrays["rec.conv"]), None if delta is None else self.upload(delta))
        return self.load_kv({name.removeprefix("kv."): array for name, array in arrays.items()})

    def truncate_cache(self, cache: Any, length: int) -> Any:
        return cache  # what lies past the length is scratch

    # --- attention --------------------------------------------------------------------------------------------------
    def attention(
        self,
        at: str,
        q: DeviceArray,
        k: DeviceArray,
        v: DeviceArray,
        rows: Rows,
        i: int,
        kv_heads: int,
        scale: float,
        window: int | None,
    ) -> DeviceArray:
        if replaced(self, STEPS):
            return super().attention(at, q, k, v, rows, i, kv_heads, scale, window)
        return self.attention_in_one(q, k, v, rows, i, kv_heads, scale, window)

    def attend(
        self,
        q: DeviceArray,
        carried: Arrays,
        sizes: Sizes,
        out: Shape | DeviceArray,
        room: Callable[[str, Shape], Shape | DeviceArray],
        sequences: int = 1,
    ) -> DeviceArray:
        """The three launches over some sequences. sizes: those of the kernels; room: where scratch of a shape lies"""
        parts = (sequences, sizes["tiles"], sizes["chunks"])
        inputs, blocks = {"q": q, **carried}, -(-sizes["d"] // 64)
        outputs = {"scores": room("scores", (*parts, QUERIES, CHUNK)), "most": room("most", (*parts, QUERIES))}
        scores, most = self.call(f"attention_scores_{self.kv}", inputs, outputs, sizes, sequences)
        outputs = {"sums": room("sums", (*parts, QUERIES)), "mixes": room("mixes", (*parts, blocks, QUERIES, 64))}
        partly = {**inputs, "scores": scores, "most": most}
        sums, mixes = self.call(f"attention_mix_{self.kv}", partly, outputs, sizes, sequences)
        merged = {**inputs, "sums": sums, "mixes": mixes}
        return self.call("attention_merge", merged, {"out": out}, sizes, sequences)[0]

    # --- the steps of attention, for taps -----------------------------------------------------------------------------
    def scores(
        self, at: str, q: DeviceArray, rows: Rows, i: int, scale: float, window: int | None
    ) -> list[DeviceArray]:
        out = []
        for span in rows.spans:
            cache, count = span.state.cache(i), span.stop - span.start
            heads = q.shape[1] // cache.d
            arrays, sizes = self.alone(cache, span.state.length, count)
            sizes |= attention_sizes(heads, cache.kv_heads, cache.d, window or 0, span.end, count) | {"scale": scale}
            one = self.part(q, span.start, span.stop)
            out += self.call(f"tap_scores_{self.kv}", {"q": one, **arrays}, {"out": (count, heads, span.end)}, sizes)
        return out

    def exp_scores(self, at: str, s: list[DeviceArray], rows: Rows, window: int | None) -> list[DeviceArray]:
        out = []
        for x, span in zip(s, rows.spans, strict=True):
            count, heads, T = x.shape
            sizes = {"rows": count, "heads": heads, "length": span.state.length, "window": window or 0, "T": T}
            out += self.call("tap_exp", {"s": x}, {"e": x.shape}, sizes)
        return out

    def denom(self, at: str, e: list[DeviceArray]) -> list[DeviceArray]:
        return [self.row_sum(x) for x in e]

    def mix(self, at: str, e: list[DeviceArray], denom: list[DeviceArray], rows: Rows, i: int) -> DeviceArray:
        parts: list[DeviceArray] = []
        for x, total, span in zip(e, denom, rows.spans, strict=True):
            cache, (count, heads, T) = span.state.cache(i), x.shape
            arrays, sizes = self.alone(cache, span.state.length, count)
            sizes |= {"rows": count, "heads": heads, "kv_heads": cache.kv_heads, "d": cache.d, "T": T}
            inputs = {"e": x, "denom": total, **arrays}
            parts += self.call(f"tap_mix_{self.kv}", inputs, {"out": (count, heads * cache.d)}, sizes)
        return parts[0] if len(parts) == 1 else self.join(parts)

    def appended(self, rows: Rows, i: int) -> tuple[DeviceArray, DeviceArray]:
        kept = [(s.state.cache(i).host(s.end), s) for s in rows.spans]
        k, v = (np.concatenate([c.read(name, s.state.length, s.end) for c, s in kept]) for name in ("k", "v"))
        return self.array(k.reshape(len(k), -1)), self.array(v.reshape(len(v), -1))


def attention_sizes(heads: int, kv_heads: int, d: int, window: int, end: int, rows: int) -> Sizes:
    """Of attention over up to `rows` rows of sequences that end at `end` at most"""
    tiles = kv_heads * -(-rows * (heads // kv_heads) // QUERIES)
    return {
        "heads": heads, "kv_heads": kv_heads, "d": d, "window": window, "chunks": -(-end // CHUNK), "tiles": tiles,
        "rows": rows,
    }  # fmt: skip
