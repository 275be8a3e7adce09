"""Engines by name. An engine that cannot run here says why; nothing falls back in silence."""

import importlib
from collections.abc import Callable
from typing import Any, cast

from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Arm, Storage

FORMS = ("f32", "bf16", "int8")


def _numpy(model: Model, arm: str, kv: str) -> Engine[Any]:
    return Engine("numpy", model, NumpyOps(cast(Arm, arm), cast(Storage, kv)))


def _mlx_array(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import mlx_array

    return mlx_array.engine(model, cast(Arm, arm), cast(Storage, kv))


def _host(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import host

    return host.engine(model, cast(Arm, arm), cast(Storage, kv))


_FACTORIES: dict[str, Callable[[Model, str, str], Engine[Any]]] = {
    "numpy": _numpy,
    "host": _host,
    "mlx-array": _mlx_array,
}
_BEST = {"mlx": ("mlx-array",)}  # a short name stands for the best table present


def engines() -> dict[str, str]:
    """Every engine by name, with "" where it can run here and otherwise the reason why it cannot."""
    from gnomon.gpu import host, mlx_array

    return {"numpy": "", "host": host.available() or "", "mlx-array": mlx_array.available() or ""}


def default_engine() -> str:
    """The fastest engine that can run here: "host" where a C++ compiler is found, else "numpy"."""
    return "numpy" if engines()["host"] else "host"


def engine(name: str, model: Model, arm: str = "f32", kv: str = "f32") -> Engine[Any]:
    """The engine `name` with `model` on it: "numpy", "host", "mlx-array", "mlx" (the best MLX table present), or
    "package.module:factory" for one's own, called with the model (and with arm and kv where they are not "f32").

    arm: what `linear` multiplies, "f32", "bf16" or "int8"; kv: how keys and values are stored, the same three
    Raises UsageError for an unknown name, NotRunError where the engine cannot run on this machine.
    """
    for what, value in (("arm", arm), ("kv", kv)):
        if value not in FORMS:
            raise UsageError(f"Expected {what} to be one of {', '.join(FORMS)} but got {value!r}")
    if ":" in name:
        return _foreign(name, model, arm, kv)
    for candidate in _BEST.get(name, (name,)):
        if candidate in _FACTORIES:
            return _FACTORIES[candidate](model, arm, kv)
    known = ", ".join([*_FACTORIES, *_BEST])
    raise UsageError(f"Expected an engine among {known}, or package.module:factory, but got {name!r}")


def _foreign(name: str, model: Model, arm: str, kv: str) -> Engine[Any]:
    module_name, _, attribute = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise NotRunError(f"Expected a factory at {name!r} but importing it failed: {error}") from error
    made = factory(model) if (arm, kv) == ("f32", "f32") else factory(model, arm, kv)
    if not isinstance(made, Engine):
        raise UsageError(f"Expected {name!r} to return a gnomon.Engine but got {type(made).__name__}")
    return made
