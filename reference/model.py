"""A model in memory: its config, its stored weights and, where the file has them, its tokenizer and chat template."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gnomon.reference.config import Config
from gnomon.reference.tokenizer import Tokenizer
from gnomon.reference.weights import Weight, digest


@dataclass(frozen=True)
class ChatTemplate:
    """How a model wants a conversation written.

    source: a Jinja template; special: text of the tokens it may name, such as bos_token
    """

    source: str
    special: Mapping[str, str]


@dataclass(frozen=True)
class Model:
    """name: what the user called it; weights: by canonical name, exactly those that the family's specs ask for;
    no_tokenizer: why there is none, as far as the file tells"""

    name: str
    config: Config
    weights: Mapping[str, Weight]
    tokenizer: Tokenizer | None = None
    chat: ChatTemplate | None = None
    no_tokenizer: str = ""

    @property
    def without_tokenizer(self) -> str:
        """For a message about a text that cannot be encoded: which model, and why."""
        return f"model {self.name} has none" + (f" ({self.no_tokenizer})" if self.no_tokenizer else "")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over name, dtype, shape and bytes of every weight."""
        return digest(self.weights.values())
