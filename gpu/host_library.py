"""The compiled kernels as Python calls them: the op table of the plan, its instructions, a step, a team of threads."""

import ctypes
import os
import re
from ctypes import POINTER, Structure, c_float, c_int32, c_size_t, c_void_p
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_build import Built, build, kernel_sources
from gnomon.gpu.host_memory import address
from gnomon.reference.errors import UsageError
from gnomon.reference.row_counts import chooses_by_rows

WEIGHT_FORMATS = ("F32", "BF16", "F16", "Q8", "Q4", "Q4Half", "Q4One", "Q4M", "Q5", "Q5M", "Q6")
FORMATS = (*WEIGHT_FORMATS, "I8")
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
OPS = (
    "add", "mul", "swiglu", "delta_decay", "settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus", "log1p01",
    "round_bf16", "slice", "gather", "quant", "route", "layer_norm", "row_sum", "rms_norm", "gated_norm", "l2_norm",
    "rope", "embed", "embed_positions", "linear", "exp_scores",
    "kv_append", "scores", "mix", "attention_scores", "attention_mix", "attention_merge",  # these find keys and values
    "causal_conv", "delta_rule",
)  # fmt: skip


class Instruction(Structure):
    """One op of a plan; the fields stand in kernels/host_main.cpp"""

    _fields_ = (
        ("op", c_int32), ("format", c_int32), ("layer", c_int32), ("selected", c_int32), ("last", c_int32),
        ("buffer", c_int32 * 6), ("n", c_int32 * 6), ("f", c_float * 2), ("weight", c_void_p * 3),
    )  # fmt: skip


class Span(Structure):
    _fields_ = (("start", c_int32), ("stop", c_int32), ("length", c_int32))


class Carried(Structure):
    """What a layer carries of one sequence: keys and values, or the state of a delta layer before and after."""

    _fields_ = (
        ("k", c_void_p), ("v", c_void_p), ("capacity", c_int32),
        ("conv", c_void_p), ("delta", c_void_p), ("next_conv", c_void_p), ("next_delta", c_void_p),
    )  # fmt: skip


class Step(Structure):
    _fields_ = (
        ("rows", c_int32), ("selected", c_int32), ("spans", c_int32), ("layers", c_int32), ("whole", c_int32),
        ("chunks", c_int32), ("small", c_int32), ("ids", c_void_p), ("select", c_void_p), ("positions", c_void_p),
        ("cos", c_void_p), ("sin", c_void_p), ("span", POINTER(Span)), ("carried", POINTER(Carried)),
        ("buffers", POINTER(c_void_p)), ("part", c_void_p), ("scratch_floats", c_size_t),
    )  # fmt: skip


def main_source(sources: dict[str, str]) -> str:
    """host_main.cpp behind the names of ops and formats, whose only list is above."""
    ops = ", ".join(f"OP_{name.upper()}" for name in OPS)
    formats = ", ".join(f"FORMAT_{name}" for name in FORMATS)
    each = " ".join(f"_({name})" for name in WEIGHT_FORMATS)
    return f"enum {{ {ops} }};\nenum {{ {formats} }};\n#define WEIGHT_FORMATS(_) {each}\n{sources['host_main.cpp']}"


@cache
def library(extra: tuple[str, ...] = (), cxx: str | None = None) -> Built:
    """The kernels of this installation, compiled. Raises NotRunError where that cannot be."""
    sources = kernel_sources()
    main = main_source(sources)
    return typed(build(main, included(main, sources), extra, cxx))


def included(main: str, sources: dict[str, str]) -> dict[str, str]:
    """The headers that a unit reads, and those that they read: what it is made of, and nothing else."""
    found: dict[str, str] = {}
    wanted = INCLUDE.findall(main)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = sources[name]
            wanted += INCLUDE.findall(sources[name])
    return dict(sorted(found.items()))


def typed(built: Built) -> Built:
    lib = built.library
    lib.team_new.argtypes, lib.team_new.restype = (c_int32,), c_void_p
    lib.team_free.argtypes, lib.team_free.restype = (c_void_p,), None
    lib.plan_run.argtypes, lib.plan_run.restype = (c_void_p, c_void_p, c_int32, POINTER(Step)), None
    lib.scratch_floats.argtypes, lib.scratch_floats.restype = (c_int32, c_int32), c_size_t
    lib.part_floats_of.argtypes, lib.part_floats_of.restype = (c_int32,), c_size_t
    lib.all_finite.argtypes, lib.all_finite.restype = (c_void_p, c_void_p, ctypes.c_int64), c_int32
    lib.stream_read.argtypes, lib.stream_read.restype = (c_void_p, c_void_p, ctypes.c_int64), ctypes.c_double
    return built


SMALL = chooses_by_rows(
    "gpu.host_library.SMALL", 1 << 24, "products"
)  # multiply-adds of a step below which one thread is as fast


def asked_threads() -> int | None:
    """GNOMON_THREADS, if it is set. Raises UsageError unless it is a number from 1 to 1024."""
    text = os.environ.get("GNOMON_THREADS", "")
    if text and not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024):
        raise UsageError(f"Expected GNOMON_THREADS to be a number from 1 to 1024 but got {text[:40]!r}")
    return int(text) if text else None


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Team:
    """Threads that run plans together.

    threads: how many, else GNOMON_THREADS, else one per core; where it is given, even the smallest plan is shared out
    """

    def __init__(self, built: Built, threads: int | None = None) -> None:
        self.built = built
        self.threads = threads or asked_threads() or cores()
        self.least = 0 if threads else SMALL
        self.handle = c_void_p(built.library.team_new(self.threads))

    def run(self, plan: "ctypes.Array[Instruction]", step: Step, start: int = 0, stop: int | None = None) -> None:
        """Run instructions start .. stop; the interpreter lock is free meanwhile."""
        first = ctypes.byref(plan, start * ctypes.sizeof(Instruction))
        count = (len(plan) if stop is None else stop) - start
        self.built.library.plan_run(self.handle, first, count, ctypes.byref(step))

    def finite(self, x: NDArray[np.float32]) -> bool:
        """Whether no value of an array that is contiguous and may be written is NaN or infinite."""
        return bool(self.built.library.all_finite(self.handle, address(x), x.size))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.built.library.team_free(self.handle)
