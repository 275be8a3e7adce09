"""What is loaded, as states and transcripts say it: what two engines must share for their bytes to be compared."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from gnomon.reference import CONTRACT_VERSION
from gnomon.reference.engine import Engine
from gnomon.reference.identity import arithmetic, differences


@dataclass(frozen=True)
class Loaded:
    """contract: version of the arithmetic; model, tokenizer: digests (None without a tokenizer); config: the fields of
    the model's config that touch arithmetic; arm: what `linear` multiplies; kv: how keys and values are stored"""

    contract: int
    model: str
    config: dict[str, Any]
    tokenizer: str | None
    arm: str
    kv: str


def loaded(engine: Engine[Any]) -> Loaded:
    """As the engine describes itself; a table that names no forms computes in f32."""
    told, tokenizer = engine.describe(), engine.model.tokenizer
    return Loaded(
        contract=CONTRACT_VERSION,
        model=told["weights"],
        config=arithmetic(engine.model),
        tokenizer=None if tokenizer is None else tokenizer.digest,
        arm=told.get("arm", "f32"),
        kv=told.get("kv", "f32"),
    )


def differing(ours: Loaded, theirs: Loaded) -> Iterator[tuple[str, Any, Any]]:
    """Fields in which two differ, with both values; of the config, the fields in it, as JSON."""
    for field in fields(Loaded):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "config":
            yield from differences(a, b)
        elif a != b:
            yield field.name, a, b
