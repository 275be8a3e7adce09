"""Batches in which texts feel one another. Each is the honest one with one step done otherwise."""

from dataclasses import replace
from typing import Any

from gnomon.decode.batch import Batch, Drawn, Work
from gnomon.decode.text import Request, Text
from gnomon.gates.faults.breaking import fault, on_call, put
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.reference.ops.sample import sample
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State


def using(batch: type[Batch]) -> Fault:
    """Texts are batched by this class."""

    def apply(subject: Subject) -> Subject:
        return replace(subject, batch=batch)

    return apply


class RowsToTheNext(Batch):
    """The rows of a step are handed out one slot off."""

    def _run(self, work: Work) -> list[tuple[Text, F32]]:
        ran = super()._run(work)
        return [(text, ran[n - 1][1]) for n, (text, _) in enumerate(ran)]


class UsedState(Batch):
    """A newcomer takes over what the recurrent layers hold of a text that has ended."""

    ended: Text | None = None

    def step(self) -> list[Drawn]:
        drawn = super().step()
        self.ended = next((one.text for one in drawn if one.text.reason), self.ended)
        return drawn

    def join(self, request: Request, state: State | None = None) -> Text:
        text = super().join(request, state)
        if self.ended is not None:
            used = self.engine.fork(self.ended.state).caches
            recurrent = [kind == "delta" for kind in self.engine.model.config.kinds]
            text.state.caches = [
                old if take else new for old, new, take in zip(used, text.state.caches, recurrent, strict=True)
            ]
        return text


class PositionOfTheFirst(Batch):
    """The counter of the sampler is that of the first slot."""

    def join(self, request: Request, state: State | None = None) -> Text:
        text = super().join(request, state)
        honest = text.draw

        def draw(row: F32) -> int:
            first = self.active[0]
            known = len(text.known)
            drawn = honest(row)
            if len(text.known) > known:
                text.ids[-1] = drawn = sample(row, request.sampling, len(first.known) - 1)
            return drawn

        put(text, "draw", draw)
        return text


class DrawnTooEarly(Batch):
    """The last row of a step is drawn from, whether or not more of the prompt is to come."""

    def _run(self, work: Work) -> list[tuple[Text, F32]]:
        ran = super()._run(work)
        for text, _ in ran:
            if text.unfed:
                text.request = replace(text.request, ids=list(text.state.ids))
        return ran


@fault
def shared_cache(engine: AnyEngine) -> None:
    """In a step of several sequences the keys of the second are those of the first."""

    def shared(k: Any, v: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        if len(rows.spans) > 1:
            keys = engine.ops.numpy(k)
            keys[rows.spans[1].start] = keys[rows.spans[0].start]
            k = engine.ops.array(keys)
        return (k, v, rows, *rest)

    on_call(engine, "kv_append", shared)


rows_to_the_next = using(RowsToTheNext)
used_state = using(UsedState)
position_of_the_first = using(PositionOfTheFirst)
drawn_too_early = using(DrawnTooEarly)
