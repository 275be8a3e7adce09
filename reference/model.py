"""A model in memory: its config, its stored weights and, where the file has one, its tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gnomon.reference.config import Config
from gnomon.reference.tokenizer import Tokenizer
from gnomon.reference.weights import Weight, digest


@dataclass(frozen=True)
class Model:
    """name: what the user called it; weights: by canonical name, exactly those that the family's specs ask for"""

    name: str
    config: Config
    weights: Mapping[str, Weight]
    tokenizer: Tokenizer | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over name, dtype, shape and bytes of every weight."""
        return digest(self.weights.values())
