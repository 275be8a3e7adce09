"""What an engine on CUDA or ROCm carries of a sequence: the blocks of host_state.py, in device memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_state import STEP, HostKV
from gnomon.gpu.launch import Driver, Memory

Arrays = dict[str, NDArray[Any]]


class DeviceKV:
    """Keys and values of one attention layer; fill: the byte that memory holds before it is written."""

    def __init__(self, driver: Driver, storage: str, kv_heads: int, d: int, capacity: int, fill: int) -> None:
        self.driver = driver
        self.storage = storage
        self.kv_heads = kv_heads
        self.d = d
        self.capacity = -(-capacity // STEP) * STEP
        self.fill = fill
        self.strips = (kv_heads, kv_heads * -(-d // 64))  # of k and v: positions ascend within a strip
        words = HostKV(storage, kv_heads, d, STEP, 0.0)  # of the first positions
        self.sizes = tuple(
            w.nbytes // n * (self.capacity // STEP) for w, n in zip((words.k, words.v), self.strips, strict=True)
        )
        self.k, self.v = (driver.room(size * n) for size, n in zip(self.sizes, self.strips, strict=True))
        for memory in (self.k, self.v):
            driver.fill(memory, fill)

    @property
    def nbytes(self) -> int:
        return self.k.nbytes + self.v.nbytes

    def grown(self, positions: int) -> "DeviceKV":
        """Room for so many positions: this, or a larger copy of it."""
        return self if positions <= self.capacity else self.resized(max(positions, 2 * self.capacity))

    def resized(self, positions: int) -> "DeviceKV":
        """A copy with room for so many positions."""
        made = DeviceKV(self.driver, self.storage, self.kv_heads, self.d, max(positions, 1), self.fill)
        for old, new, before, after, strips in zip(
            (self.k, self.v), (made.k, made.v), self.sizes, made.sizes, self.strips, strict=True
        ):
            for i in range(strips):
                size = min(before, after)
                self.driver.copy(new.part(i * after, size), old.part(i * before, size))
        return made

    def host(self, length: int) -> HostKV:
        """The same on the host, for whoever reads positions below `length`."""
        made = HostKV(self.storage, self.kv_heads, self.d, self.capacity, 0.0)
        for memory, words in ((self.k, made.k), (self.v, made.v)):
            self.driver.download(memory, words)
        return made

    @staticmethod
    def of(driver: Driver, storage: str, arrays: Arrays, fill: int) -> "DeviceKV":
        """The cache whose canonical arrays these are."""
        words = HostKV.of(storage, arrays)
        made = DeviceKV(driver, storage, words.kv_heads, words.d, words.capacity, fill)
        for memory, array in ((made.k, words.k), (made.v, words.v)):
            driver.upload(memory, array)
        return made


def pointers(memories: list[Memory]) -> NDArray[np.uint64]:
    return np.array([m.pointer for m in memories], np.uint64)
