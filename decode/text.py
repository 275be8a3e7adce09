"""A text in the making: what was asked, what was drawn, what its state holds, and what ends it.

Plain decoding is this and nothing more: feed what the state does not hold yet, draw from the last row, look whether the
text has ended. The last id drawn is never in the state: its row is fed when the next id is wanted.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gnomon.decode.spelling import Spelling
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32
from gnomon.reference.state import State
from gnomon.reference.token_ids import token_ids, whole_number

GREEDY = Sampling(temperature=0.0)

# A stop id or a stop text; max_tokens; no position left in the model; NaN or infinity; an error of this text alone;
# taken out before its end.
Reason = Literal["stop", "length", "positions", "nonfinite", "failed", "left"]


@dataclass(frozen=True)
class Request:
    """What is asked. ids: the prompt; max_tokens: ids to draw at most

    stop_ids: one of them ends the text and is not part of it; stop_texts: the text ends before the first of them,
    though the ids that spell it stay, since an id may hold more than it
    Raises UsageError for ids that are no whole numbers, and for a text that could not begin or never stop.
    """

    ids: Sequence[int]
    max_tokens: int
    sampling: Sampling = GREEDY
    stop_ids: Collection[int] = ()
    stop_texts: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", token_ids(self.ids))
        if any(i < 0 for i in token_ids(list(self.stop_ids))):
            raise UsageError(f"Expected stop ids from 0 up but got {min(self.stop_ids)}")
        whole_number("max_tokens", self.max_tokens)
        if isinstance(self.stop_texts, str) or not all(isinstance(text, str) for text in self.stop_texts):
            raise UsageError(f"Expected a list of stop texts but got stop_texts={self.stop_texts!r:.80}")
        if self.max_tokens < 1:
            raise UsageError(f"Expected at least one token to draw but got max_tokens={self.max_tokens!r}")
        if not all(self.stop_texts):
            raise UsageError("Expected stop texts of at least one character but got an empty one")


class Text:
    """A request on an engine.

    ids: what was drawn, a stop id left out; reason: why it ended, "" before that; error: where it failed
    state: holds the first state.length of prompt and ids, never the id drawn last
    """

    def __init__(self, engine: Engine[Any], request: Request, state: State | None = None) -> None:
        """state: one that holds a beginning of the prompt and that nothing else goes on with.

        Raises UsageError for a prompt that the model cannot read, so that it never fails beside others in a step.
        """
        config, tokenizer = engine.model.config, engine.model.tokenizer
        if not 1 <= len(request.ids) <= config.max_positions:
            raise UsageError(
                f"Expected a prompt of 1 to max_positions={config.max_positions} token ids but got {len(request.ids)}"
            )
        bad = next((i for i in request.ids if not 0 <= i < config.vocab), None)
        if bad is not None:
            raise UsageError(f"Expected token ids from 0 to {config.vocab - 1} but got {bad}")
        if request.stop_texts and tokenizer is None:
            raise UsageError(f"Expected a tokenizer for stop texts but model {engine.model.name} has none")
        self.request = request
        self.ids: list[int] = []
        self.reason: Reason | Literal[""] = ""
        self.error: Exception | None = None
        self.state = engine.new() if state is None else state
        self._spelling = Spelling(engine.model, request.stop_texts)
        self._spells = tokenizer is not None
        self._positions = config.max_positions
        if self.state.length >= len(request.ids) or self.state.ids != self.known[: self.state.length]:
            raise UsageError(
                f"Expected a state that holds a beginning of the {len(request.ids)} ids of the prompt, and not all of "
                f"them, but got one of {self.state.length} positions"
            )

    @property
    def known(self) -> list[int]:
        """Prompt and ids."""
        return [*self.request.ids, *self.ids]

    @property
    def unfed(self) -> list[int]:
        """What the state does not hold yet: of the prompt at first, later the id drawn last."""
        fed, prompt = self.state.length, len(self.request.ids)
        return self.ids[fed - prompt :] if fed >= prompt else [*self.request.ids[fed:], *self.ids]

    @property
    def room(self) -> int:
        """How many ids may still be drawn."""
        made = len(self.ids)
        return min(self.request.max_tokens - made, self._positions - len(self.request.ids) - made + 1)

    def draw(self, row: F32) -> int:
        """Draw the id that follows all known ones from its row of logits [vocab]; afterwards the text may have ended.

        The position is that of the row, whatever step it came from: this alone makes the id the one of plain decoding.
        """
        drawn = sample(row, self.request.sampling, len(self.request.ids) + len(self.ids) - 1)
        if drawn in self.request.stop_ids:
            self.reason = "stop"
            return drawn
        self.ids.append(drawn)
        self._spelling.add(drawn)
        if len(self.ids) == self.request.max_tokens:
            self.reason = "length"
        elif self.room < 1:
            self.reason = "positions"
        if self.reason and not self._spelling.stopped:
            self._spelling.end()  # where the last stop text may be
        if self._spelling.stopped:
            self.reason = "stop"
        return drawn

    def fail(self, error: Exception) -> None:
        """End this text with its error; others go on. What was drawn stays."""
        self.reason, self.error = "failed", error

    @property
    def text(self) -> str:
        """The ids as text, up to the first stop text, as numbers without a tokenizer; whole when the text has ended."""
        if self.reason not in ("", "failed"):
            self._spelling.end()
        return self._spelling.text

    def take(self) -> str:
        """What was made sure of the text since this was asked before."""
        if self.reason not in ("", "failed"):
            self._spelling.end()
        return self._spelling.take()

    def spelled(self) -> str | None:
        """The text; None without a tokenizer."""
        return self.text if self._spells else None
