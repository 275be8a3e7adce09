"""Arrays of other frameworks, handed to a kernel and brought back to NumPy. None is imported before it is asked for."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import NotRunError, UsageError

Array = NDArray[Any]


@dataclass(frozen=True)
class Border:
    """give: NumPy -> the framework's own array, which may be written to; take: back, as a copy in C order.

    A uint16 array holds bf16, and becomes an array of bf16 in a framework that has it.
    """

    framework: str
    give: Callable[[Array], Any]
    take: Callable[[Any], Array]


def border(framework: str) -> Border:
    """Raises UsageError for a framework that is not known, NotRunError where it is not installed."""
    if framework not in FRAMEWORKS:
        raise UsageError(f"Expected a framework among {', '.join(FRAMEWORKS)} but got {framework!r}")
    module, make = FRAMEWORKS[framework]
    try:
        return make(importlib.import_module(module))
    except ImportError as error:
        raise NotRunError(
            f"Expected {framework} for --framework {framework} but importing it failed: {error}"
        ) from error


def _numpy(np_: Any) -> Border:
    return Border("numpy", lambda x: x, _array)


def _mlx(mx: Any) -> Border:
    def give(x: Array) -> Any:
        return mx.array(x).view(mx.bfloat16) if x.dtype == np.uint16 else mx.array(x)

    return Border("mlx", give, lambda y: np.array(y) if isinstance(y, mx.array) else _array(y))


def _cupy(cp: Any) -> Border:
    return Border("cupy", cp.asarray, lambda y: np.array(cp.asnumpy(y)) if isinstance(y, cp.ndarray) else _array(y))


def _torch(torch: Any) -> Border:
    def take(y: Any) -> Array:
        return np.array(np.from_dlpack(y.detach().cpu().contiguous())) if isinstance(y, torch.Tensor) else _array(y)

    def give(x: Array) -> Any:
        if x.dtype == np.uint16:
            return torch.from_dlpack(x.view(np.int16)).view(torch.bfloat16)
        return torch.from_dlpack(x)

    return Border("torch", give, take)


def _array(y: Any) -> Array:
    """What NumPy can take over: its own arrays, scalars, and whatever exports DLPack on the host."""
    if not isinstance(y, np.ndarray | np.generic) and hasattr(y, "__dlpack__"):
        return np.array(np.from_dlpack(y))
    if not isinstance(y, np.ndarray | np.generic):
        raise TypeError("it is no array")
    return np.array(y)


FRAMEWORKS: dict[str, tuple[str, Callable[[Any], Border]]] = {
    "numpy": ("numpy", _numpy),
    "mlx": ("mlx.core", _mlx),
    "cupy": ("cupy", _cupy),
    "torch": ("torch", _torch),
}
