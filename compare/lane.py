"""One engine running one sequence, alone or behind others in a batch, and what is kept of its latest step."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.bits import Uint16
from gnomon.compare.digest_tap import CaptureTap, DigestTap, Key, Shown
from gnomon.compare.record import Kind, Problem, Side
from gnomon.compare.schedule import COMPANIONS
from gnomon.compare.verdict import measure
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.protocol import F32, Rows, Tap, Want
from gnomon.reference.state import State

AnyEngine = Engine[Any]
Array = NDArray[Any]
Results = dict[tuple[Kind, Key], Array]
# A state stores bf16 as uint16, and nothing else so.
UINT16: dict[Kind, Uint16] = {"tap": "u16", "result": "u16", "state": "bf16"}
Kept = dict[tuple[Kind, Key], Shown]


@dataclass
class Companion:
    """Another sequence of the same steps: it runs what the lane runs, begun elsewhere, and never gets ahead of it.

    begins: by how many ids its sequence is turned; lengths: rows of each step, as many as the lane runs where None
    """

    state: State
    begins: int
    lengths: Iterator[int | None]

    def take(self, ids: Sequence[int], end: int) -> list[int]:
        """Its ids of a step in which the lane runs `ids` and then holds `end` positions; none: it rests."""
        n = next(self.lengths, 0)
        n = min(len(ids) if n is None else n, end - self.state.length)
        return [ids[(self.begins + self.state.length + i) % len(ids)] for i in range(n)]


class Lane:
    """start to state.length: positions of the latest step; logits: its result, None where it failed; rows: of the
    latest step, those of companions included

    schedule: "ragged" puts companions in front whose steps are cut otherwise; want: as in Engine.step
    """

    def __init__(self, side: Side, engine: AnyEngine, schedule: str = "", want: Want = "all") -> None:
        self.side = side
        self.engine = engine
        self.want: Want = want
        self.state = engine.new()
        self.companions: list[Companion] = []
        self.start = self.rows = 0
        self.logits: F32 | None = None
        self.error: NonFiniteError | None = None
        if schedule == "ragged":
            self.companions = [Companion(engine.new(), i + 1, cycle(part)) for i, part in enumerate(COMPANIONS)]

    def behind(self, prompt: int, rows: int, lasting: int) -> "Lane":
        """Itself, behind so many companions that the step of a prompt has at least `rows` rows. `lasting` of them take
        part in the steps after it."""
        count = max(1, -(-rows // prompt) - 1)
        for i in range(count):
            lengths: Iterator[int | None] = repeat(None) if i >= count - lasting else iter([None])
            self.companions.append(Companion(self.engine.new(), i + 1, lengths))
        return self

    @property
    def choice(self) -> int:
        """The greedy choice: the first index of the largest logit."""
        assert self.logits is not None
        return int(np.argmax(self.logits[-1]))

    def digest(self, ids: list[int]) -> Kept:
        """Run a step -> what its tap was shown."""
        tap = DigestTap()
        self.step(ids, tap)
        return {("tap", key): shown for key, shown in tap.shown.items()}

    def capture(self, ids: list[int], names: Collection[str] = ()) -> dict[Key, Array]:
        """Run a step as `digest` does -> the tensors of some taps."""
        tap = CaptureTap(names)
        self.step(ids, tap)
        return tap.arrays

    def results(self, with_state: bool) -> Results:
        """What a finished step gave back: its logits and, where asked for, the exported state."""
        assert self.logits is not None
        start = self.start if self.want == "all" else self.state.length - 1
        out: Results = {("result", Key("logits", (start, self.state.length))): self.logits}
        if with_state:
            for name, array in self.engine.export(self.state).items():
                out["state", Key(name, (0, self.state.length))] = array
        return out

    def problems(self, kept: Kept, step: int) -> list[Problem]:
        """A step that was refused; an engine that shows nothing, beside which everything would look equal."""
        out = []
        if self.error is not None:
            out.append(Problem(step, self.side, "nonfinite", str(self.error)))
        if not any(kind == "tap" for kind, _ in kept):
            message = f"Expected engine {self.engine.name} to show its tensors to a tap but it showed none"
            out.append(Problem(step, self.side, "not-run", message))
        return out

    def step(self, ids: list[int], tap: Tap | None = None) -> None:
        """Run a step. Where the engine refuses the result, the tap has seen all of it. The sequence is the last of its
        batch, which is the one that a tap is shown."""
        self.start = self.state.length
        end = self.start + len(ids)
        beside = [(c.state, taken) for c in self.companions if (taken := c.take(ids, end))]
        rows = Rows.of([*beside, (self.state, ids)])
        self.rows = len(rows.ids)
        try:
            logits = self.engine.step(rows, self.want, tap)
            self.logits = logits[-1:] if self.want == "last" else logits[len(logits) - len(ids) :]
            self.error = None
        except NonFiniteError as error:
            self.logits, self.error = None, error


def measured(results: Results, taps: Kept) -> Kept:
    """The measures of what a step gave back; the tap of the same name is named as what it was made from."""
    shown = {key.name for _, key in taps}
    return {
        (kind, key): Shown(
            measure(array, key.name, UINT16[kind]),
            "step" if kind == "result" else "export",
            (key.name,) if key.name in shown else (),
        )
        for (kind, key), array in results.items()
    }
