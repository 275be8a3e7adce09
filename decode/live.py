"""A batch in a thread of its own, the only one that uses the engine, for whoever runs in an event loop.

All texts are one ragged batch; between its steps the thread does whatever else is asked of the engine. Texts wait in a
line of their own, so that no more of them than there are slots have a state.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

import numpy as np

from gnomon.decode.batch import Batch, Drawn
from gnomon.decode.text import Request, Text
from gnomon.reference.engine import Engine
from gnomon.reference.own_code import OwnCodeError
from gnomon.reference.protocol import F32
from gnomon.reference.state import State

T = TypeVar("T")


@dataclass(frozen=True)
class Begun:
    """The text has a slot, and can only end from now on."""


@dataclass(frozen=True)
class Token:
    """id: drawn, none that ends the text; text: what it made sure of the text, which may be nothing

    likely: (id, logprob) of it and of the likeliest, if they were asked for
    """

    id: int
    text: str
    likely: list[tuple[int, float]]


@dataclass(frozen=True)
class Ended(Generic[T]):
    """value: what `finish` gave"""

    value: T


@dataclass(eq=False)
class _Job:
    """prepare, finish: see Live.text; tell: whoever waits, from any thread; rows: digest of the rows drawn from"""

    prepare: Callable[[], tuple[Request, State | None]]
    finish: Callable[[Text, str], Any]
    top: int | None
    tell: Callable[[Any], object]
    rows: Any = field(default_factory=hashlib.sha256)


class Live:
    """slots: texts at once, others wait in the order in which they came"""

    def __init__(self, engine: Engine[Any], slots: int = 32) -> None:
        self.slots = slots
        self._batch = Batch(engine, slots)
        self._jobs: dict[Text, _Job] = {}
        self._waiting: deque[_Job] = deque()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the calls that were made."""
        self._calls.put(None)
        self._thread.join(timeout=10)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    async def call(self, work: Callable[..., T], *args: Any) -> T:
        """The result of some work in the engine's thread, done between two steps."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(*args))
                except BaseException as error:  # it is raised where it is awaited
                    future.set_exception(error)

        self._calls.put(run)
        return await asyncio.wrap_future(future)

    async def text(
        self,
        prepare: Callable[[], tuple[Request, State | None]],
        finish: Callable[[Text, str], T],
        top: int | None = None,
    ) -> AsyncGenerator[Begun | Token | Ended[T]]:
        """What happens to a text, from Begun to Ended; closing it takes the text out. Raises what goes wrong with it.

        prepare: gives the request and its state, see Text; finish: is given the text when it has ended, and the SHA-256
        of all rows of logits it was drawn from, one after the other as little-endian f32, that of an id that ends the
        text included; both run in the engine's thread. top: how many likely ids to tell beside each that is drawn
        """
        loop, events = asyncio.get_running_loop(), asyncio.Queue[Any]()
        job = _Job(prepare, finish, top, lambda event: loop.call_soon_threadsafe(events.put_nowait, event))
        self._calls.put(partial(self._waiting.append, job))
        try:
            event = None
            while not isinstance(event, Ended):
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self._calls.put(partial(self._leave, job))

    # --- in the engine's thread -----------------------------------------------------------------------------------
    def _run(self) -> None:
        for work in self._due():
            if work is not None:
                work()
                del work  # and with it what it gave: the next one may be long in coming
                continue
            while self._waiting and len(self._jobs) < self.slots:
                self._join(self._waiting.popleft())
            try:
                for drawn in self._batch.step():
                    self._draw(drawn)
            except Exception as error:  # of the engine itself, in a step of all
                own = isinstance(error, OwnCodeError)  # then the sentence says it all
                logging.getLogger("gnomon").error("a step failed: %s", error, exc_info=not own)
                for text in list(self._jobs):
                    self._tell(self._out(text), error)
            for text in [text for text in self._jobs if text.reason]:
                self._finish(text)

    def _due(self) -> Iterator[Callable[[], None] | None]:
        """The calls as they come; None where a step is due: after those that are there, as long as there are texts."""
        while True:
            busy = bool(self._jobs or self._waiting)
            try:
                while call := self._calls.get(block=not busy):
                    yield call
                    del call
                    busy = True
                return
            except Empty:
                yield None

    def _join(self, job: _Job) -> None:
        try:
            self._jobs[self._batch.join(*job.prepare())] = job
        except Exception as error:
            self._tell(job, error)
        else:
            self._tell(job, Begun())

    def _draw(self, drawn: Drawn) -> None:
        job = self._jobs[drawn.text]
        job.rows.update(drawn.row.astype("<f4", copy=False).tobytes())
        if drawn.id not in drawn.text.request.stop_ids:
            shown = [] if job.top is None else likely(drawn.row, drawn.id, job.top)
            self._tell(job, Token(drawn.id, drawn.text.take(), shown))

    def _finish(self, text: Text) -> None:
        job = self._out(text)
        if text.error is not None:
            logging.getLogger("gnomon").error("a text failed", exc_info=text.error)
            self._tell(job, text.error)
            return
        try:
            ended = Ended(job.finish(text, job.rows.hexdigest()))
        except Exception as error:
            self._tell(job, error)
        else:
            self._tell(job, ended)

    def _out(self, text: Text) -> _Job:
        self._batch.leave(text)
        return self._jobs.pop(text)

    def _leave(self, job: _Job) -> None:
        """Whether it waits, is in a slot or has ended."""
        if job in self._waiting:
            self._waiting.remove(job)
        for text in [text for text, other in self._jobs.items() if other is job]:
            self._out(text)

    def _tell(self, job: _Job, event: Any) -> None:
        try:
            job.tell(event)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            self._leave(job)


def likely(row: F32, drawn: int, top: int) -> list[tuple[int, float]]:
    """For display only: logprobs of a row [vocab] before temperature, in float64, as this machine's libm gives them."""
    wide = row.astype(np.float64) - row.max()
    wide -= np.log(np.exp(wide).sum())
    return [(i, float(wide[i])) for i in (drawn, *np.argsort(-wide, kind="stable")[:top].tolist())]
