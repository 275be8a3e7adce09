"""Continuous batching: texts join and leave between steps, and no byte of one depends on another.

A step is one step of the engine over all texts at once: one row of each that decodes, and as many rows of the prompts
of newcomers as the budget leaves. A prompt cut by the budget goes on in the next step.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from gnomon.decode.text import Request, Text
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError, UsageError
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.row_counts import chooses_by_rows
from gnomon.reference.state import State

BUDGET = chooses_by_rows("decode.batch.BUDGET", 256)  # rows of a step

Work = list[tuple[Text, list[int]]]  # the rows of a step


class Drawn(NamedTuple):
    """An id drawn in a step, a stop id included, and the row of logits [vocab] that it was drawn from."""

    text: Text
    id: int
    row: F32


class Batch:
    """slots: texts at once, others wait in the order in which they came; rows: of a step at most

    active: the texts that have a slot, in the order in which they got it; steps: of the engine, until now
    """

    def __init__(self, engine: Engine[Any], slots: int = 8, rows: int = BUDGET) -> None:
        if not 1 <= slots <= rows:
            raise UsageError(f"Expected at least one slot and a row for each but got slots={slots}, rows={rows}")
        self.engine = engine
        self.slots = slots
        self.rows = rows
        self.active: list[Text] = []
        self.waiting: deque[Text] = deque()
        self.steps = 0

    def join(self, request: Request, state: State | None = None) -> Text:
        """A text for the request, fed from the next step on in which a slot is free. state, and errors: see Text."""
        text = Text(self.engine, request, state)
        self.waiting.append(text)
        return text

    def leave(self, text: Text) -> None:
        """Take a text out before its end; what was drawn stays."""
        if not text.reason:
            text.reason = "left"
        self.active = [other for other in self.active if other is not text]
        self.waiting = deque(other for other in self.waiting if other is not text)

    def step(self) -> list[Drawn]:
        """What this step drew; texts that have ended leave their slots, one that failed among them. Without texts,
        nothing."""
        while self.waiting and len(self.active) < self.slots:
            self.active.append(self.waiting.popleft())
        drawn = []
        for text, row in self._run(self._plan()):
            if text.unfed:  # there is more of its prompt
                continue
            try:
                drawn.append(Drawn(text, text.draw(row), row))
            except Exception as error:  # of its sampling or its spelling: none of the others' business
                text.fail(error)
        self.active = [text for text in self.active if not text.reason]
        return drawn

    def run(self) -> Iterator[Drawn]:
        """Step until every text has ended; more may join meanwhile."""
        while self.active or self.waiting:
            yield from self.step()

    def _plan(self) -> Work:
        """A row for each text that decodes; the rest of the budget for prompts, first come, first served."""
        spare = self.rows - sum(bool(text.ids) for text in self.active)
        work: Work = []
        for text in self.active:
            new = text.unfed if text.ids else text.unfed[:spare]
            spare -= 0 if text.ids else len(new)
            if new:
                work.append((text, new))
        return work

    def _run(self, work: Work) -> list[tuple[Text, F32]]:
        """The last row of each text. One that gives NaN or infinity ends; the others are run without it."""
        if not work:
            return []
        self.steps += 1
        try:
            out = self.engine.step(Rows.of([(text.state, new) for text, new in work]))
        except NonFiniteError:
            if len(work) > 1:
                return [pair for one in work for pair in self._run([one])]
            work[0][0].reason = "nonfinite"
            return []
        return [(text, row) for (text, _), row in zip(work, out, strict=True)]
