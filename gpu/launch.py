"""What engines on a GPU are made of: arrays on a device, a launch of a kernel, and the driver that both belong to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.kernel_types import Kernel

Array = NDArray[Any]
Grid = tuple[int, int]  # groups, sequences
ALIGN = 16  # bytes: where an array of a block starts


@dataclass(frozen=True, eq=False)
class Memory:
    """Bytes on a device. keep: what must live as long"""

    pointer: int
    nbytes: int
    keep: Any = None

    def part(self, start: int, nbytes: int) -> "Memory":
        return Memory(self.pointer + start, nbytes, self.keep)


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """shape: mostly [rows, width]; memory: as the engine holds it, with room for 8 elements or more"""

    shape: tuple[int, ...]
    memory: Any

    def reshape(self, *shape: int) -> "DeviceArray":
        return DeviceArray(shape, self.memory)


class Recurrent(NamedTuple):
    """A delta layer on a device: the last conv inputs [taps - 1, C] and one matrix per head [value_heads, dk, dv]"""

    conv: DeviceArray
    delta: DeviceArray | None = None


@dataclass(frozen=True)
class Launch:
    """A kernel on its arguments: pointers as uint64, sizes as int32 and float32, in the order of the entry"""

    function: Any
    grid: Grid
    threads: int
    arguments: Sequence[np.generic]


class Driver(Protocol):
    """What runs kernels on memory that they write in place: a CUDA or ROCm device, or what stands in for one.

    Everything happens in the order of the calls; `download` waits for it.
    """

    target: Literal["cuda", "hip"]

    def describe(self) -> dict[str, str]:
        """Names and versions, read from what runs."""
        ...

    def compile(self, kernel: Kernel) -> Any:
        """The function of a kernel, once per kernel. Raises NotRunError where the compiler refuses it."""
        ...

    def launch(self, one: Launch) -> None: ...

    def capture(self, launches: Sequence[Launch]) -> Callable[[], None] | None:
        """All of them as one submission, to be made again and again; None where the device has no such thing."""
        ...

    def cache_bytes(self) -> int:
        """Of the last-level cache"""
        ...

    def room(self, nbytes: int) -> Memory: ...

    def fill(self, memory: Memory, byte: int) -> None: ...

    def upload(self, memory: Memory, array: Array) -> None: ...

    def download(self, memory: Memory, array: Array) -> None: ...

    def copy(self, to: Memory, source: Memory) -> None:
        """All bytes of `source`"""
        ...


class Block:
    """The small arrays of a step, in one piece of memory: one copy per step."""

    def __init__(self, driver: Driver, arrays: Mapping[str, Array]) -> None:
        self.driver = driver
        self.offsets: dict[str, int] = {}
        size = 0
        for name, array in arrays.items():
            self.offsets[name] = size
            size += -(-max(array.nbytes, 1) // ALIGN) * ALIGN
        self.host = np.zeros(size, np.uint8)
        self.memory = driver.room(size)
        self.shapes = {name: array.shape for name, array in arrays.items()}
        self.update(arrays)

    def update(self, arrays: Mapping[str, Array]) -> None:
        """The same arrays with other contents."""
        for name, array in arrays.items():
            at = self.offsets[name]
            self.host[at : at + array.nbytes] = np.frombuffer(np.ascontiguousarray(array), np.uint8)
        self.driver.upload(self.memory, self.host)

    def __getitem__(self, name: str) -> DeviceArray:
        at, shape = self.offsets[name], self.shapes[name]
        return DeviceArray(shape, self.memory.part(at, self.memory.nbytes - at))
