"""The same run gives the same bytes: again, on another engine object, with and without a tap."""

from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject
from gnomon.gates.tally import Everything, Tally, prompts, whole

HEADER = Header(
    name="repeat",
    question="Does the same run give the same bytes again?",
    instrument="logits and exported state of runs on one engine object, on a second one, and under a tap",
    threshold="every tensor alive and identical, bit for bit, over all runs",
    disproof="one bit that differs in one of many repetitions; a race may need more of them than are made here",
    void="no prompt, an empty prompt, a model that does not load",
    numbers={"rows": 24, "runs": 3},
)


def run(subject: Subject) -> Outcome:
    tally = Tally()
    for model, ids in prompts(subject):
        ids = ids[: HEADER.numbers["rows"]]
        engine = subject.engine(model)
        logits, state = whole(engine, ids)
        others = {f"run {n} on one engine object": whole(engine, ids) for n in range(2, HEADER.numbers["runs"] + 1)}
        others["a second engine object"] = whole(subject.engine(model), ids)
        others["the run under a tap"] = whole(engine, ids, Everything())
        for where, (got, got_state) in others.items():
            tally.compare(f"{model.name}, {where}", got, logits, "logits")
            tally.compare_all(f"{model.name}, {where}, state", got_state, state)
    return tally.outcome(runs=HEADER.numbers["runs"] + 2)


GATE = Gate(
    HEADER,
    run,
    {
        "a race": (broken.flips_every_third_step, "run 3"),
        "memory that a former engine left": (broken.flips_later_engines, "a second engine object"),
        "a fused path with other bytes": (broken.flips_without_a_tap, "the run under a tap"),
    },
)
