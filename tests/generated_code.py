"""What compilers make of the kernels for GPUs that are not here: PTX by NVRTC, AMD assembly by the Clang of ziglang."""

import ctypes
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gnomon.gpu.kernel_units import HIP_FLAGS
from gnomon.gpu.stand_in import clang

# Words that hiprtc brings along, in the terms of Clang
HIP_WORDS = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
typedef unsigned long size_t;
struct Index { unsigned x, y; };
static inline __device__ __attribute__((always_inline)) Index thread_index() {
    return {__builtin_amdgcn_workitem_id_x(), 0};
}
static inline __device__ __attribute__((always_inline)) Index block_index() {
    return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y()};
}
#define threadIdx thread_index()
#define blockIdx block_index()
static inline __device__ __attribute__((always_inline)) void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"""
# In their place, operations on bits: what is left must have no fused multiply-add at all.
NO_DIVISION = """
#define F_DIV(a, b) float_of(bits_of(a) ^ bits_of(b))
#define F_SQRT(a) float_of(bits_of(a) ^ 1u)
"""
# A float multiply-add in one instruction, of any width and encoding; integer v_mad_u64_u32 is none
AMD_FUSED = re.compile(
    r"\bv_\w*(?:fma|fmac|fmaak|fmamk|mad|mac|madak|madmk|dot\d?|mfma|wmma)(?:_\w*)?_[bf]?f(?:16|32|64)\w*"
)


@cache
def nvrtc() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    assert found is not None, "Expected nvidia-cuda-nvrtc-cu12 but it is not installed; pip install '.[dev]'"
    assert found.submodule_search_locations is not None
    folder = Path(next(iter(found.submodule_search_locations))) / "lib"
    library = ctypes.CDLL(str(next(path for path in folder.glob("libnvrtc.so.*"))))
    for name in (
        "nvrtcCompileProgram",
        "nvrtcGetPTXSize",
        "nvrtcGetPTX",
        "nvrtcGetProgramLogSize",
        "nvrtcGetProgramLog",
    ):
        getattr(library, name).argtypes = [ctypes.c_void_p] + [ctypes.c_void_p] * (2 if "Compile" in name else 1)
    library.nvrtcCompileProgram.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    return library


def ptx(source: str, flags: Sequence[str]) -> str:
    """PTX for compute capability 8.0. Raises AssertionError with the compiler's words where it refuses."""
    lib, program = nvrtc(), ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), source.encode("ascii"), b"kernels.cu", 0, None, None) == 0
    options = [*(flag.encode() for flag in flags), b"--gpu-architecture=compute_80"]
    status = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    text = _read(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog, program)
    assert status == 0, text
    made = _read(lib.nvrtcGetPTXSize, lib.nvrtcGetPTX, program)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return made


def _read(size: "ctypes._FuncPointer", get: "ctypes._FuncPointer", program: ctypes.c_void_p) -> str:
    length = ctypes.c_size_t()
    size(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    get(program, buffer)
    return buffer.value.decode()


def amd_assembly(source: str, target: str, flags: Sequence[str] = HIP_FLAGS) -> str:
    """Assembly for an AMD GPU such as gfx1100"""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "unit.hip"
        unit.write_text(HIP_WORDS + source, "ascii")
        command = [*clang(), "-x", "hip", "--cuda-device-only", f"--offload-arch={target}", "-nogpulib", "-nogpuinc"]
        done = subprocess.run(
            [*command, *flags, "-S", str(unit), "-o", "-"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:2000]
        return done.stdout
