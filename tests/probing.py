"""Devices with a planted deviation, and a C++ build of the host operations, for the tests of the probe."""

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device
from gnomon.reference.numpy_device import numpy_devices

F32 = NDArray[np.float32]
PROBE = '#include "prelude_host.h"\n#include "scalar.h"\n#include "probe.h"\n#include "probe_host.h"\n'
TINY = np.float32(2.0**-126)


def device(**planted: Callable[..., Any]) -> Device:
    """NumPy's, with other operations in the place of some"""
    return numpy_devices()[0].but(**planted)


def fraction(x: Any) -> Fraction:
    return Fraction(*float(x).as_integer_ratio())


def to_odd(exact: Fraction) -> float:
    """A value between two doubles becomes the one with an odd last bit: rounding that to f32 is rounding once"""
    near = float(exact)
    if fraction(near) == exact:
        return near
    below = near if fraction(near) < exact else np.nextafter(near, -np.inf)
    other = np.nextafter(below, np.inf)
    return float(below if np.float64(below).view(np.uint64) & np.uint64(1) else other)


def fused(a: F32, b: F32, c: F32) -> F32:
    """a * b + c rounded once, through rationals"""
    exact = (fraction(x) * fraction(y) + fraction(z) for x, y, z in zip(a, b, c, strict=True))
    return np.array([to_odd(value) for value in exact]).astype(np.float32)


def fused_cross(a: F32, b: F32, c: F32, d: F32) -> F32:
    """fma(a, b, -(c * d)), what a compiler makes of a * b - c * d"""
    return fused(a, b, -(c * d))


def one_ulp_up(f: Callable[..., F32], when: Callable[..., Any] = lambda *_: True) -> Callable[..., F32]:
    """f, one last place too large where `when` holds"""

    def wrong(*arrays: F32) -> F32:
        y = f(*arrays)
        return np.where(when(*arrays), np.nextafter(y, np.float32(np.inf)), y)

    return wrong


def flushed(x: F32) -> F32:
    """Subnormals become zeros of the same sign"""
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)


def flushing_inputs(f: Callable[..., F32]) -> Callable[..., F32]:
    return lambda *arrays: f(*(flushed(a) for a in arrays))


def flushing_results(f: Callable[..., F32]) -> Callable[..., F32]:
    """After rounding"""
    return lambda *arrays: flushed(f(*arrays))


def flushing_products(a: F32, b: F32) -> F32:
    """Before rounding: the exact product, which double precision holds, is compared"""
    exact = a.astype(np.float64) * b.astype(np.float64)
    return np.where(np.abs(exact) < 2.0**-126, np.float32(0), exact.astype(np.float32))


def compiler_missing() -> str:
    """Why the host operations cannot be built with and without FMA here; "" where they can"""
    if shutil.which("g++") is None:
        return "no g++ here"
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"-mfma is for x86_64, this is {platform.machine()}"
    flags = Path("/proc/cpuinfo")
    return "" if flags.exists() and " fma " in flags.read_text() else "no processor with fused multiply-add found"


def build(folder: Path, *flags: str) -> ctypes.CDLL:
    """The host operations compiled with these flags; linked without them, so that loading sets no mode"""
    kernels = str(files("gnomon.gpu") / "kernels")
    (folder / "probe.cpp").write_text(PROBE)
    compiling = ["g++", "-std=c++17", "-O3", "-fPIC", "-c", *flags, f"-I{kernels}", "probe.cpp", "-o", "probe.o"]
    linking = ["g++", "-shared", "probe.o", "-o", "probe.so"]
    for command in (compiling, linking):
        subprocess.run(command, cwd=folder, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "probe.so"))
