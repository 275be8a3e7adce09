"""How a prompt is cut into steps changes no bit, whatever the lengths of the steps."""

from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject
from gnomon.gates.tally import Tally, in_parts, prompts, whole

HEADER = Header(
    name="chunk",
    question="Does cutting a prompt into steps of any lengths give the bytes of one step?",
    instrument="every row of logits and every array of the exported state, on two engine objects, by compare.judge",
    threshold="every tensor alive and identical, bit for bit, for every schedule",
    disproof="one bit that differs under one schedule; other lengths are as good as these",
    void="no prompt, a prompt shorter than its schedule, a model that does not load",
    numbers={
        # Uneven ones, and the lengths about a chunk of 128 positions, where a kernel may change its path.
        "schedules": [[4, 3, 1, 2, 4], [6, 8], [127, 4], [128, 3], [129, 2], [1, 129, 1]],
        "schedules_of_trained": [[4, 3, 1, 2, 4], [127, 4], [129, 2]],  # fewer: they take most of the time
    },
)


def run(subject: Subject) -> Outcome:
    tally, ran = Tally(), 0
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
    return tally.outcome(schedules=ran)


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
