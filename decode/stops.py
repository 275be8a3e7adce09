"""A text, as it comes, up to the first of some stop texts, in time linear in its length.

Knuth, Morris and Pratt 1977: how much of a stop text the end of the text spells, one character at a time.
"""

from collections.abc import Collection, Iterable, Iterator


class Stops:
    """found: whether one of them was there; what may become one is held back"""

    def __init__(self, stops: Collection[str]) -> None:
        self._stops = [(stop, borders(stop)) for stop in stops]
        self._spelled = [0] * len(self._stops)  # characters of each that the end of the text spells
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """What a further piece makes sure. Of stop texts that the piece ends, the one that starts first counts."""
        if self.found or not self._stops:
            return "" if self.found else piece
        held = self._held + piece
        starts = []
        for n, (stop, border) in enumerate(self._stops):
            at = self._spelled[n]
            for i, character in enumerate(piece, start=len(self._held) + 1):
                while at and stop[at] != character:
                    at = border[at - 1]
                at += stop[at] == character
                if at == len(stop):
                    starts.append(i - at)
                    break
            self._spelled[n] = at
        self.found = bool(starts)
        ready = min(starts) if starts else len(held) - max(self._spelled)
        self._held = "" if starts else held[ready:]
        return held[:ready]

    def end(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return held


def borders(stop: str) -> list[int]:
    """For each beginning of a stop text, how much of its own end it begins with, less than all of it."""
    out, at = [0], 0
    for character in stop[1:]:
        while at and stop[at] != character:
            at = out[at - 1]
        at += stop[at] == character
        out.append(at)
    return out


def until(pieces: Iterable[str], stops: Collection[str]) -> Iterator[str]:
    """Pieces of a text as they come, up to the first of the stop texts; what may become one is held back."""
    seen = Stops(stops)
    for piece in pieces:
        if ready := seen.add(piece):
            yield ready
        if seen.found:
            return
    if held := seen.end():
        yield held
