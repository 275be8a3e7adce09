"""Conversations held on an engine under ids: to go on with, to copy, to send away. For the engine's thread only.

What came from outside is used where it is named and nowhere else: a state that was changed and signed again would
otherwise reach the texts of others.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import uuid4

from numpy.typing import NDArray

from gnomon.decode.state_file import StateFile, pack
from gnomon.decode.text import Text
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State

Layers = deque[Mapping[str, NDArray[Any]]]
Origin = Literal["answer", "import", "fork"]


class NotHeldError(UsageError):
    """No conversation of this id is held, or none any more."""


class TooLargeError(UsageError):
    """A state that takes more than all that is held may take."""


@dataclass(frozen=True)
class Description:
    """position: how many ids the conversation has; nbytes: memory that its state takes"""

    id: str
    origin: Origin
    position: int
    nbytes: int

    def fields(self) -> dict[str, Any]:
        return {"object": "state", **asdict(self)}


@dataclass
class Conversation:
    """unfed: the ids that its state does not hold yet, at most the one drawn last"""

    state: State
    unfed: list[int]
    origin: Origin
    nbytes: int

    @property
    def known(self) -> list[int]:
        return [*self.state.ids, *self.unfed]


class Held:
    """budget: bytes that conversations may take; the least recently used make room for new ones"""

    def __init__(self, engine: Engine[Any], budget: int) -> None:
        self.engine = engine
        self.budget = budget
        self._by_id: OrderedDict[str, Conversation] = OrderedDict()

    def put(self, state: State, origin: Origin, unfed: list[int] | None = None) -> Description:
        """Hold a conversation. Raises TooLargeError where it alone is more than the budget."""
        held = Conversation(state, unfed or [], origin, self.engine.nbytes(state))
        if held.nbytes > self.budget:
            raise TooLargeError(f"Expected a state of at most {self.budget} bytes in memory but it takes {held.nbytes}")
        name = f"state-{uuid4().hex}"
        self._by_id[name] = held
        while sum(one.nbytes for one in self._by_id.values()) > self.budget:
            self._by_id.popitem(last=False)
        return self._described(name, held)

    def keep(self, text: Text) -> str | None:
        """Hold what a text has become -> its id, or None where it is more than the budget."""
        fits = len(text.known) <= self.engine.model.config.max_positions  # else the last id has no place in the model
        try:
            return self.put(text.state, "answer", text.unfed if fits else []).id
        except TooLargeError:
            return None

    def get(self, name: str) -> Conversation:
        """Raises NotHeldError."""
        if name not in self._by_id:
            raise NotHeldError(f"Expected the id of a conversation that is held but got {name[:80]!r}")
        self._by_id.move_to_end(name)
        return self._by_id[name]

    def whole(self, name: str) -> State:
        """Its state, with every id of the conversation in it."""
        held = self.get(name)
        if held.unfed:
            self.engine.step(Rows.of([(held.state, held.unfed)]), "none")
            held.unfed, held.nbytes = [], self.engine.nbytes(held.state)
        return held.state

    def pack(self, name: str) -> StateFile:
        """A copy to send."""
        return pack(self.engine, self.whole(name))

    def fork(self, name: str) -> Description:
        """Hold a copy as well."""
        return self.put(self.engine.fork(self.whole(name)), "fork")

    def take(self, layers: Layers, ids: list[int]) -> Description:
        """Hold what came from outside. Each layer is let go of as the engine takes it over."""
        return self.put(self.engine.load_layers((layers.popleft() for _ in range(len(layers))), ids), "import")

    def describe(self, name: str | None = None) -> list[dict[str, Any]]:
        """All of them, the least recently used first, or one with its ids."""
        if name is None:
            return [self._described(*pair).fields() for pair in self._by_id.items()]
        held = self.get(name)
        return [{**self._described(name, held).fields(), "ids": held.known}]

    def _described(self, name: str, held: Conversation) -> Description:
        return Description(name, held.origin, len(held.known), held.nbytes)
