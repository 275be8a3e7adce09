"""CUDA and ROCm by way of CuPy, of which only memory, streams and modules are used.

CuPy appends a flush-to-zero flag after the options of a kernel, on either platform, and the last one wins. So the
kernels are compiled here, by NVRTC or hiprtc directly, and the binary is loaded.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import cupy
from cupy.cuda import nvrtc, runtime

from gnomon.gpu.host_build import cache_folder
from gnomon.gpu.kernel_types import Kernel
from gnomon.gpu.kernel_units import CUDA_FLAGS, HIP_FLAGS, common, device_unit
from gnomon.gpu.launch import Array, Launch, Memory
from gnomon.reference.errors import NotRunError

SMALL = 1 << 16  # bytes: a copy of so many from the host is known to have left it


class CupyDriver:
    """The current device. Everything happens on one stream of its own."""

    def __init__(self) -> None:
        self.target: Literal["cuda", "hip"] = "hip" if runtime.is_hip else "cuda"
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.modules: list[Any] = []
        self.held: list[Array] = []  # what copies under way read from

    def describe(self) -> dict[str, str]:
        device = cupy.cuda.Device()
        properties = runtime.getDeviceProperties(device.id)
        return {
            "device": properties["name"].decode(), "architecture": architecture(), "cupy": cupy.__version__,
            "driver": str(runtime.driverGetVersion()), "runtime": str(runtime.runtimeGetVersion()),
            "compiler": compiler(), "flags": " ".join(self.flags()),
            "kernels": hashlib.sha256(common(self.target).encode()).hexdigest(),
            "submission": "launch by launch" if self.target == "hip" else "one graph per token",
        }  # fmt: skip

    # --- kernels ----------------------------------------------------------------------------------------------------
    def flags(self) -> tuple[str, ...]:
        """Of the compiler; hiprtc compiles for the device that is there."""
        return HIP_FLAGS if self.target == "hip" else (*CUDA_FLAGS, f"--gpu-architecture={architecture()}")

    def compile(self, kernel: Kernel) -> Any:
        """The binary is kept on disk, named after all that it is made of."""
        text, flags = device_unit(self.target, [kernel]), self.flags()
        parts = "\0".join((text, *flags, compiler(), architecture()))
        path = cache_folder() / f"{self.target}-{hashlib.sha256(parts.encode()).hexdigest()[:32]}.bin"
        if not path.exists():
            aside = path.with_suffix(f".{id(self)}")
            aside.write_bytes(binary(text, flags, kernel.name, self.target))
            aside.replace(path)
        module = cupy.cuda.Module()
        module.load(path.read_bytes())
        self.modules.append(module)
        return module.get_function(f"gnomon_{kernel.name}")

    def launch(self, one: Launch) -> None:
        one.function(one.grid, (one.threads,), tuple(one.arguments), stream=self.stream)

    def capture(self, launches: Sequence[Launch]) -> Callable[[], None] | None:
        """A CUDA graph. CuPy tests none of its graphs on ROCm, so there is none there."""
        if self.target == "hip":
            return None
        with self.stream:
            self.stream.begin_capture()
            try:
                for one in launches:
                    self.launch(one)
            finally:
                graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)

    # --- memory -----------------------------------------------------------------------------------------------------
    def cache_bytes(self) -> int:
        return int(runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"])

    def room(self, nbytes: int) -> Memory:
        with self.stream:  # the pool gives memory back in the order of this stream
            held = cupy.cuda.alloc(nbytes)
        return Memory(held.ptr, nbytes, held)

    def fill(self, memory: Memory, byte: int) -> None:
        if memory.nbytes:
            runtime.memsetAsync(memory.pointer, byte, memory.nbytes, self.stream.ptr)

    def upload(self, memory: Memory, array: Array) -> None:
        self._copy(memory.pointer, array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice)
        self.held.append(array)
        if array.nbytes > SMALL:
            self._wait()

    def download(self, memory: Memory, array: Array) -> None:
        self._copy(array.ctypes.data, memory.pointer, array.nbytes, runtime.memcpyDeviceToHost)
        self._wait()

    def copy(self, to: Memory, source: Memory) -> None:
        self._copy(to.pointer, source.pointer, source.nbytes, runtime.memcpyDeviceToDevice)

    def _copy(self, to: int, source: int, nbytes: int, kind: int) -> None:
        if nbytes:
            runtime.memcpyAsync(to, source, nbytes, kind, self.stream.ptr)

    def _wait(self) -> None:
        self.stream.synchronize()
        self.held.clear()


def architecture() -> str:
    """Of the current device, as its compiler names it"""
    device = cupy.cuda.Device()
    if runtime.is_hip:
        name: bytes = runtime.getDeviceProperties(device.id)["gcnArchName"]
        return name.decode()
    return f"sm_{device.compute_capability}"


def compiler() -> str:
    return f"{'hiprtc' if runtime.is_hip else 'NVRTC'} {'.'.join(map(str, nvrtc.getVersion()))}"


def binary(text: str, flags: Sequence[str], name: str, target: str) -> bytes:
    """The compiled unit. Raises NotRunError where the compiler refuses it."""
    program = nvrtc.createProgram(text, f"{name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, tuple(flags))
        made: bytes = nvrtc.getPTX(program) if target == "hip" else nvrtc.getCUBIN(program)
        return made
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip().splitlines() or [str(error)]
        raise NotRunError(f"Expected {compiler()} to compile kernel {name} but it failed: {log[0]}") from error
    finally:
        nvrtc.destroyProgram(program)
