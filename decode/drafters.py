"""Drafters guess how a text goes on. A guess costs a row of a pass and can never change a byte; see generate.py."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gnomon.decode.rewind import back, common, keep
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.state import State


class Drafter(Protocol):
    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        """At most `limit` guesses of what follows `ids`, which are prompt and everything drawn.

        sampling: how the text is drawn; a drafter that draws with the same seed at the same positions guesses better
        """
        ...


class Ngram:
    """What followed the last time: the longest end of the text that stands in it before, the most recent of its places.

    What followed may be shorter than the draft, since the text ends; then it is read on into the draft itself, so that
    a text that repeats itself goes on repeating.
    """

    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        text = np.asarray(ids, np.int64)
        places = np.flatnonzero(text[:-1] == text[-1])  # where an end of one id stands
        if not len(places):
            return []
        for n in range(1, len(text)):
            longer = places[places >= n]
            longer = longer[text[longer - n] == text[len(text) - 1 - n]]
            if not len(longer):
                break
            places = longer
        read = list(ids)
        for i in range(int(places[-1]) + 1, int(places[-1]) + 1 + limit):
            read.append(read[i])
        return read[len(ids) :]


class Replay:
    """A given text, prompt included: guesses are what stands in it at the same positions, whatever came before."""

    def __init__(self, text: Sequence[int]) -> None:
        self.text = list(text)

    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        return self.text[len(ids) : len(ids) + limit]


class EngineDrafter:
    """Another engine draws, with the same sampler: of a smaller model, or of the same one; it need not be exact.

    Its state holds what it has seen; before each draft it is taken back to what the text still has in common with it.
    """

    def __init__(self, engine: Engine[Any]) -> None:
        self.engine = engine
        self._state = engine.new()
        self._kept: State | None = None

    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        config = self.engine.model.config
        limit = min(limit, config.max_positions - len(ids) + 1)
        if limit < 1 or max(ids) >= config.vocab:
            return []
        guesses: list[int] = []
        try:
            self._take_back(list(ids))
            new = list(ids[self._state.length :])
            while len(guesses) < limit:
                logits, _ = self.engine.forward(new, self._state)
                if not guesses:
                    self._kept = keep(self.engine, self._state)  # what follows are guesses
                new = [sample(logits[-1], sampling, len(ids) + len(guesses) - 1)]
                guesses += new
        except NonFiniteError:
            pass  # an engine that fails to guess has guessed less; the text does not depend on it
        return guesses

    def _take_back(self, ids: list[int]) -> None:
        """Leave in the state what it has in common with `ids`, but for the last id, whose row is wanted again."""
        length = min(common(self._state.ids, ids), len(ids) - 1)
        if length == self._state.length:
            return
        if self._kept is not None and length < self._kept.length:  # another text
            self._state, self._kept = self.engine.new(), None
            return
        self._state, _ = back(self.engine, self._state, self._kept, length)
        self._kept = None
