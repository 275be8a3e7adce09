"""Memory that the host kernels read and write."""

import math
import mmap
from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

HUGE = 1 << 21  # bytes of a large page
ALIGN = 64  # bytes: a cache line, so that no load of 16 lanes straddles two


def aligned(shape: Sequence[int], dtype: Any = np.float32) -> NDArray[Any]:
    """Uninitialised memory that starts on a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = huge(size) if size >= HUGE else np.empty(size + ALIGN, np.uint8)
    start = -address(raw) % ALIGN
    here: NDArray[Any] = raw[start : start + size].view(dtype).reshape(shape)
    return here


def address(array: NDArray[Any]) -> int:
    """Of the first byte of an array that may be written. `array.ctypes` costs ten times as much."""
    return addressof(c_char.from_buffer(array.data))


def huge(size: int) -> NDArray[Any]:
    """Zeroed memory of this process alone, in large pages where the system has them: a token reads all of it."""
    size = -(-size // HUGE) * HUGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.frombuffer(mmap.mmap(-1, size), np.uint8)
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory, the default, has none
    pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)
