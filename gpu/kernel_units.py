"""The table as source text: entries for CUDA and HIP, bodies and header for mx.fast.metal_kernel.

Every kernel becomes a function `run_<name>` in the words of the prelude, the same for all targets; an entry only says
which thread of which group it is and unpacks the arguments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_build import kernel_sources
from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_types import LEAST, Argument, Kernel

Target = Literal["cuda", "hip", "metal"]
BODIES = (
    "scalar.h", "formats.h", "dot.h", "linear.h", "rows.h", "attention.h", "recurrent.h", "probe.h",
    "device_linear.h", "device_attention.h", "device_state.h",
)  # fmt: skip
CUDA_FLAGS = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
HIP_FLAGS = ("-ffp-contract=off", "-fno-gpu-flush-denormals-to-zero", "-O3", "-std=c++17")


@cache
def common(target: Target) -> str:
    """The prelude of the target and, in a namespace of their own, the bodies that all share."""
    sources = kernel_sources()
    parts = [
        sources[name].replace("#pragma once\n", "") for name in (f"prelude_{target}.h", "prelude_device.h", *BODIES)
    ]
    return "\n".join([*parts[:2], "namespace gnomon {", *parts[2:], "}  // namespace gnomon\n"])


def function(kernel: Kernel) -> str:
    """run_<name>: the call of the table on arguments in their address spaces."""
    given = [f"{qualified(a)} {a.name}" for a in kernel.arguments]
    given += [f"int {name}" for name in ("task", "part", "span")]
    passed = [kernel.values, "task"] + ["part"] * (kernel.parts > 1)
    if kernel.room:
        given.append("SHARED float* room")
        passed.append("room")
    return (
        f"FN void run_{kernel.name}({', '.join(given)} LANE_PARAM) {{\n"
        f"    (void)part, (void)span;\n    {kernel.function}({', '.join(passed)} LANE_ARG);\n}}\n"
    )


def qualified(a: Argument) -> str:
    return a.type if not a.pointer else f"{'const ' if a.role == 'in' else ''}DEVICE {a.type}*"


def call(kernel: Kernel) -> str:
    passed = [a.name for a in kernel.arguments] + ["task", "part", "span"] + ["room"] * bool(kernel.room)
    return f"run_{kernel.name}({', '.join(passed)} LANE_ARG);"


# --- CUDA and HIP ---------------------------------------------------------------------------------------------------
def entry(kernel: Kernel) -> str:
    """extern "C" gnomon_<name>(arguments in order, tasks): grid (groups, sequences), `threads` threads.

    What is marked `span` arrives as an array in device memory, of one pointer or value per sequence.
    """
    given, unpack = [], []
    for a in kernel.arguments:
        kind = f"{'const ' if a.role == 'in' else ''}{a.type}*" if a.pointer else a.type
        if a.span:
            given.append(f"{kind} const* {a.name}_of" if a.pointer else f"const {kind}* {a.name}_of")
            unpack.append(f"    {kind} {a.name} = {a.name}_of[span];\n")
        else:
            given.append(f"{kind} {a.name}")
    bounds = f"__launch_bounds__({kernel.threads})"
    return (
        f'extern "C" __global__ void {bounds} gnomon_{kernel.name}({", ".join(given)}, int tasks) {{\n'
        "    const int task = blockIdx.x, span = blockIdx.y, lane = threadIdx.x % 64, part = threadIdx.x / 64;\n"
        "    if (task >= tasks) return;  // a captured grid may be larger\n"
        f"{''.join(unpack)}{f'    ROOM({kernel.room});' if kernel.room else ''}\n"
        f"    {call(kernel)}\n}}\n"
    )


def device_unit(target: Literal["cuda", "hip"], kernels: Iterable[Kernel] = TABLE.values()) -> str:
    """One translation unit with the entries of these kernels."""
    entries = "\n".join(function(k) + entry(k) for k in kernels)
    return f"{common(target)}\nnamespace gnomon {{\n{entries}}}  // namespace gnomon\n"


# --- Metal ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class MetalKernel:
    """The arguments of mx.fast.metal_kernel. Inputs are the arrays that are read, then `sizes`: the scalars in order as
    int32, floats by their bits, padded to 8. Grid: (groups * threads, 1, 1); threadgroup: (threads, 1, 1)."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str


def metal_kernel(kernel: Kernel) -> MetalKernel:
    """Raises ValueError for a kernel that writes what it is given, which MLX has no word for."""
    if kernel.named("inout"):
        raise ValueError(f"Expected a kernel that writes new arrays but {kernel.name} writes into its inputs")
    lines = [
        "const int lane = (int)(thread_position_in_threadgroup.x % 64);",
        "const int part = (int)(thread_position_in_threadgroup.x / 64);",
        "const int task = (int)threadgroup_position_in_grid.x, span = 0;",
    ]
    for i, a in enumerate(kernel.named("scalar")):
        value = f"sizes[{i}]"
        lines.append(f"const {a.type} {a.name} = {f'float_of((u32){value})' if a.type == 'float' else value};")
    if kernel.room:
        lines.append(f"ROOM({kernel.room});")
    lines.append(f"gnomon::{call(kernel)}")
    return MetalKernel(
        f"gnomon_{kernel.name}",
        (*(a.name for a in kernel.named("in")), "sizes"),
        tuple(a.name for a in kernel.named("out")),
        "".join(f"    {line}\n" for line in lines),
        f"{common('metal')}\nnamespace gnomon {{\n{function(kernel)}}}  // namespace gnomon\n",
    )


def metal_sizes(kernel: Kernel, scalars: Mapping[str, float]) -> NDArray[np.int32]:
    """The input `sizes`: the scalars in order, floats by their bits, padded to 8"""
    named = kernel.named("scalar")
    out = np.zeros(max(LEAST, len(named)), np.int32)
    for i, a in enumerate(named):
        out[i] = np.float32(scalars[a.name]).view(np.int32) if a.type == "float" else scalars[a.name]
    return out
