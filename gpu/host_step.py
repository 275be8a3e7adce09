"""A step as the kernels see it: rows, positions, rotations, and where the states of its sequences lie."""

from collections.abc import Sequence
from ctypes import POINTER, c_void_p, cast
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_build import kernel_number
from gnomon.gpu.host_library import Carried, Span, Step, Team, cores
from gnomon.gpu.host_memory import aligned
from gnomon.gpu.host_state import STEP, HostKV, Recurrent
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Rows, Want
from gnomon.reference.row_counts import chooses_by_rows

FEW, MANY = (
    kernel_number("host_attention.h", "TILE"),
    kernel_number("host_attention_many.h", "MANY"),
)  # queries of a tile
TILE_TASKS = 4  # tiles of many queries per thread from which on attention needs no finer split
chooses_by_rows("gpu.host_step.TILE_TASKS", TILE_TASKS * cores() * MANY, "queries")


class HostStep:
    """The C struct of a step and the arrays that it points to, which live as long.

    layers: those whose states the instructions touch; kv_heads, group, d: of their attention; split: whether
    attention is among them, which takes three phases where its tiles are few; work: multiply-adds, which decide
    whether threads pay
    """

    def __init__(
        self,
        team: Team,
        rows: Rows,
        tables: RopeTables | None,
        want: Want,
        layers: Sequence[int],
        kv_heads: int = 1,
        group: int = 1,
        d: int = 64,
        split: bool = False,
        work: int = 0,
    ) -> None:
        self.ids = rows.ids.copy()
        chunks = -(-max((span.end for span in rows.spans), default=1) // STEP)
        sizes = [span.stop - span.start for span in rows.spans]
        few, many = (tiles_of(sizes, group, queries) * kv_heads for queries in (FEW, MANY))
        small = work < team.least
        half_full = 2 * sum(sizes) * kv_heads * group >= MANY * many
        whole = half_full and (small or team.threads == 1 or many >= TILE_TASKS * team.threads)
        library = team.built.library
        self.part = None if whole or not split else aligned((few * chunks * library.part_floats_of(d),), np.float32)
        self.positions = rows.pos.astype(np.int32)
        ends = [span.stop - 1 for span in rows.spans]
        self.select = np.array(ends, np.int32)
        self.rotation = tables.at(rows.pos) if tables is not None else None
        self.spans = np.array([(s.start, s.stop, s.state.length) for s in rows.spans], np.int32)  # [spans, 3]
        self.carried = self._carried(rows, layers)
        self.struct = Step(
            len(rows.ids), len(rows.ids) if want == "all" else len(ends), len(ends), len(layers), int(whole), chunks,
            int(small), self.ids.ctypes.data, self.select.ctypes.data, self.positions.ctypes.data,
            self.rotation.cos.ctypes.data if self.rotation else None,
            self.rotation.sin.ctypes.data if self.rotation else None,
            cast(self.spans.ctypes.data, POINTER(Span)), cast(self.carried.ctypes.data, POINTER(Carried)), None,
            self.part.ctypes.data if self.part is not None else None, library.scratch_floats(chunks if whole else 1, d),
        )  # fmt: skip

    def advance(self, rows: Rows, tables: RopeTables | None) -> bool:
        """Become, from a step of one row, that of the next row of the same sequence: only the row, its position and its
        rotation change. False, and nothing is done, unless its caches have stayed and have room: the work of a step
        around its kernels is small then, and memory that they have swept out of the caches makes it dear."""
        (span,), struct = rows.spans, self.struct
        position = span.state.length
        if (
            self.kept != span.state.caches
            or -(-span.end // STEP) != struct.chunks
            or (tables is not None and position >= len(tables.cos))
        ):
            return False
        self.ids[0], self.positions[0], self.spans[0, 2] = rows.ids[0], position, position
        if tables is not None and self.rotation is not None:  # its arrays are copies
            self.rotation.cos[0], self.rotation.sin[0] = tables.cos[position], tables.sin[position]
        return True

    def _carried(self, rows: Rows, layers: Sequence[int]) -> NDArray[np.uint64]:
        """[layers, spans, 7]: the fields of Carried"""
        out = []
        self.zeros: list[NDArray[np.float32]] = []
        self.kept: list[HostKV] | None = []  # the caches of a sequence that has nothing but keys and values
        for i in layers:
            for span in rows.spans:
                fresh = span.state.cache(i)
                if isinstance(fresh, HostKV):
                    out.append((*fresh.pointers, 0, 0, 0, 0))
                    if self.kept is not None:
                        self.kept.append(fresh)
                    continue
                self.kept = None
                if isinstance(fresh, Recurrent):
                    out.append((0, 0, 0, *self._recurrent(span.state.caches[i], fresh)))
                else:
                    out.append((0,) * 7)
        return np.array(out, np.uint64)

    def _recurrent(self, old: Recurrent | None, fresh: Recurrent) -> tuple[int, int, int, int]:
        conv = old.conv if old is not None else self._zero(fresh.conv.shape)
        if fresh.delta is None:
            return conv.ctypes.data, 0, fresh.conv.ctypes.data, 0
        delta = old.delta if old is not None and old.delta is not None else self._zero(fresh.delta.shape)
        return conv.ctypes.data, delta.ctypes.data, fresh.conv.ctypes.data, fresh.delta.ctypes.data

    def _zero(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        self.zeros.append(np.zeros(shape, np.float32))
        return self.zeros[-1]


def tiles_of(sizes: Sequence[int], group: int, queries: int) -> int:
    """Tiles of so many queries that sequences of these numbers of rows make for one kv head and its group of heads."""
    rows = max(1, queries // group)
    return sum(-(-size // rows) for size in sizes) * -(-group // queries)


def table_of(buffers: NDArray[np.uint64]) -> Any:
    """The addresses of a step's buffers, by index, for the field `buffers` of its struct"""
    return cast(buffers.ctypes.data, POINTER(c_void_p))
