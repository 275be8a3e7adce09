"""The generated units run on this CPU: CUDA, HIP and Metal through a header that stands in for their words.

What is compiled is the text that a GPU gets. Clang compiles it, for its address spaces; a small runner (kernels/
stand_in_run.cpp) goes through the grid in shuffled order and honours barriers. Slow, and only for checks.
"""

import ctypes
import hashlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gnomon.gpu.host_build import cache_folder, compiler, kernel_sources, run
from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_types import LEAST, Argument, Kernel
from gnomon.gpu.kernel_units import Target, common, device_unit, function, metal_kernel, metal_sizes
from gnomon.reference.errors import NotRunError

Array = NDArray[Any]
STANDARD = {"cuda": "-std=c++17", "hip": "-std=c++17", "metal": "-std=c++14"}
FLAGS = (
    "-O1", "-fPIC", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function",
    "-Wno-unused-variable",  # of LANES, where a thread is one lane
)  # fmt: skip


def clang() -> tuple[str, ...]:
    """The Clang of the ziglang wheel. Raises NotRunError where that is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        raise NotRunError("Expected the ziglang wheel for its Clang but it is not installed; pip install ziglang")
    return (sys.executable, "-m", "ziglang", "clang")


# --- source text ----------------------------------------------------------------------------------------------------
def unit(target: Target, kernels: Sequence[Kernel]) -> str:
    """The text of the target between the stand-in header and, per kernel, a caller that takes pointers to the arguments
    as a driver does."""
    made = device_unit(target, kernels) if target != "metal" else metal_unit(kernels)
    callers = "\n".join(metal_caller(k) if target == "metal" else device_caller(k) for k in kernels)
    return f'#define STAND_IN_{target.upper()}\n#include "stand_in.h"\n{made}\n{callers}'


def device_caller(kernel: Kernel) -> str:
    given = []
    for i, a in enumerate(kernel.arguments):
        kind = f"{'const ' if a.role == 'in' else ''}{a.type}*" if a.pointer else a.type
        if a.span:
            kind = f"{kind} const*" if a.pointer else f"const {kind}*"
        given.append(f"*({kind}*)a[{i}]")
    given.append(f"*(int*)a[{len(given)}]")
    return f'extern "C" void stand_in_{kernel.name}(void** a) {{ gnomon::gnomon_{kernel.name}({", ".join(given)}); }}'


def metal_unit(kernels: Sequence[Kernel]) -> str:
    """As MLX puts it together: header, then a signature around the body."""
    functions = "\n".join(map(function, kernels))
    return f"{common('metal')}\nnamespace gnomon {{\n{functions}}}\n" + "\n".join(map(metal_function, kernels))


def metal_function(kernel: Kernel) -> str:
    given = [
        *(f"const device {a.type}* {a.name}" for a in metal_inputs(kernel)),
        *(f"device {a.type}* {a.name}" for a in kernel.named("out")),
        *(f"uint3 {name}" for name in ("thread_position_in_threadgroup", "threadgroup_position_in_grid")),
    ]
    return f"void custom_kernel_{kernel.name}({', '.join(given)}) {{\n{metal_kernel(kernel).source}}}\n"


def metal_inputs(kernel: Kernel) -> list[Argument]:
    return [*kernel.named("in"), Argument("sizes", "i32", "in")]


def metal_caller(kernel: Kernel) -> str:
    arrays = [f"const device {a.type}*" for a in metal_inputs(kernel)]
    arrays += [f"device {a.type}*" for a in kernel.named("out")]
    given = ", ".join([*(f"({kind})a[{i}]" for i, kind in enumerate(arrays)), "stand_in_thread", "stand_in_group"])
    return f'extern "C" void stand_in_{kernel.name}(void** a) {{ custom_kernel_{kernel.name}({given}); }}'


# --- compiled -------------------------------------------------------------------------------------------------------
def compile_unit(text: str, target: Target, extra: Sequence[str] = ()) -> Path:
    """The library of a unit, from the cache or made now. Raises NotRunError where it does not compile."""
    sources, clangs, host = kernel_sources(), clang(), compiler()
    flags = (STANDARD[target], *FLAGS, *extra)
    parts = [
        text,
        sources["stand_in.h"],
        sources["stand_in_run.cpp"],
        *flags,
        clang_version(),
        host.version,
        host.target,
    ]
    path = cache_folder() / f"stand-in-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.so"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        at = Path(folder)
        for name, source in {"unit.cpp": text, **{n: sources[n] for n in ("stand_in.h", "stand_in_run.cpp")}}.items():
            (at / name).write_text(source, "ascii")
        run((*clangs, *flags, "-c", str(at / "unit.cpp"), "-o", str(at / "unit.o")))
        made, runner = at / "made.so", ("-std=c++17", "-O2", "-fPIC", "-shared", "-Wno-deprecated-declarations")
        run((*host.command, *runner, str(at / "stand_in_run.cpp"), str(at / "unit.o"), "-o", str(made)))
        made.replace(path)
    return path


@cache
def clang_version() -> str:
    return run((*clang(), "--version")).splitlines()[0]


class StandIn:
    """The kernels of one target on this CPU, and what a driver does with them: `launch`.

    seed: of the order of groups and threads; extra, edit: flags, and what changes the text, for planted faults
    """

    def __init__(
        self,
        target: Target,
        kernels: Sequence[Kernel] | None = None,
        seed: int = 0,
        extra: Sequence[str] = (),
        edit: Callable[[str], str] = str,
    ) -> None:
        self.target = target
        self.seed = seed
        chosen = list(TABLE.values() if kernels is None else kernels)
        if target == "metal":
            chosen = [k for k in chosen if not k.named("inout")]
        self.library = ctypes.CDLL(str(compile_unit(edit(unit(target, chosen)), target, extra)))
        self.library.stand_in_launch.argtypes = [c_void_p, POINTER(c_void_p), c_int, c_int, c_int, c_uint32]

    def launch(self, name: str, grid: tuple[int, int], threads: int, arguments: Sequence[int]) -> None:
        """grid: groups, sequences; arguments: addresses as `stand_in_<name>` reads them.

        Raises RuntimeError where threads of a group disagree about a barrier.
        """
        made = (c_void_p * len(arguments))(*arguments)
        entry = ctypes.cast(getattr(self.library, f"stand_in_{name}"), c_void_p)
        self.seed += 1
        if self.library.stand_in_launch(entry, made, *grid, threads, self.seed):
            raise RuntimeError(f"Expected every thread of a group to reach the barriers of {name} but some had ended")

    def run(self, name: str, arrays: dict[str, Array], tasks: int, sequences: int = 1, **scalars: float) -> None:
        """Launch on NumPy arrays by argument name. CUDA and HIP: one group more than there are tasks, which must change
        nothing; of a span argument, an array of addresses or values per sequence. Metal: scalars by themselves."""
        kernel = TABLE[name]
        if self.target == "metal":
            self._run_metal(kernel, arrays, tasks, scalars)
            return
        keep: list[Any] = []
        for a in kernel.arguments:
            if a.pointer or a.span:
                keep.append(c_void_p(arrays[a.name].ctypes.data))
            else:
                keep.append((ctypes.c_float if a.type == "float" else c_int)(scalars[a.name]))  # type: ignore[arg-type]
        keep.append(c_int(tasks))
        self.launch(name, (tasks + 1, sequences), kernel.threads, [ctypes.addressof(value) for value in keep])

    def _run_metal(self, kernel: Kernel, arrays: dict[str, Array], tasks: int, scalars: dict[str, float]) -> None:
        sizes = metal_sizes(kernel, scalars)
        given = [*(arrays[a.name] for a in kernel.named("in")), sizes]
        for a, array in zip(metal_inputs(kernel), given, strict=True):
            if array.size < LEAST:
                raise ValueError(
                    f"Expected {a.name} of {kernel.name} to have at least {LEAST} elements but got {array.size}"
                )
        outputs = [arrays[a.name] for a in kernel.named("out")]
        self.launch(kernel.name, (tasks, 1), kernel.threads, [array.ctypes.data for array in (*given, *outputs)])
