"""The engine "cupy": the kernels of gpu/kernels on a CUDA or ROCm device.

This module can be imported without CuPy or a GPU, to say why the engine is absent.
"""

import importlib
import warnings
from functools import cache
from typing import Any

from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.extras import install
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage

NAME = "cupy"


@cache
def available() -> str | None:
    """Why the engine cannot run here, or None where it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that this engine does not need
            cupy = importlib.import_module("cupy")
    except ModuleNotFoundError:
        return f"cupy is not installed: {install('cuda')}, or the extra rocm"
    except Exception as error:  # found, but a library of it is missing
        return f"cupy is installed but does not load ({first_line(error)})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy has an error class of its own per platform
        return f"no GPU is found: {first_line(error)}"
    if not count:
        return "no GPU is found"
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return f"no compiler for kernels is found ({first_line(error)}): pip install nvidia-cuda-nvrtc-cu12"
    return None


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def engine(model: Model, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> Engine[Any]:
    """The model on the kernels of a GPU. scratch_fill: what memory holds before it is written, which must never matter

    Raises NotRunError where CuPy or a device is absent.
    """
    reason = available()
    if reason is not None:
        raise NotRunError(f"Expected a GPU for engine {NAME} but {reason}")
    from gnomon.gpu.cupy_driver import CupyDriver
    from gnomon.gpu.launch_engine import LaunchEngine
    from gnomon.gpu.launch_pointers import PointerOps

    return LaunchEngine(NAME, model, PointerOps(CupyDriver(), arm, kv, scratch_fill))
