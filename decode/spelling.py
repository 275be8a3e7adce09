"""The text of ids as they are drawn, pushed one by one: what `Text.spelled` gives at the end, in pieces.

`until` pulls its pieces; whoever is told of ids from outside, many texts at a time, cannot wait for one inside of it.
"""

from collections.abc import Collection

from gnomon.decode.text import until
from gnomon.reference.model import Model


class Spelling:
    """ids: until now; stops: texts, and no piece reaches into the first of them

    Without a tokenizer the text of ids is their numbers.
    """

    def __init__(self, model: Model, stops: Collection[str] = ()) -> None:
        self.ids: list[int] = []
        self._model, self._stops = model, stops
        self._said = ""

    def spell(self, ids: list[int]) -> str:
        """The text of any ids."""
        tokenizer = self._model.tokenizer
        return " ".join(map(str, ids)) if tokenizer is None else tokenizer.decode(ids)

    def add(self, one: int) -> str:
        """The text that one more id makes sure; "" while it may still turn into another, or into a stop text."""
        self.ids.append(one)
        text = self.spell(self.ids)
        cut = "".join(until([text], self._stops))
        if cut != text:
            return self._more(cut)
        if text.endswith("\ufffd"):  # it may be the beginning of a character
            return ""
        begun = (n for stop in self._stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
        return self._more(text[: len(text) - max(begun, default=0)])

    def end(self) -> str:
        """What was held back."""
        return self._more("".join(until([self.spell(self.ids)], self._stops)))

    def _more(self, text: str) -> str:
        if not text.startswith(self._said):
            return ""
        more, self._said = text[len(self._said) :], text
        return more
