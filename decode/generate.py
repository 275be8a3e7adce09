"""One text: plain decoding, or the same text in fewer passes where a drafter guesses how it goes on.

A round feeds the id drawn last and a draft of what follows, in one pass. Row j of the logits has seen the first j
guesses, so it is the row of plain decoding as long as these were right: ids are drawn from the rows in order, until
one is not the guess or ends the text. Rows that plain decoding would not have fed are taken back. Since a step of
several rows has the bytes of steps of one row, ids, rows of logits and state are those of plain decoding after every
round; since the sampler is a function of row, seed and position, this holds for sampled texts as well. Plain decoding
is the round without a draft.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gnomon.decode.drafters import Drafter
from gnomon.decode.rewind import back, keep
from gnomon.decode.text import GREEDY, Request, Text
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.row_counts import chooses_by_rows
from gnomon.reference.state import State
from gnomon.reference.token_ids import kind

DRAFTED = chooses_by_rows("decode.generate.DRAFTED", 8)  # guesses a round


@dataclass
class Statistics:
    """passes: steps of the engine, the prompt's and those that run rows again included; rows: of all of them
    recomputed: rows run again after a rejection, for recurrent layers
    drafted: guesses verified; accepted: those of them that were drawn
    """

    passes: int = 0
    rows: int = 0
    recomputed: int = 0
    drafted: int = 0
    accepted: int = 0


class Round(NamedTuple):
    """ids: drawn in it, a stop id included; logits: the row that each was drawn from [len(ids), vocab]"""

    ids: list[int]
    logits: F32


class Generation:
    """Iterating gives the ids as they are drawn, a stop id left out.

    draft_tokens: guesses a round, at most; state: one that holds a beginning of the prompt, see Text
    """

    def __init__(
        self,
        engine: Engine[Any],
        request: Request,
        drafter: Drafter | None = None,
        draft_tokens: int = DRAFTED,
        state: State | None = None,
    ) -> None:
        if draft_tokens < 1:
            raise UsageError(f"Expected at least one guess a round but got draft_tokens={draft_tokens!r}")
        self.engine = engine
        self.text = Text(engine, request, state)
        self.drafter = drafter
        self.draft_tokens = draft_tokens
        self.statistics = Statistics()

    def __repr__(self) -> str:
        text = self.text
        ended = f"ended by {text.reason}" if text.reason else "not ended"
        return f"Generation on {self.engine.name}: {len(text.ids)} of {text.request.max_tokens} ids drawn, {ended}"

    def __iter__(self) -> Iterator[int]:
        given = len(self.text.ids)
        while not self.text.reason:
            self.round()
            yield from self.text.ids[given:]
            given = len(self.text.ids)

    def round(self) -> Round:
        """One pass, and one more where rows have to be run again. For a text that has not ended."""
        text, counted = self.text, self.statistics
        feed, draft = text.unfed, self._draft()
        length = text.state.length + len(feed)
        kept = keep(self.engine, text.state) if draft else None
        logits = self.engine.step(Rows.of([(text.state, [*feed, *draft])]), "all" if draft else "last")
        drawn = self._draw(logits, draft)
        counted.passes += 1
        counted.rows += len(feed) + len(draft)
        counted.drafted += len(draft)
        counted.accepted += sum(one == guess for one, guess in zip(drawn, draft, strict=False))
        self._take_back(kept, length + len(drawn) - 1)
        return Round(drawn, logits[: len(drawn)])

    def _draft(self) -> list[int]:
        """Guesses, no more than can be drawn after them, and none from the first on that is no id of the model."""
        text = self.text
        limit = min(self.draft_tokens, text.room - 1)
        if self.drafter is None or not text.ids or limit < 1:
            return []
        guesses = self.drafter.draft(text.known, limit, text.request.sampling)[:limit]
        vocab = self.engine.model.config.vocab
        return guesses[: next((n for n, guess in enumerate(guesses) if not 0 <= guess < vocab), limit)]

    def _draw(self, logits: F32, draft: list[int]) -> list[int]:
        """Ids from the rows that plain decoding would have had: one more than there are right guesses, or less."""
        drawn: list[int] = []
        for row, guess in zip(logits, [*draft, None], strict=True):
            drawn.append(self.text.draw(row))
            if self.text.reason or drawn[-1] != guess:
                break
        return drawn

    def _take_back(self, kept: State | None, length: int) -> None:
        """Leave `length` positions in the state."""
        if length == self.text.state.length:
            return
        self.text.state, again = back(self.engine, self.text.state, kept, length)
        self.statistics.passes += again > 0
        self.statistics.rows += again
        self.statistics.recomputed += again


def generate(
    engine: Engine[Any],
    ids: Sequence[int],
    max_tokens: int,
    *,
    sampling: Sampling = GREEDY,
    draft: Drafter | None = None,
    stop_ids: Collection[int] = (),
    stop_texts: Collection[str] = (),
) -> Generation:
    """The continuation of `ids`, one id at a time; `.text` has its end and its state, `.statistics` what it took.

    sampling: greedy if left out; draft: guesses that save passes and change no byte; stop_ids, stop_texts: see Request
    """
    kind("engine", engine, Engine, "an engine, such as gnomon.engine('numpy', model)")
    kind("sampling", sampling, Sampling, "a gnomon.Sampling")
    if draft is not None and (isinstance(draft, type) or not callable(getattr(draft, "draft", None))):
        raise UsageError(f"Expected a drafter, such as Ngram(), but got {draft!r:.60}")
    return Generation(engine, Request(ids, max_tokens, sampling, stop_ids, stop_texts), draft)
