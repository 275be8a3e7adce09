"""The engine "host": the kernels of gpu/kernels compiled for this CPU."""

from typing import Any

from gnomon.gpu import host_build
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.model import Model
from gnomon.reference.protocol import Arm, Storage

NAME = "host"


def available() -> str | None:
    """Why the engine cannot run here, or None where it can."""
    return host_build.missing()


def engine(
    model: Model, arm: Arm = "f32", kv: Storage = "f32", threads: int | None = None, scratch_fill: float = 0.0
) -> Engine[Any]:
    """The model on the host kernels. threads: else GNOMON_THREADS, else one per core; scratch_fill: what memory holds
    before it is written, which must never matter

    Raises NotRunError where no C++ compiler is found or it fails.
    """
    reason = available()
    if reason is not None:
        raise NotRunError(reason)
    from gnomon.gpu.host_array_ops import HostArrayOps
    from gnomon.gpu.host_engine import HostEngine
    from gnomon.gpu.host_library import Team, library

    return HostEngine(NAME, model, HostArrayOps(Team(library(), threads), arm, kv, scratch_fill))
