"""A model in memory: its config, its stored weights and, where the file has them, its tokenizer and chat template."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gnomon.reference import shown
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

    def _shown(self) -> tuple[str, dict[str, str]]:
        config = self.config
        values = sum(math.prod(w.shape) for w in self.weights.values())
        types = Counter(w.dtype for w in self.weights.values())
        kinds = " and ".join(f"{n} {kind}" for kind, n in Counter(config.kinds).items())
        return f"Model {self.name}", {
            "family": config.family,
            "layers": f"{kinds}, of width {config.width:,}",
            "heads": f"{config.heads} of width {config.head_dim}, {config.kv_heads} of keys and values",
            "vocab": f"{config.vocab:,}, {'with' if self.tokenizer else 'without'} a tokenizer",
            "positions": f"{config.max_positions:,}",
            "weights": f"{values:,} values in {len(self.weights)} tensors: "
            + ", ".join(f"{n} {dtype}" for dtype, n in types.most_common()),
        }

    def __repr__(self) -> str:
        return shown.lines(*self._shown())

    def _repr_html_(self) -> str:
        return shown.table(*self._shown())
