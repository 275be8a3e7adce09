"""Engines by name. An engine that cannot run here says why; nothing falls back in silence."""

import difflib
from collections.abc import Callable
from typing import Any, cast

from gnomon.compare.probe_short import refuse_inexact
from gnomon.imported import function
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError, NotRunError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.own_code import failed, guard, own_frame
from gnomon.reference.protocol import Arm, Ops, Storage
from gnomon.reference.token_ids import kind

FORMS = ("f32", "bf16", "int8")


def _numpy(model: Model, arm: str, kv: str) -> Engine[Any]:
    return Engine("numpy", model, NumpyOps(cast(Arm, arm), cast(Storage, kv)))


def _mlx_array(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import mlx_array

    return mlx_array.engine(model, cast(Arm, arm), cast(Storage, kv))


def _host(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import host

    return host.engine(model, cast(Arm, arm), cast(Storage, kv))


def _cupy(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import cupy_engine

    return cupy_engine.engine(model, cast(Arm, arm), cast(Storage, kv))


def _mlx_metal(model: Model, arm: str, kv: str) -> Engine[Any]:
    from gnomon.gpu import mlx_metal

    return mlx_metal.engine(model, cast(Arm, arm), cast(Storage, kv))


_FACTORIES: dict[str, Callable[[Model, str, str], Engine[Any]]] = {
    "numpy": _numpy,
    "host": _host,
    "mlx-array": _mlx_array,
    "mlx-metal": _mlx_metal,
    "cupy": _cupy,
}
# A short name stands for the first table of these that can run here.
_BEST = {"shadow": ("host", "mlx-array"), "fast": ("host", "numpy"), "mlx": ("mlx-metal", "mlx-array")}


def engines() -> dict[str, str]:
    """Every engine by name, with "" where it can run here and otherwise the reason why it cannot."""
    from gnomon.gpu import cupy_engine, host, mlx_array, mlx_metal

    shadows = {"host": host, "mlx-array": mlx_array, "mlx-metal": mlx_metal, "cupy": cupy_engine}
    return {"numpy": "", **{name: module.available() or "" for name, module in shadows.items()}}


def engine(name: str, model: Model, arm: str = "f32", kv: str = "f32") -> Engine[Any]:
    """The engine `name` with `model` on it: "numpy", "host", "mlx-array", "mlx-metal", "cupy"; "mlx" (the best MLX
    table), "shadow" (the fastest table of the CPU that is not the reference), "fast" ("host" where a C++ compiler is
    found, else "numpy"); or "package.module:factory" for one's own, called with the model (and with arm and kv where
    they are not "f32").

    arm: what `linear` multiplies, "f32", "bf16" or "int8"; kv: how keys and values are stored, the same three
    Raises UsageError for an unknown name, NotRunError where the engine cannot run on this machine.
    """
    kind("name", name, str, "the name of an engine, such as 'numpy'")
    kind("model", model, Model, "a model, such as gnomon.load('tiny-dense')")
    for what, value in (("arm", arm), ("kv", kv)):
        if value not in FORMS:
            raise UsageError(f"Expected {what} to be one of {', '.join(FORMS)} but got {value!r}")
    if ":" in name:
        return _foreign(name, model, arm, kv)
    if name not in _FACTORIES and name not in _BEST:
        raise UsageError(_unknown(name))
    made = _FACTORIES[full_name(name)](model, arm, kv)
    _refuse_inexact(made.name, made.ops)
    return made


def _unknown(name: str) -> str:
    """The sentence for a name that no engine has; it ends with the nearest one, where one is near."""
    known = [*_FACTORIES, *_BEST]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"Expected an engine among {', '.join(known)}, or package.module:factory, but got {name!r}{hint}"


def full_name(name: str) -> str:
    """The engine that a short name stands for here; any other name as it is."""
    candidates = _BEST.get(name, (name,))
    reasons = engines()
    return next((c for c in candidates if not reasons.get(c)), candidates[0])


def fallen_back(name: str) -> str:
    """Why "fast" or "shadow" is not `host` here, "" where it is, and for any other name."""
    if _BEST.get(name, ("",))[0] != "host":
        return ""
    return engines()["host"]


_probed: set[str] = set()


def _refuse_inexact(name: str, ops: Ops[Any]) -> None:
    """Once per engine and process: raises NotRunError where the device does not compute as the contract needs."""
    if name not in _probed:
        refuse_inexact(name, ops.devices())
        _probed.add(name)


def _foreign(name: str, model: Model, arm: str, kv: str) -> Engine[Any]:
    try:
        factory = function(name)
    except ImportError as error:
        at = f" ({own_frame(error)})" * bool(own_frame(error))
        raise NotRunError(f"Expected a factory at {name!r} but importing it failed: {error}{at}") from error
    except GnomonError:
        raise
    except (Exception, SystemExit) as error:
        raise failed(name, error, "its import") from error
    try:
        made = factory(model) if (arm, kv) == ("f32", "f32") else factory(model, arm, kv)
    except GnomonError:
        raise
    except (Exception, SystemExit) as error:
        raise failed(name, error, "making an engine", factory) from error
    if not isinstance(made, Engine):
        raise UsageError(f"Expected {name!r} to return a gnomon.Engine but got {type(made).__name__}")
    if made.name in _FACTORIES:
        made.name = name  # a table that was changed is no longer the one of that name
    guard(made)
    return made
