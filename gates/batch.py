"""Texts join and leave a running batch; none of them shows it."""

from collections.abc import Iterator
from itertools import count

from gnomon.decode.batch import Batch
from gnomon.decode.text import GREEDY, Request, Text
from gnomon.gates.faults import batches, neighbours
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.plain import Plain, plain
from gnomon.gates.tally import Tally, exported, prompts
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32

HEADER = Header(
    name="batch",
    question="Does a text in a batch that others join and leave have the bytes of the text alone?",
    instrument="every id, the row of logits of each, and every array of the exported state at the end, on two engine "
    "objects, by compare.judge; prompts of several lengths, cut by the row budget, greedy and sampled",
    threshold="every id equal, every tensor alive and identical, bit for bit",
    disproof="one id or one bit that differs beside other neighbours, in another slot, at another time of joining",
    void="no prompt, a prompt shorter than its rows, a schedule that never fills the slots",
    numbers={
        "slots": 3,
        "rows": 6,
        # step at which it joins, first row and length of its prompt, ids at most, seed (0: greedy), ids after which it
        # is taken out (0: it ends by itself)
        "texts": [[0, 0, 4, 8, 0, 0], [0, 4, 9, 3, 5, 0], [1, 1, 2, 9, 6, 4], [4, 5, 7, 5, 7, 0], [9, 2, 3, 4, 0, 0]],
        "texts_of_trained": [[0, 0, 4, 4, 0, 0], [1, 4, 7, 3, 5, 0]],  # they take most of the time
    },
)


def run(subject: Subject) -> Outcome:
    tally, steps = Tally(), 0
    for model, ids in prompts(subject):
        texts = HEADER.numbers["texts" if model.name == "micro" else "texts_of_trained"]
        if len(ids) < max(first + length for _, first, length, *_ in texts):
            raise VoidError(f"a prompt of {len(ids)} rows")
        requests = [
            Request(ids[first : first + length], tokens, Sampling(seed=seed) if seed else GREEDY)
            for _, first, length, tokens, seed, _ in texts
        ]
        batch = subject.batch(subject.engine(model), HEADER.numbers["slots"], HEADER.numbers["rows"])
        made = together(batch, requests, [text[0] for text in texts], [text[-1] for text in texts])
        for n, (request, (text, rows)) in enumerate(zip(requests, made, strict=True)):
            alone = plain(subject.engine(model), request)
            check(batch, text, rows, alone, texts[n][-1], tally, f"{model.name}, text {n}")
        steps += batch.steps
    return tally.outcome(steps=steps)


def together(
    batch: Batch, requests: list[Request], joins: list[int], leaves: list[int]
) -> Iterator[tuple[Text, list[F32]]]:
    """All requests in one batch: each text, and the rows that its ids were drawn from."""
    texts: list[Text] = []
    rows: dict[int, list[F32]] = {}
    for step in count():
        for request in requests[len(texts) : sum(join <= step for join in joins)]:
            texts.append(batch.join(request))
            rows[id(texts[-1])] = []
        for text, _, row in batch.step():
            rows[id(text)].append(row)
        for text, after in zip(texts, leaves, strict=False):
            if after and len(text.ids) == after and not text.reason:
                batch.leave(text)
        if len(texts) == len(requests) and not batch.active and not batch.waiting:
            return ((text, rows[id(text)]) for text in texts)
    raise AssertionError  # count() does not end


def check(batch: Batch, text: Text, rows: list[F32], alone: Plain, left: int, tally: Tally, where: str) -> None:
    """One text against itself alone. Raises FailedError at the first difference."""
    expected = alone.ids[: left or len(alone.ids)]
    for n, (token, right) in enumerate(zip(text.ids, expected, strict=False)):
        if token != right:
            raise FailedError(f"{where}: id {n} is {token}, expected {right}")
        tally.compare(f"{where}, id {n}", rows[n] if n < len(rows) else None, alone.rows[n], "logits")
    if len(text.ids) != len(expected) or len(rows) != len(expected):
        raise FailedError(f"{where}: {len(text.ids)} ids from {len(rows)} rows, expected {len(expected)}")
    held = [*text.request.ids, *expected][:-1]
    if text.state.ids != held or text.state.length != len(held):
        raise FailedError(f"{where}: the state holds {text.state.ids}, expected {held}")
    tally.compare_all(f"{where}, state", exported(batch.engine, text.state), alone.states[len(held)])
    if tally.unequal:
        raise FailedError(f"first difference: {tally.first}")


GATE = Gate(
    HEADER,
    run,
    {
        "rows go to the next slot": (neighbours.rows_to_the_next, "text 0: id"),
        "a text takes over a state that was used": (neighbours.used_state, "text 4"),
        "two sequences write to one cache": (neighbours.shared_cache, "text 1"),
        "ids are drawn at the position of the first text": (neighbours.position_of_the_first, "text 1: id"),
        "a prompt that the budget cut is drawn from": (neighbours.drawn_too_early, "text 1: id 0"),
        "positions are counted from the first sequence": (batches.positions_of_the_first, "text 1"),
        "the size of the batch decides the path": (broken.flips_rows(lambda rows: len(rows.spans) > 1), "logits"),
    },
)
