"""The engine "mlx-metal": the kernels of gpu/kernels on Metal, by way of mx.fast.metal_kernel.

This module can be imported without MLX, and without Metal, to say why the engine is absent.
"""

from typing import Any

from gnomon.gpu import mlx_array
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage

NAME = "mlx-metal"


def available() -> str | None:
    """Why the engine cannot run here, or None where it can."""
    reason = mlx_array.available()
    if reason is not None:
        return reason
    import mlx.core as mx

    return None if mx.metal.is_available() else "no Metal device is found here"


def engine(model: Model, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> Engine[Any]:
    """The model on Metal kernels. Raises NotRunError where MLX or Metal is absent."""
    reason = available()
    if reason is not None:
        raise NotRunError(f"Expected Metal for engine {NAME} but {reason}")
    from gnomon.gpu.mlx_metal_ops import MlxMetalOps

    return Engine(NAME, model, MlxMetalOps(arm, kv, scratch_fill))
