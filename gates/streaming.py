"""How fast the memory under an engine streams, and what a step of it must read: the two sides of gate `roofline`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.gates import cache
from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_memory import aligned
from gnomon.gpu.launch_pointers import PointerOps
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError


@dataclass(frozen=True)
class Streaming:
    """work: one pass; nbytes: that it reads and writes"""

    work: Callable[[], object]
    nbytes: int


def weight_bytes(engine: Engine[Any]) -> int:
    """Bytes of matrices that the engine holds for a step of one token to read"""
    linears = [name for name, weight in engine.model.weights.items() if weight.role == "linear"]
    return sum(int(engine.weights[name].nbytes) for name in linears)


def last_level_cache(engine: Engine[Any]) -> int:
    """Bytes, of the device that the engine runs on"""
    if isinstance(engine.ops, PointerOps):
        return engine.ops.driver.cache_bytes()
    return cache.last_level_cache()


def streaming(engine: Engine[Any], nbytes: int) -> Streaming:
    """A pass over so many bytes. Raises NotRunError for an engine whose memory has no streaming kernel."""
    ops = engine.ops
    if isinstance(ops, HostArrayOps):
        team = ops.team
        buffer = aligned((nbytes // 4,), np.float32)
        buffer.fill(1.0)
        return Streaming(lambda: team.built.library.stream_read(team.handle, buffer.ctypes.data, buffer.size), nbytes)
    if isinstance(ops, PointerOps):
        driver = ops.driver
        one, other = driver.room(nbytes), driver.room(nbytes)
        word = np.zeros(1, np.uint32)

        def copy() -> None:
            for _ in range(8):
                driver.copy(other, one)
            driver.download(other.part(0, 4), word)

        return Streaming(copy, 16 * nbytes)
    raise NotRunError(f"Expected a streaming kernel for engine {engine.name} but it has none; try host or cupy")


@dataclass(frozen=True)
class Meter:
    """What gate `roofline` measures with. clock: seconds; the others: see the functions of these names"""

    clock: Callable[[], float] = time.perf_counter
    weight_bytes: Callable[[Engine[Any]], int] = weight_bytes
    last_level_cache: Callable[[Engine[Any]], int] = last_level_cache
    streaming: Callable[[Engine[Any], int], Streaming] = streaming
