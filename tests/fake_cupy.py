"""A module in the place of CuPy on a CUDA device: its memory is NumPy's, its compiler keeps the text, and a function
of a loaded module runs that kernel by the stand-in. What CuPy would not take is refused."""

import ctypes
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.launch_stand_in import stand_in


class NVRTCError(RuntimeError):
    pass


class Stream:
    current: list["Stream"] = []  # noqa: RUF012

    def __init__(self, non_blocking: bool = False) -> None:
        assert non_blocking  # a capture is not possible on the default stream
        self.ptr, self.captured = id(self), None
        self.replayed = 0

    def __enter__(self) -> "Stream":
        self.current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.current.pop()

    def synchronize(self) -> None:
        assert self.captured is None

    def begin_capture(self) -> None:
        self.captured: Any = []

    def end_capture(self) -> Any:
        calls, self.captured = self.captured, None

        def launch(stream: "Stream") -> None:
            stream.replayed += 1
            for call in calls:
                call()

        return SimpleNamespace(launch=launch)


class Function:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0, stream: Any = None) -> None:
        assert isinstance(grid, tuple)
        assert isinstance(block, tuple)
        assert isinstance(stream, Stream)
        assert all(isinstance(value, np.uint64 | np.int32 | np.float32) for value in args)
        assert len(args) == len(TABLE[self.name].arguments) + 1
        held = [np.array(value) for value in args]  # by value, at the call

        def run() -> None:
            addresses = [value.ctypes.data for value in held]
            stand_in("cuda").launch(self.name, (*grid, 1)[:2], block[0], addresses)

        if stream.captured is None:
            run()
        else:
            stream.captured.append(run)


class Module:
    def load(self, binary: bytes) -> None:
        self.text = binary.decode()

    def get_function(self, name: str) -> Function:
        assert f" {name}(" in self.text
        return Function(name.removeprefix("gnomon_"))


class Nvrtc:
    """compiled: options of every unit"""

    def __init__(self) -> None:
        self.NVRTCError = NVRTCError
        self.programs: list[str] = []
        self.compiled: list[tuple[str, ...]] = []

    def getVersion(self) -> tuple[int, int]:  # noqa: N802
        return (12, 9)

    def createProgram(self, text: str, name: str, headers: Any, names: Any) -> int:  # noqa: N802
        text.encode("ascii")
        self.programs.append(text)
        return len(self.programs)

    def compileProgram(self, program: int, options: tuple[str, ...]) -> None:  # noqa: N802
        self.compiled.append(options)
        if "extern" not in self.programs[program - 1]:
            raise NVRTCError("NVRTC_ERROR_COMPILATION")

    def getCUBIN(self, program: int) -> bytes:  # noqa: N802
        return self.programs[program - 1].encode()

    def getProgramLog(self, program: int) -> str:  # noqa: N802
        return "unit.cu(1): error: nonsense"

    def destroyProgram(self, program: int) -> None:  # noqa: N802
        pass


class Runtime:
    is_hip = False
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3  # noqa: N815

    def getDeviceCount(self) -> int:  # noqa: N802
        return 1

    def getDeviceProperties(self, device: int) -> dict[str, bytes]:  # noqa: N802
        return {"name": b"a fake device"}

    def driverGetVersion(self) -> int:  # noqa: N802
        return 12090

    runtimeGetVersion = driverGetVersion  # noqa: N815

    def memsetAsync(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:  # noqa: N802
        ctypes.memset(pointer, byte, nbytes)

    def memcpyAsync(self, to: int, source: int, nbytes: int, kind: int, stream: int) -> None:  # noqa: N802
        ctypes.memmove(to, source, nbytes)


def alloc(nbytes: int) -> Any:
    assert Stream.current  # else the memory belongs to another stream
    raw = np.full(nbytes + 1, 0xFF, np.uint8)
    return SimpleNamespace(ptr=raw.ctypes.data, raw=raw)


def modules() -> dict[str, ModuleType]:
    """What stands for cupy and cupy.cuda in sys.modules"""
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    device = lambda: SimpleNamespace(id=0, compute_capability="90")  # noqa: E731
    vars(cuda).update(
        Stream=Stream, Module=Module, alloc=alloc, nvrtc=Nvrtc(), runtime=Runtime(), Device=device, Event=None
    )
    vars(cupy).update(cuda=cuda, __version__="0")
    return {"cupy": cupy, "cupy.cuda": cuda}
