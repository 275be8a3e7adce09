"""A sequence feels nothing else in the engine: neighbours in a batch, earlier users of its slot, free memory."""

import numpy as np

from gnomon.gates.faults import batches
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import AnyEngine, Array, Gate, Header, Outcome, Subject
from gnomon.gates.tally import Tally, exported, in_parts, prompts, whole
from gnomon.reference.protocol import F32, Rows

HEADER = Header(
    name="isolation",
    question="Does a sequence give the same bytes alone, in a batch, in a re-used slot and with NaN in free memory?",
    instrument="every row of logits and every array of the exported state, on two engine objects, by compare.judge",
    threshold="every tensor alive and identical, bit for bit, at each place in the batch",
    disproof="one bit that differs beside another neighbour, after another user, with other memory",
    void="no prompt, a prompt shorter than its rows, a model that does not load",
    # Of two steps; wide: rows of a neighbour, more than the budget of a batch, in the first step of micro.
    numbers={"rows": [9, 5], "neighbours": [[5, 1], [1, 3]], "wide": 257},
)


def run(subject: Subject) -> Outcome:
    tally, steps = Tally(), HEADER.numbers["rows"]
    for model, ids in prompts(subject):
        others, ids = ids[::-1], ids[: sum(steps)]
        expected, state = whole(subject.engine(model), ids)
        runs = {
            f"at place {place} of a batch": in_a_batch(subject.engine(model), ids, others, place) for place in range(3)
        }
        if model.name == "micro":
            runs["in a wide batch"] = in_a_batch(subject.engine(model), ids, others * 2, 1, HEADER.numbers["wide"])
        runs["in a re-used slot"] = in_a_used_slot(subject.engine(model), ids, others)
        runs["with NaN in free memory"] = in_nan(subject.engine(model), ids)
        for where, (logits, arrays) in runs.items():
            tally.compare(f"{model.name} {where}", logits, expected, "logits")
            tally.compare_all(f"{model.name} {where}, state", arrays, state)
    return tally.outcome()


def in_a_batch(
    engine: AnyEngine, ids: list[int], others: list[int], place: int, wide: int = 0
) -> tuple[F32, dict[str, Array]]:
    """Between two neighbours, in steps of several rows each. wide: rows that the first step of the first has"""
    lengths = [*HEADER.numbers["neighbours"]]
    if wide:
        lengths[0] = [wide, lengths[0][1]]
    lengths.insert(place, HEADER.numbers["rows"])
    states, parts = [engine.new() for _ in lengths], []
    for step in range(len(HEADER.numbers["rows"])):
        batch = []
        for i, (state, rows) in enumerate(zip(states, lengths, strict=True)):
            source = ids if i == place else others
            batch.append((state, source[state.length : state.length + rows[step]]))
        start = sum(len(new) for _, new in batch[:place])
        parts.append(engine.step(Rows.of(batch), "all")[start : start + len(batch[place][1])])
    return np.concatenate(parts), exported(engine, states[place])


def in_a_used_slot(engine: AnyEngine, ids: list[int], others: list[int]) -> tuple[F32, dict[str, Array]]:
    """In a state that another sequence has used and left."""
    _, state = engine.forward(others[: len(ids)], want="none")
    engine.truncate(state, 0)
    logits, _ = engine.forward(ids, state, want="all")
    return logits, exported(engine, state)


def in_nan(engine: AnyEngine, ids: list[int]) -> tuple[F32, dict[str, Array]]:
    """With NaN in all memory that was not written yet."""
    engine.ops.scratch_fill = float("nan")
    return in_parts(engine, ids, HEADER.numbers["rows"])


GATE = Gate(
    HEADER,
    run,
    {
        "the first row feels the size of the batch": (
            broken.flips_rows(lambda rows: len(rows.spans) > 1),
            "at place 0 of a batch, logits",
        ),
        "a sequence after the first is skipped": (batches.later_sequences_skipped, "at place 1 of a batch, logits"),
        "positions are counted from the first sequence": (
            batches.positions_of_the_first,
            "at place 1 of a batch, logits",
        ),
        "another epsilon from 256 rows on": (broken.epsilon_from(256), "in a wide batch, logits"),
        "a slot keeps its recurrent state": (batches.recurrent_state_kept, "in a re-used slot"),
        "memory is read before it is written": (batches.memory_read, "gave NaN or infinity"),
    },
)
