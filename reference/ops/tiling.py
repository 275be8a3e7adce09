"""What makes the reference fast enough to use: packing, tiles, threads. None of it decides an addition.

A weight [N, K] is laid out once as tiles [i, c, n]: term i of chunk c for the output columns of the tile. One step of
the sum is then one contiguous multiply and one contiguous add over all chunks and outputs of a tile. Tiles share
nothing, so threads may take them in any order.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunks, dot_of_chunks
from gnomon.reference.row_counts import chooses_by_rows

F32 = NDArray[np.float32]

TILE_OUTPUTS = 768
TILE_FLOATS = chooses_by_rows(
    "reference.ops.tiling.TILE_FLOATS", 1 << 14, "floats"
)  # accumulators of one tile: 64 KiB, within a core's cache

POOL_JOBS = 8  # below that a hand-over to another thread costs more than it saves

chooses_by_rows("reference.ops.tiling.POOL_JOBS", (POOL_JOBS - 1) * TILE_FLOATS, "floats")

_pool: ThreadPoolExecutor | None = None


@dataclass(frozen=True)
class PackedMatrix:
    """W [N, K] as tiles [min(K, 128), ceil(K / 128), outputs of the tile]"""

    shape: tuple[int, int]
    tiles: tuple[F32, ...]


def pack_matrix(w: F32) -> PackedMatrix:
    """[N, K] f32, widened and settled -> PackedMatrix"""
    N, K = w.shape
    starts = range(0, N, TILE_OUTPUTS)
    return PackedMatrix((N, K), tuple(np.ascontiguousarray(chunks(w[n : n + TILE_OUTPUTS].T)) for n in starts))


def tiled_dot(x: F32, w: PackedMatrix) -> F32:
    """chunked_dot of every row of x with every row of W: [rows, K] -> [rows, N]"""
    N, K = w.shape
    if x.shape[1] != K:
        raise ValueError(f"Expected rows of width {K} but got x of shape {x.shape}")
    out = np.empty((x.shape[0], N), np.float32)
    x_chunks = np.ascontiguousarray(chunks(x.T))[..., None]  # [i, c, rows, 1]
    chunk_count = x_chunks.shape[1]

    def fill(job: tuple[int, int, int]) -> None:
        tile, row, stop = job
        n = tile * TILE_OUTPUTS
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread; the engine reports what is not finite
            block = dot_of_chunks(x_chunks[:, :, row:stop], w.tiles[tile][:, :, None])  # [rows, outputs]
        out[row:stop, n : n + block.shape[1]] = block

    jobs = []
    for tile, packed in enumerate(w.tiles):
        step = max(1, TILE_FLOATS // (chunk_count * packed.shape[2]))
        jobs += [(tile, row, min(row + step, x.shape[0])) for row in range(0, x.shape[0], step)]
    if len(jobs) < POOL_JOBS:
        for job in jobs:
            fill(job)
    else:
        list(pool().map(fill, jobs))
    return out


def pool() -> ThreadPoolExecutor:
    """NumPy lets go of the interpreter lock inside a ufunc, so plain threads share the tiles."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="gnomon-tile")
    return _pool
