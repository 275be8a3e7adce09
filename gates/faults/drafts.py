"""Generations that verify drafts wrongly. Each is the honest one with one step done otherwise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gnomon.decode.generate import Generation
from gnomon.decode.text import GREEDY, Request
from gnomon.gates.gate import Fault, Subject
from gnomon.reference.protocol import F32
from gnomon.reference.state import State


def using(generation: type[Generation]) -> Fault:
    """Texts are made by this class."""

    def apply(subject: Subject) -> Subject:
        return replace(subject, generation=generation)

    return apply


class Stays(Generation):
    def _take_back(self, kept: State | None, length: int) -> None:
        return


class RecurrentStays(Generation):
    def _take_back(self, kept: State | None, length: int) -> None:
        ran = self.text.state
        super()._take_back(kept, length)
        for i, kind in enumerate(self.engine.model.config.kinds):
            if kind == "delta":
                self.text.state.caches[i] = ran.caches[i]


class OneTooMany(Generation):
    """The first wrong guess counts as right: the next row is drawn from, and the state keeps the guess."""

    def _draw(self, logits: F32, draft: list[int]) -> list[int]:
        drawn = super()._draw(logits, draft)
        if len(drawn) <= len(draft) and not self.text.reason:
            drawn.append(self.text.draw(logits[len(drawn)]))
        return drawn


def asking(change: Callable[[Request], Request]) -> type[Generation]:
    """Rows of a draft are drawn from under another request."""

    class Asking(Generation):
        def _draw(self, logits: F32, draft: list[int]) -> list[int]:
            asked = self.text.request
            self.text.request = change(asked) if draft else asked
            try:
                return super()._draw(logits, draft)
            finally:
                self.text.request = asked

    return Asking


def seeing(change: Callable[[F32], F32]) -> type[Generation]:
    """Other logits are drawn from, in a pass that verifies a draft."""

    class Seeing(Generation):
        def _draw(self, logits: F32, draft: list[int]) -> list[int]:
            return super()._draw(change(logits) if draft else logits, draft)

    return Seeing


def highest(logits: F32) -> F32:
    """Of equal maxima only the last is left."""
    out = logits.copy()
    for row in out:
        row[np.flatnonzero(row == row.max())[:-1]] = row.min()
    return out


def drafting(draft: Callable[[Generation], list[int]]) -> type[Generation]:
    class Drafting(Generation):
        def _draft(self) -> list[int]:
            return draft(self)

    return Drafting


def greedily(made: Generation) -> list[int]:
    """As Generation does, but that a drafter is not told how the text is drawn."""
    text = made.text
    limit = min(made.draft_tokens, text.room - 1)
    return [] if made.drafter is None or not text.ids else made.drafter.draft(text.known, limit, GREEDY)


rows_stay = using(Stays)
recurrent_rows_stay = using(RecurrentStays)
one_too_many = using(OneTooMany)
late = using(asking(lambda request: replace(request, ids=[*request.ids, 0])))
no_stop = using(asking(lambda request: replace(request, stop_ids=())))
other_row = using(seeing(lambda logits: np.concatenate([logits[:-1], logits[-2:-1]])))
highest_id = using(seeing(highest))
greedy_drafts = using(drafting(greedily))
no_drafts = using(drafting(lambda made: []))
