"""How a prompt is cut into steps changes no bit, whatever the lengths of the steps, and however many rows one has."""

from collections.abc import Mapping, Sequence

import numpy as np

from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import AnyEngine, Array, Gate, Header, Outcome, Subject
from gnomon.gates.tally import Tally, exported, in_parts, prompts, rows_of, whole
from gnomon.gpu.row_counts import both_sides, row_choices
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32

HEADER = Header(
    name="chunk",
    question="Does cutting a prompt into steps of any lengths give the bytes of one step, of however many rows?",
    instrument="every row of logits and every array of the exported state, on two engine objects, by compare.judge; "
    "on micro, prompts of as many rows as a ladder has rungs, each in one step, against steps of a few rows. The "
    "rungs are those below, and both sides of every number of rows that code registers to choose by",
    threshold="every tensor alive and identical, bit for bit, for every schedule and every rung",
    disproof="one bit that differs under one schedule or at one number of rows; a number of rows that chooses, lies "
    "between two rungs and is not registered",
    void="no prompt, a prompt shorter than its schedule, a model that does not load",
    numbers={
        # Uneven ones, and the lengths about a chunk of 128 positions, where a kernel may change its path.
        "schedules": [[4, 3, 1, 2, 4], [6, 8], [127, 4], [128, 3], [129, 2], [1, 129, 1]],
        "schedules_of_trained": [[4, 3, 1, 2, 4], [127, 4], [129, 2]],  # fewer: they take most of the time
        "about": [8, 16, 32, 64, 128, 256, 512],  # rows: most choices fall there, of engines that register nothing too
        "highest": 660,  # rungs that choices of the code add; beyond the budget of a batch and a piece of a transcript
        "few": 5,  # rows of a step that rungs are held against
    },
)


def run(subject: Subject) -> Outcome:
    tally, ran, rungs = Tally(), 0, 0
    for model, ids in prompts(subject):
        known = {}
        schedules = HEADER.numbers["schedules" if model.name == "micro" else "schedules_of_trained"]
        for lengths in schedules:
            rows = sum(lengths)
            if rows not in known:
                known[rows] = whole(subject.engine(model), ids[:rows])
            logits, state = known[rows]
            got, got_state = in_parts(subject.engine(model), ids[:rows], lengths)
            where = f"{model.name} in steps of {','.join(str(n) for n in lengths)}"
            for position, (row, expected) in enumerate(zip(got, logits, strict=True)):
                tally.compare(f"{where}, position {position}", row, expected, "logits")
            tally.compare_all(f"{where}, state", got_state, state)
        ran += len(schedules)
        if model.name == "micro" and not tally.unequal:
            rungs = len(climb(subject, model, ids, tally))
    return tally.outcome(schedules=ran, rungs=rungs)


def climb(subject: Subject, model: Model, ids: list[int], tally: Tally) -> list[int]:
    """Prompts of every length that something may choose by, each in one step -> those lengths, up to the first that
    differs."""
    numbers, few = HEADER.numbers, subject.engine(model)  # which loads what registers
    chosen = {n + step for n in numbers["about"] for step in (-1, 0, 1)}
    chosen.update(both_sides(row_choices(), model, numbers["highest"]))
    rungs = sorted(rows for rows in chosen if rows > numbers["few"])
    ids = [ids[i % len(ids)] for i in range(rungs[-1])]
    expected, states = in_few(few, ids, rungs)
    for done, rows in enumerate(rungs, 1):
        logits, state = whole(subject.engine(model), ids[:rows])
        where = f"{model.name}, {rows} rows in one step"
        tally.compare(where, logits, expected[:rows], "logits")
        tally.compare_all(f"{where}, state", state, states[rows])
        if tally.unequal:
            return rungs[:done]
    return rungs


def in_few(engine: AnyEngine, ids: list[int], rungs: Sequence[int]) -> tuple[F32, Mapping[int, dict[str, Array]]]:
    """Steps of a few rows, with a stop at every rung -> all rows of logits, and the state at each rung"""
    state, parts, states = engine.new(), [], {}
    for rung in rungs:
        while state.length < rung:
            stop = min(state.length + HEADER.numbers["few"], rung)
            logits, _ = engine.forward(ids[state.length : stop], state, "all")
            parts.append(logits)
        states[rung] = exported(engine, state)
    return rows_of(np.concatenate(parts), ids), states


GATE = Gate(
    HEADER,
    run,
    {
        "several rows after the first step take another path": (
            broken.flips_rows(lambda rows: len(rows.ids) > 1 and rows.spans[0].state.length > 0),
            "4,3,1,2,4, position 4",
        ),
        "another kernel from 129 rows on": (
            broken.flips_rows(lambda rows: 129 <= len(rows.ids) < 131),
            "129,2, position 0",
        ),
        "another epsilon from 256 rows on": (broken.epsilon_from(256), "micro, 256 rows in one step, logits: "),
        "a bit of the state after two steps is turned": (
            broken.exports_otherwise(lambda steps: steps == 2),
            "6,8, state",
        ),
        "recurrent layers start each step of several rows from nothing": (
            broken.carry_dropped,
            "4,3,1,2,4, position 4",
        ),
    },
)
