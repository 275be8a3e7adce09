"""The text of ids as they are drawn, pushed one by one, cut before the first of the stop texts.

A piece takes time that does not grow with the text before it.
"""

from collections.abc import Collection

from gnomon.decode.stops import Stops
from gnomon.reference.model import Model


class Spelling:
    """stops: no piece reaches into the first of them; without a tokenizer the text of ids is their numbers

    text: the pieces until now, joined
    """

    def __init__(self, model: Model, stops: Collection[str] = ()) -> None:
        self._pieces = None if model.tokenizer is None else model.tokenizer.pieces()
        self._stops = Stops(stops)
        self._said: list[str] = []
        self._taken = 0  # of the pieces
        self._any = False

    @property
    def stopped(self) -> bool:
        """Whether a stop text was there."""
        return self._stops.found

    @property
    def text(self) -> str:
        return "".join(self._said)

    def take(self) -> str:
        """The pieces since this was asked before, joined."""
        fresh = self._said[self._taken :]
        self._taken = len(self._said)
        return "".join(fresh)

    def add(self, one: int) -> str:
        """The text that one more id makes sure; "" while it may still turn into another, or into a stop text."""
        if self._pieces is not None:
            return self._more(self._stops.add(self._pieces.add(one)))
        space, self._any = " " if self._any else "", True
        return self._more(self._stops.add(f"{space}{one}"))

    def end(self) -> str:
        """What was held back."""
        last = "" if self._pieces is None else self._pieces.end()
        return self._more(self._stops.add(last) + self._stops.end())

    def _more(self, text: str) -> str:
        self._said += [text] if text else []
        return text
