"""The experiment: do the ids of a continuation tell a corrupted state from the right one? Counters, bytes and transport
are asked the same.

The bar and the texts were fixed before the first run. That ids miss a corrupted state is a finding about ids, not about
the engine: `gnomon gate` runs this by name only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any, Literal

import numpy as np

from gnomon.decode.state_file import pack, receive, unpack
from gnomon.gates.faults import restoring as broken
from gnomon.gates.faults import states
from gnomon.gates.gate import AnyEngine, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.ids_subject import Counters, IdsSubject, RefusedError
from gnomon.reference.errors import GnomonError
from gnomon.reference.protocol import F32

HEADER = Header(
    name="ids",
    question="Do the ids of a continuation tell a state whose keys and values have changed places from the right one?",
    instrument="five conversations of different length, each saved before its last token; the saved state, the same "
    "with keys and values exchanged and signed again, and the same with one bit flipped are restored and continued "
    "greedily; asked are the transport, the bytes of the restored state saved again, the engine's counters of rows, "
    "and the ids, against those of the conversation that was not moved",
    threshold="ids go wrong for the exchanged states of at least 4 of 5 conversations, of every model; honest states "
    "come back right by bytes, counters and ids; exchanged ones are taken and come back as they were sent; flipped "
    "ones are refused, 5 of 5",
    disproof="texts on which ids tell more, or less: the interval says how little five conversations bind",
    void="a model that does not load or has no tokenizer, a conversation of fewer than two tokens",
    numbers={
        "tokens": 32,
        "bar": 4,
        "level": 0.95,
        "models": ["tiny-dense", "tiny-hybrid"],
        "conversations": [
            "import os",
            "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) +",
            "1 + 1 = 2\n2 + 2 = 4\n3 + 3 = 6\n4 + 4 = 8\n5 + 5 = 10\n6 + 6 = 12\n7 + 7 = 14\n8 + 8 =",
            "Q: What does the function len return?\nA: It returns the number of items in a container.\n"
            "Q: And what is the length of an empty list?\nA: It is zero, since there are no items in it.\n"
            "Q: What happens if the object has no length?\nA:",
            'class Stack:\n    """A list of items; the last one in is the first one out."""\n\n'
            "    def __init__(self):\n        self.items = []\n\n"
            "    def push(self, item):\n        self.items.append(item)\n\n"
            '    def pop(self):\n        if not self.items:\n            raise IndexError("pop from an empty stack")\n'
            "        return self.items.pop()\n\n"
            "    def __len__(self):\n        return len(self.items)\n\n    def is_empty(self):\n        return",
        ],
    },
)
StateKind = Literal["honest", "exchanged", "flipped"]


@dataclass(frozen=True)
class Trial:
    """One restored state. The four answers are to the same question: is this the state of the conversation?

    subject: engine and model; conversation: from 1; rows: positions of the saved state
    refused: what the transport said where it did not take it, "" where it did; the rest is then empty
    verified: saved once more, it has the bytes of the unmoved conversation; kept: it has the bytes that were sent
    counters: the engine counts the rows of an honest restore; ids: those of the unmoved conversation
    agree: ids before the first other one
    """

    subject: str
    conversation: int
    rows: int
    state: StateKind
    refused: str
    verified: bool | None = None
    kept: bool | None = None
    counters: bool | None = None
    ids: bool | None = None
    agree: int | None = None

    def row(self) -> dict[str, Any]:
        """For a table: what the transport said is left out, that it refused is not."""
        return asdict(self) | {"refused": bool(self.refused)}


def experiment(
    subject: IdsSubject,
    conversations: Sequence[str] = tuple(HEADER.numbers["conversations"]),
    tokens: int = HEADER.numbers["tokens"],
) -> list[Trial]:
    """Every conversation saved, restored in three forms, continued. Raises VoidError where one is too short."""
    trials = []
    for number, text in enumerate(conversations, 1):
        ids = subject.encode(text)
        if len(ids) < 2:
            raise VoidError(f"conversation {number} has {len(ids)} tokens")
        history, last = ids[:-1], ids[-1:]
        subject.prefill(history)
        saved = subject.save()
        expected = subject.generate(last, tokens)
        unmoved = Counters(len(history), subject.counters().computed - len(history))
        forms: list[tuple[StateKind, bytes]] = [
            ("honest", saved),
            ("exchanged", subject.exchange(saved)),
            ("flipped", subject.flip(saved)),
        ]
        for kind, sent in forms:
            where = (subject.name, number, len(history), kind)
            try:
                subject.load(sent)
            except RefusedError as error:
                trials.append(Trial(*where, str(error) or "refused"))
                continue
            again = subject.save()
            got = subject.generate(last, tokens)
            agree = next((i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b), tokens)
            right = subject.counters() == unmoved
            trials.append(Trial(*where, "", again == saved, again == sent, right, got == expected, agree))
    return trials


def power(trials: Iterable[Trial]) -> tuple[int, int, float, float]:
    """Exchanged states that were taken: how many ids tell, of how many, and the interval of the share."""
    taken = [t for t in trials if t.state == "exchanged" and not t.refused]
    wrong = sum(not t.ids for t in taken)
    return wrong, len(taken), *clopper_pearson(wrong, len(taken), HEADER.numbers["level"])


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """The shares at which k or more, and k or fewer, of n would be as rare as (1 - level) / 2.

    Source: Clopper and Pearson 1934, Biometrika 26, 404
    """

    def share(least: int, rare: float) -> float:
        """The p at which P(X >= least) is `rare`, by bisection: it grows with p."""
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2
            tail = sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(least, n + 1))
            low, high = (p, high) if tail < rare else (low, p)
        return low

    lower = 0.0 if k == 0 else share(k, (1 - level) / 2)
    return lower, 1.0 if k == n else share(k + 1, (1 + level) / 2)


class OwnSubject:
    """An engine of this package; its states move as state files."""

    def __init__(self, engine: AnyEngine) -> None:
        self.engine = engine
        self.name = f"{engine.name} {engine.model.name}"
        self._state, self._restored, self._computed = engine.new(), 0, 0

    def encode(self, text: str) -> list[int]:
        tokenizer = self.engine.model.tokenizer
        if tokenizer is None:
            raise VoidError(f"{self.engine.model.name} has no tokenizer")
        return tokenizer.encode(text)

    def prefill(self, ids: Sequence[int]) -> None:
        self._state, self._restored, self._computed = self.engine.new(), 0, 0
        self._run(ids)

    def save(self) -> bytes:
        return b"".join(pack(self.engine, self._state).pieces())

    def load(self, data: bytes) -> None:
        try:
            self._state = receive(self.engine, [data], len(data))
        except GnomonError as error:
            raise RefusedError(str(error)) from error
        self._restored, self._computed = self._state.length, 0

    def generate(self, ids: Sequence[int], n: int) -> list[int]:
        made: list[int] = []
        for _ in range(n):
            made.append(int(np.argmax(self._run(made[-1:] or ids)[-1])))
        return made

    def counters(self) -> Counters:
        return Counters(self._restored, self._computed)

    def exchange(self, data: bytes) -> bytes:
        return states.exchanged(unpack([data]))

    def flip(self, data: bytes) -> bytes:
        return states.flipped(unpack([data]))

    def _run(self, ids: Sequence[int]) -> F32:
        logits, _ = self.engine.forward(ids, self._state)
        self._computed += len(ids)
        return logits


def run(subject: Subject) -> Outcome:
    trials: list[Trial] = []
    for name in HEADER.numbers["models"]:
        trials += experiment(OwnSubject(subject.engine(subject.load(name))))
    return judged(trials)


RIGHT: dict[StateKind, dict[str, Any]] = {  # of a sound transport
    "honest": {"refused": False, "verified": True, "counters": True, "ids": True},
    "exchanged": {"refused": False, "verified": False, "kept": True},
    "flipped": {"refused": True},
}


def judged(trials: Sequence[Trial]) -> Outcome:
    """PASS where ids reached the bar for every subject, and transport and bytes were right throughout."""
    if not trials:
        raise VoidError("nothing was tried")
    problems, figures = [], dict[str, int | float](trials=len(trials))
    for trial in trials:
        found = asdict(trial) | {"refused": bool(trial.refused)}
        wrong = next((f for f, right in RIGHT[trial.state].items() if found[f] != right), None)
        if wrong is not None:
            where = f"{trial.subject}, conversation {trial.conversation}"
            problems.append(f"{where}, {trial.state} state: {wrong} {found[wrong]} {trial.refused}".rstrip())
    for name in dict.fromkeys(t.subject for t in trials):
        exchanged = [t for t in trials if t.subject == name and t.state == "exchanged"]
        told, of, low, high = power(exchanged)
        figures[f"of {of} told by ids ({name})"] = told
        figures[f"of {of} told by counters ({name})"] = sum(t.counters is False for t in exchanged)
        figures[f"low ({name})"], figures[f"high ({name})"] = round(low, 3), round(high, 3)
        if told < HEADER.numbers["bar"]:
            said = f"ids tell {told} of {of} exchanged states, bar {HEADER.numbers['bar']}"
            problems.append(f"{name}: {said} ({HEADER.numbers['level']:.0%} interval {low:.3f} to {high:.3f})")
    return Outcome("FAIL" if problems else "PASS", "; ".join(problems), figures, table=[t.row() for t in trials])


GATE = Gate(
    HEADER,
    run,
    {
        "states are cached by their ids": (broken.cached_by_ids, "ids tell 0 of 5"),
        "a restored state is computed again": (broken.computed_again, "exchanged state: verified True"),
        "the last position is lost": (broken.loses_last_position, "honest state: verified False"),
    },
)
