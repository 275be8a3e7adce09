"""What `gnomon run --stats` says of time: reading the prompt (prefill) and drawing the rest (decode) apart."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
Figures = dict[str, float]


class Clock:
    """Runs from where it is made. The first id comes with the pass over the prompt, so it counts as prefill."""

    def __init__(self, prompt: int) -> None:
        """prompt: tokens of it"""
        self.prompt = prompt
        self.prefill = 0.0  # seconds
        self.decode = 0.0
        self._last = time.perf_counter()

    def lap(self, prefill: bool) -> None:
        """The time since the last lap was prefill, or decode."""
        now = time.perf_counter()
        if prefill:
            self.prefill += now - self._last
        else:
            self.decode += now - self._last
        self._last = now

    def timed(self, ids: Iterable[T]) -> Iterator[T]:
        """The ids of one text as they come."""
        first = True
        for one in ids:
            self.lap(prefill=first)
            first = False
            yield one
        self.lap(prefill=first)

    def figures(self, drawn: int, decoded: int) -> Figures:
        """drawn: ids in all; decoded: those of them that came with no row of a prompt"""
        seconds = self.prefill + self.decode
        return {
            "tokens": drawn,
            "seconds": round(seconds, 3),
            "tokens_per_second": rate(drawn, seconds),
            "prefill_tokens": self.prompt,
            "prefill_seconds": round(self.prefill, 3),
            "prefill_tokens_per_second": rate(self.prompt, self.prefill),
            "decode_tokens": decoded,
            "decode_seconds": round(self.decode, 3),
            "decode_tokens_per_second": rate(decoded, self.decode),
        }


def rate(tokens: int, seconds: float) -> float:
    return round(tokens / max(seconds, 1e-9), 2) if tokens else 0.0
