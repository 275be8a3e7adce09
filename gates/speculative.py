"""Drafts save passes and change no byte: each round leaves what plain decoding would have left."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram
from gnomon.decode.generate import Generation, Round
from gnomon.decode.text import GREEDY, Request
from gnomon.gates.faults import drafts as broken
from gnomon.gates.gate import AnyEngine, FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.plain import Plain, attention_only, plain, with_ties
from gnomon.gates.tally import Tally, exported, prompts
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling

HEADER = Header(
    name="speculative",
    question="Does a text made with drafts equal plain decoding after every round, and do right drafts save passes?",
    instrument="ids, the row of logits of each, and length, ids and every array of the exported state after every "
    "round, on two engine objects, by compare.judge; on a model with recurrent layers, and on one without in which "
    "every maximum of the logits stands twice; greedy and sampled; with a stop id inside a draft",
    threshold="every id equal, every tensor alive and identical, bit for bit; right drafts and those of the same "
    "engine are accepted at the floor or above and take the share of the passes of plain decoding or less",
    disproof="one id or one bit that differs after any round, under any draft: other texts are as good as these",
    void="no prompt, a prompt shorter than its rows, a text in which no id first stands inside a draft",
    numbers={
        "rows": 6,
        "tokens": 9,
        "tokens_of_trained": 6,  # they take most of the time
        "guesses": 4,
        "sampling": {"temperature": 1.0, "top_p": 0.95, "seed": 7},
        "acceptance": 1.0,
        "share": 0.5,
    },
)


class Guesses:
    """The right guesses, but for those of each draft at which `wrong` is true: they are the next id."""

    def __init__(self, text: Sequence[int], vocab: int, wrong: Callable[[int], bool]) -> None:
        self.text, self.vocab, self.wrong = text, vocab, wrong

    def draft(self, ids: Sequence[int], limit: int, sampling: Sampling) -> list[int]:
        right = self.text[len(ids) : len(ids) + limit]
        return [(guess + 1) % self.vocab if self.wrong(n) else guess for n, guess in enumerate(right)]


def run(subject: Subject) -> Outcome:
    tally, rounds = Tally(), 0
    for model, request in cases(subject):
        alone = plain(subject.engine(model), request)
        for name, drafter in drafters(subject.engine, model, request, alone):
            where = f"{model.name}, {'greedy' if request.sampling == GREEDY else 'sampled'}, {name}"
            made = subject.generation(subject.engine(model), request, drafter, HEADER.numbers["guesses"])
            rounds += follow(made, alone, tally, where)
            if name.startswith("right") or name == "the same engine":
                saves(made, alone, where)
        stopped, cut = with_a_stop(request, alone)
        drafter = Guesses([*request.ids, *alone.ids], model.config.vocab, lambda n: False)
        made = subject.generation(subject.engine(model), stopped, drafter, HEADER.numbers["guesses"])
        rounds += follow(made, cut, tally, f"{model.name}, a stop inside a draft")
    return tally.outcome(rounds=rounds)


def cases(subject: Subject) -> Iterator[tuple[Model, Request]]:
    """Each model sampled; and, where it is small, greedy, and greedy without recurrent layers and with ties."""
    sampling = Sampling(**HEADER.numbers["sampling"])
    for model, ids in prompts(subject):
        rows = ids[: HEADER.numbers["rows"]]
        if len(rows) < HEADER.numbers["rows"]:
            raise VoidError(f"a prompt of {len(rows)} rows")
        if model.name == "micro":
            yield model, Request(rows, HEADER.numbers["tokens"])
            yield with_ties(attention_only(model)), Request(rows, HEADER.numbers["tokens"])
        yield model, Request(rows, HEADER.numbers["tokens_of_trained" if model.name != "micro" else "tokens"], sampling)


def drafters(
    make: Callable[[Model], AnyEngine], model: Model, request: Request, alone: Plain
) -> Iterator[tuple[str, Drafter]]:
    text, vocab = [*request.ids, *alone.ids], model.config.vocab
    yield "right drafts", Guesses(text, vocab, lambda n: False)
    yield "drafts wrong at the third id", Guesses(text, vocab, lambda n: n == 2)
    yield "the same engine", EngineDrafter(make(model))
    if "micro" in model.name:
        yield "wrong drafts", Guesses(text, vocab, lambda n: True)
        yield "drafts wrong at the first id", Guesses(text, vocab, lambda n: n == 0)
        yield "n-grams", Ngram()


def with_a_stop(request: Request, alone: Plain) -> tuple[Request, Plain]:
    """The request with a stop id that first stands inside a draft, and plain decoding up to it."""
    ids = alone.ids
    at = next((n for n in range(2, len(ids) - 1) if ids.index(ids[n]) == n), 0)
    if not at:
        raise VoidError("no id first stands inside a draft")
    return replace(request, stop_ids=[ids[at]]), Plain(ids[: at + 1], alone.rows[: at + 1], alone.states)


def follow(made: Generation, alone: Plain, tally: Tally, where: str) -> int:
    """Hold every round against plain decoding; how many there were. Raises FailedError at the first difference."""
    prompt, drawn, rounds = list(made.text.request.ids), 0, 0
    while not made.text.reason:
        this = made.round()
        rounds += 1
        check(made, this, drawn, prompt, alone, tally, f"{where}, round {rounds}")
        drawn += len(this.ids)
    if drawn != len(alone.ids):
        raise FailedError(f"{where}: the text ended after {drawn} ids, expected {len(alone.ids)}")
    return rounds


def check(made: Generation, this: Round, drawn: int, prompt: list[int], alone: Plain, tally: Tally, where: str) -> None:
    """One round, before which `drawn` ids were drawn."""
    if drawn + len(this.ids) > len(alone.ids):
        raise FailedError(f"{where}: {drawn + len(this.ids)} ids, expected the text to end after {len(alone.ids)}")
    state = made.text.state
    held = [*prompt, *alone.ids][: len(prompt) + drawn + len(this.ids) - 1]
    if state.ids != held or state.length != len(held):
        raise FailedError(f"{where}: the state holds {state.ids}, expected {held}")
    for n, (token, row) in enumerate(zip(this.ids, this.logits, strict=True), drawn):
        if token != alone.ids[n]:
            raise FailedError(f"{where}: id {n} is {token}, expected {alone.ids[n]}")
        tally.compare(f"{where}, id {n}", row, alone.rows[n], "logits")
    tally.compare_all(f"{where}, state", exported(made.engine, state), alone.states[len(held)])
    if tally.unequal:
        raise FailedError(f"first difference: {tally.first}")


def saves(made: Generation, alone: Plain, where: str) -> None:
    """Raises FailedError unless guesses were made, accepted and worth it."""
    count, numbers = made.statistics, HEADER.numbers
    if not count.drafted or count.accepted < numbers["acceptance"] * count.drafted:
        raise FailedError(f"{where}: {count.accepted} of {count.drafted} guesses accepted")
    if count.passes > numbers["share"] * len(alone.ids):
        raise FailedError(f"{where}: {count.passes} passes for {len(alone.ids)} ids")


GATE = Gate(
    HEADER,
    run,
    {
        "rejected rows stay in the state": (broken.rows_stay, "the state holds"),
        "recurrent layers keep rejected rows": (broken.recurrent_rows_stay, "third id, round 2, state, blocks.2.rec"),
        "one id too many is accepted": (broken.one_too_many, "third id, round 2: the state holds"),
        "guessed rows are sampled a position late": (broken.late, "sampled, right drafts, round 2: id"),
        "the id after the draft comes from the last guessed row": (broken.other_row, "right drafts, round 2: id 5"),
        "a stop inside a draft is not seen": (broken.no_stop, "expected the text to end after"),
        "a tie goes to the highest id": (broken.highest_id, "with ties, greedy"),
        "drafts of a sampled text are greedy": (broken.greedy_drafts, "the same engine: 0 of"),
        "drafts are not used": (broken.no_drafts, "0 of 0 guesses accepted"),
    },
)
