"""One engine running one sequence, and what is kept of its latest step: measures, or chosen tensors."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.bits import Uint16
from gnomon.compare.digest_tap import CaptureTap, DigestTap, Key, Shown
from gnomon.compare.record import Kind, Problem, Side
from gnomon.compare.verdict import measure
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.protocol import F32, Rows, Tap

AnyEngine = Engine[Any]
Array = NDArray[Any]
# A state stores bf16 as uint16, and nothing else so.
UINT16: dict[Kind, Uint16] = {"tap": "u16", "result": "u16", "state": "bf16"}
Kept = dict[tuple[Kind, Key], Shown]


class Lane:
    """start to state.length: positions of the latest step; logits: its result, None where it failed"""

    def __init__(self, side: Side, engine: AnyEngine) -> None:
        self.side = side
        self.engine = engine
        self.state = engine.new()
        self.start = 0
        self.logits: F32 | None = None
        self.error: NonFiniteError | None = None

    @property
    def choice(self) -> int:
        """The greedy choice: the first index of the largest logit."""
        assert self.logits is not None
        return int(np.argmax(self.logits[-1]))

    def digest(self, ids: list[int]) -> Kept:
        """Run a step -> what its tap was shown."""
        tap = DigestTap()
        self._step(ids, tap)
        return {("tap", key): shown for key, shown in tap.shown.items()}

    def capture(self, ids: list[int], names: Collection[str] = ()) -> dict[Key, Array]:
        """Run a step as `digest` does -> the tensors of some taps."""
        tap = CaptureTap(names)
        self._step(ids, tap)
        return tap.arrays

    def results(self, with_state: bool) -> dict[tuple[Kind, Key], Array]:
        """What a finished step gave back: its logits and, where asked for, the exported state."""
        assert self.logits is not None
        out: dict[tuple[Kind, Key], Array] = {("result", Key("logits", (self.start, self.state.length))): self.logits}
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

    def _step(self, ids: list[int], tap: Tap) -> None:
        """With every row of logits. Where the engine refuses the result, the tap has seen the whole step."""
        self.start = self.state.length
        try:
            self.logits = self.engine.step(Rows.of([(self.state, ids)]), "all", tap)
            self.error = None
        except NonFiniteError as error:
            self.logits, self.error = None, error


def measured(results: dict[tuple[Kind, Key], Array], taps: Kept) -> Kept:
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
