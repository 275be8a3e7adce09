"""What is loaded, as states and transcripts say it: what two engines must share for their bytes to be compared."""

from dataclasses import dataclass
from typing import Any

from gnomon.reference import CONTRACT_VERSION
from gnomon.reference.engine import Engine


@dataclass(frozen=True)
class Loaded:
    """contract: version of the arithmetic; model, tokenizer: digests (None without a tokenizer); arm: what `linear`
    multiplies; kv: how keys and values are stored"""

    contract: int
    model: str
    tokenizer: str | None
    arm: str
    kv: str


def loaded(engine: Engine[Any]) -> Loaded:
    """As the engine describes itself; a table that names no forms computes in f32."""
    told, tokenizer = engine.describe(), engine.model.tokenizer
    return Loaded(
        contract=CONTRACT_VERSION,
        model=told["weights"],
        tokenizer=None if tokenizer is None else tokenizer.digest,
        arm=told.get("arm", "f32"),
        kv=told.get("kv", "f32"),
    )
