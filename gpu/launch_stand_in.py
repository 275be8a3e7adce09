"""Engines on a GPU that is not there: the dispatch code of CUDA and ROCm on NumPy memory, its kernels run by
stand_in.py. Slow, and only for checks.

    gnomon gate shadow --engine gnomon.gpu.launch_stand_in:cuda
"""

import ctypes
from collections.abc import Callable, Sequence
from fcntl import LOCK_EX, flock
from functools import cache
from typing import Any, Literal

import numpy as np

from gnomon.gpu.host_build import cache_folder
from gnomon.gpu.kernel_types import Kernel
from gnomon.gpu.kernel_units import Target
from gnomon.gpu.launch import Array, Launch, Memory
from gnomon.gpu.launch_engine import LaunchEngine
from gnomon.gpu.launch_pointers import PointerOps
from gnomon.gpu.stand_in import StandIn
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage


@cache
def stand_in(target: Target) -> StandIn:
    """The whole table of a target, compiled once, whichever process comes first."""
    with (cache_folder() / f"stand-in-{target}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        return StandIn(target)


class StandInDriver:
    """graphs: whether `capture` gives something, as CUDA does. Room starts as NaN, whatever was asked for before."""

    def __init__(self, target: Literal["cuda", "hip"], graphs: bool = True) -> None:
        self.target = target
        self.graphs = graphs
        self.submissions = 0
        self.stand_in = stand_in(target)

    def describe(self) -> dict[str, str]:
        return {"device": f"stand-in for {self.target} on the CPU"}

    def compile(self, kernel: Kernel) -> str:
        return kernel.name

    def launch(self, one: Launch) -> None:
        """As a driver does: arguments by value, and a grid of groups and sequences."""
        held = [np.array(value) for value in one.arguments]
        self.stand_in.launch(one.function, one.grid, one.threads, [value.ctypes.data for value in held])

    def capture(self, launches: Sequence[Launch]) -> Callable[[], None] | None:
        if not self.graphs:
            return None
        frozen = list(launches)

        def replay() -> None:
            self.submissions += 1
            for one in frozen:
                self.launch(one)

        return replay

    def cache_bytes(self) -> int:
        return 1 << 16

    def room(self, nbytes: int) -> Memory:
        raw = np.full(nbytes + 64, 0xFF, np.uint8)
        return Memory(raw.ctypes.data + -raw.ctypes.data % 64, nbytes, raw)

    def fill(self, memory: Memory, byte: int) -> None:
        ctypes.memset(memory.pointer, byte, memory.nbytes)

    def upload(self, memory: Memory, array: Array) -> None:
        refuse_overrun(memory, array.nbytes)
        ctypes.memmove(memory.pointer, array.ctypes.data, array.nbytes)

    def download(self, memory: Memory, array: Array) -> None:
        refuse_overrun(memory, array.nbytes)
        ctypes.memmove(array.ctypes.data, memory.pointer, array.nbytes)

    def copy(self, to: Memory, source: Memory) -> None:
        refuse_overrun(to, source.nbytes)
        ctypes.memmove(to.pointer, source.pointer, source.nbytes)


def refuse_overrun(memory: Memory, nbytes: int) -> None:
    if nbytes > memory.nbytes:
        raise ValueError(f"Expected a copy of at most {memory.nbytes} bytes but got {nbytes}")


def cuda(model: Model, arm: Arm = "f32", kv: Storage = "f32") -> LaunchEngine:
    """As engine "cupy" on a CUDA device, one submission per token. Raises NotRunError without the ziglang wheel."""
    return LaunchEngine("stand-in-cuda", model, PointerOps(StandInDriver("cuda"), arm, kv))


def hip(model: Model, arm: Arm = "f32", kv: Storage = "f32") -> LaunchEngine:
    """As engine "cupy" on a ROCm device, launch by launch. Raises NotRunError without the ziglang wheel."""
    return LaunchEngine("stand-in-hip", model, PointerOps(StandInDriver("hip", graphs=False), arm, kv))


def metal(model: Model, arm: Arm = "f32", kv: Storage = "f32") -> Any:
    """As engine "mlx-metal". Raises NotRunError without the ziglang wheel or MLX."""
    from gnomon.gpu.launch_stand_in_metal import engine

    return engine(model, arm, kv)
