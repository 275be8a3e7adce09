"""The engine "mlx-array": every op in plain MLX array operations, on Metal or on the CPU build.

The simplest shadow: it has no kernel of its own, so a mismatch lies in the order of the operations or in a primitive
of the device. This module can be imported without MLX, to say why the engine is absent.
"""

import importlib
from typing import Any

from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.extras import install
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage

NAME = "mlx-array"


def available() -> str | None:
    """Why the engine cannot run here, or None where it can."""
    try:
        importlib.import_module("mlx.core")
    except ModuleNotFoundError:
        return f"mlx is not installed: {install('mlx')}"
    except ImportError as error:  # found, but a shared library of it is missing or of another platform
        return f"mlx is installed but does not load ({error}): pip install --force-reinstall mlx"
    return None


def engine(model: Model, arm: Arm = "f32", kv: Storage = "f32") -> Engine[Any]:
    """The model on MLX array operations. Raises NotRunError where MLX is absent."""
    reason = available()
    if reason is not None:
        raise NotRunError(f"Expected MLX for engine {NAME} but {reason}")
    from gnomon.gpu.mlx_array_ops import MlxArrayOps

    return Engine(NAME, model, MlxArrayOps(arm, kv))
