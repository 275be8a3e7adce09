"""Decode equals prefill: tokens one at a time leave the same bytes as all at once."""

from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject
from gnomon.gates.tally import Tally, in_parts, prompts, whole

HEADER = Header(
    name="incremental",
    question="Does feeding one token at a time give the bytes of feeding all tokens in one step?",
    instrument="every row of logits and every array of the exported state, on two engine objects, by compare.judge",
    threshold="every tensor alive and identical, bit for bit",
    disproof="one bit that differs at any position, in any array of the state",
    void="no prompt, an empty prompt, a model that does not load",
    numbers={"rows": 12},
)


def run(subject: Subject) -> Outcome:
    tally = Tally()
    for model, ids in prompts(subject):
        ids = ids[: HEADER.numbers["rows"]]
        logits, state = whole(subject.engine(model), ids)
        got, got_state = in_parts(subject.engine(model), ids, [1] * len(ids))
        for position, (row, expected) in enumerate(zip(got, logits, strict=True)):
            tally.compare(f"{model.name}, position {position}", row, expected, "logits")
        tally.compare_all(f"{model.name}, state after {len(ids)} rows", got_state, state)
    return tally.outcome()


GATE = Gate(
    HEADER,
    run,
    {
        "several rows take another path": (broken.flips_rows(lambda rows: len(rows.ids) > 1), "logits"),
        "positions restart with every step": (broken.positions_restart, "position 1, logits"),
        "the window is one wider in prefill": (broken.wider_window_in_prefill, "position 5, logits"),
        "the state of a decoded token is lost": (
            broken.exports_otherwise(lambda steps: steps > 1),
            "state after 12 rows",
        ),
    },
)
