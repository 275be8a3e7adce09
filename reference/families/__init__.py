"""Families of models: how a `model_type` is wired. One small file per wiring; a name not listed is refused."""

from types import ModuleType
from typing import Any, Protocol, cast

from gnomon.reference.config import Config
from gnomon.reference.errors import ModelError
from gnomon.reference.families import decoder, gpt2
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows, Want
from gnomon.reference.strict_json import show
from gnomon.reference.weights import Spec

_WIRING: dict[str, ModuleType] = {
    "gpt2": gpt2,
    "llama": decoder,
    "mistral": decoder,
    "qwen2": decoder,
    "qwen3": decoder,
    "qwen3_5_text": decoder,
    "qwen3_moe": decoder,
    "qwen3_next": decoder,
}


class Family(Protocol):
    """What a family's file offers."""

    def specs(self, config: Config) -> dict[str, Spec]:
        """Every weight the model must have, by canonical name; a file with more, fewer or others is refused."""
        ...

    def wire(
        self, ops: Ops[Any], config: Config, w: dict[str, Handle], tables: RopeTables | None, rows: Rows, want: Want
    ) -> Any:
        """One step: op calls and loops over layers only; logits, or the last residual where want is "none"."""
        ...


def family(name: str) -> Family:
    """The wiring of a family; raises ModelError for a name that is not listed."""
    return cast(Family, _wired(name))


def wiring(name: str) -> str:
    """The name of the file that wires a family, such as "decoder": families that share one compute the same."""
    return _wired(name).__name__.rpartition(".")[2]


def _wired(name: str) -> ModuleType:
    if name not in _WIRING:
        raise ModelError(f"Expected a model_type among {', '.join(sorted(_WIRING))} but got {show(name)}")
    return _WIRING[name]
