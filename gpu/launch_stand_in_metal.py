"""What stands in for mx.fast.metal_kernel: it takes the same arguments, refuses what MLX or Apple's compiler would
refuse or leave to chance, and runs the kernel by stand_in.py. The arrays are those of MLX on the CPU."""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_types import LEAST
from gnomon.gpu.kernel_units import metal_kernel
from gnomon.gpu.launch_stand_in import stand_in
from gnomon.gpu.stand_in import metal_inputs
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage

MATH = {"math_mode": "safe"}
NUMPY = {"float": "float32", "i32": "int32", "u32": "uint32", "u16": "uint16"}
Grid = tuple[int, int, int]


def make(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: dict[str, str] | None = None,
) -> Callable[..., list[Any]]:
    """As mx.fast.metal_kernel. Raises ValueError for text that is not that of the table, or not ASCII, or options that
    do not keep the order of operations."""
    import mlx.core as mx

    kernel = TABLE[name.removeprefix("gnomon_")]
    made = metal_kernel(kernel)
    if (*input_names, *output_names) != (*made.input_names, *made.output_names) or (source, header) != (
        made.source,
        made.header,
    ):
        raise ValueError(f"Expected the text of the table for {name} but got another")
    if not (source + header).isascii() or compile_options != MATH:
        raise ValueError(f"Expected ASCII and {MATH} for {name} but got {compile_options}")
    shared = stand_in("metal")
    arguments = metal_inputs(kernel)

    def call(
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Any],
        grid: Grid,
        threadgroup: Grid,
    ) -> list[Any]:
        """grid: threads in all. Outputs start as NaN."""
        if grid[0] % threadgroup[0] or grid[1:] != (1, 1) or threadgroup != (kernel.threads, 1, 1):
            raise ValueError(
                f"Expected whole groups of {kernel.threads} threads for {name} but got {grid}, {threadgroup}"
            )
        mx.eval(list(inputs))
        given = [np.ascontiguousarray(np.array(x)) for x in inputs]
        for a, x in zip(arguments, given, strict=True):
            if x.size < LEAST:
                raise ValueError(f"Expected {a.name} of {name} to have at least {LEAST} elements but got {x.size}")
            if x.dtype != NUMPY[a.type]:
                raise ValueError(f"Expected {a.name} of {name} to be {NUMPY[a.type]} but got {x.dtype}")
        out = []
        for a, shape, dtype in zip(kernel.named("out"), output_shapes, output_dtypes, strict=True):
            if str(dtype).removeprefix("mlx.core.") != NUMPY[a.type]:
                raise ValueError(f"Expected {a.name} of {name} to be {NUMPY[a.type]} but got {dtype}")
            words = np.full(-(-int(np.prod(shape)) * np.dtype(NUMPY[a.type]).itemsize // 4), 0x7FC0BEEF, np.uint32)
            out.append(words.view(NUMPY[a.type])[: int(np.prod(shape))].reshape(tuple(shape)))
        groups = grid[0] // threadgroup[0]
        shared.launch(kernel.name, (groups, 1), threadgroup[0], [x.ctypes.data for x in (*given, *out)])
        return [mx.array(x) for x in out]

    return call


def engine(model: Model, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> Engine[Any]:
    """Raises NotRunError where MLX is absent."""
    if importlib.util.find_spec("mlx") is None:
        raise NotRunError(
            "Expected MLX for the arrays of the Metal engine but it is not installed: pip install 'mlx[cpu]'"
        )
    from gnomon.gpu.mlx_metal_ops import MlxMetalOps

    return Engine("stand-in-metal", model, MlxMetalOps(arm, kv, scratch_fill, make))
