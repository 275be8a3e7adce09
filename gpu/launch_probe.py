"""The kernels of a GPU as a device: the operations of kernels/probe.h, one launch each."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_device import GIVEN, INPUTS, RESULT
from gnomon.reference.device import Device, Operation

if TYPE_CHECKING:
    from gnomon.gpu.launch_table import LaunchTable


def kernel_device(ops: "LaunchTable") -> Device:
    """One way: the engine's own kernels."""
    return Device("kernels", {name: operation(ops, name) for name in INPUTS}, {})


def operation(ops: "LaunchTable", name: str) -> Operation:
    """probe_<name> on NumPy arrays [n]"""
    given, result = GIVEN.get(name, np.float32), RESULT.get(name, np.float32)

    def call(*arrays: NDArray[Any]) -> NDArray[Any]:
        held = [ops.upload(np.ascontiguousarray(a, given)) for a in arrays]
        inputs = held + held[:1] * (4 - len(held))
        named = dict(zip(("first", "second", "third", "fourth"), inputs, strict=True))
        shape = np.shape(arrays[0])
        (out,) = ops.call(f"probe_{name}", named, {"out": shape}, {"n": int(np.prod(shape))})
        return ops.fetch(out, result)

    return call
