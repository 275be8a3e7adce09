"""The host kernels as a device: the operations of kernels/probe.h, from the library that holds the engine's kernels."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device, Operation

# How many inputs; their type and that of the result, where it is not f32
INPUTS = {
    "add": 2,
    "mul": 2,
    "div": 2,
    "mul_add": 3,
    "cross": 4,
    "kept_order": 2,
    "sqrt": 1,
    "inverse_sqrt": 1,
    "maximum": 2,
    "rint": 1,
    "to_int": 1,
    "from_int": 1,
    "from_f16": 1,
    "from_bf16": 1,
    "to_bf16": 1,
}
GIVEN = {"from_int": np.int32, "from_f16": np.uint16, "from_bf16": np.uint16}
RESULT = {"to_int": np.int32, "to_bf16": np.uint16}


@cache
def host_devices(library: ctypes.CDLL) -> tuple[Device, ...]:
    """One way: the compiled loops. The library includes kernels/probe_host.h and has the flags of the kernels."""
    return (Device("kernels", {name: operation(library, name) for name in INPUTS}, {}),)


def operation(library: ctypes.CDLL, name: str) -> Operation:
    """probe_<name> of the library on NumPy arrays [n]"""
    function = getattr(library, f"probe_{name}")
    function.argtypes, function.restype = [ctypes.c_void_p] * 5 + [ctypes.c_int32], None
    given, result = GIVEN.get(name, np.float32), RESULT.get(name, np.float32)

    def call(*arrays: NDArray[Any]) -> NDArray[Any]:
        held = [np.ascontiguousarray(a, given) for a in arrays]
        inputs = held + held[:1] * (4 - len(held))
        out = np.empty(held[0].shape, result)
        function(*(a.ctypes.data for a in inputs), out.ctypes.data, out.size)
        return out

    return call
