"""Every op on known answers, then whole models against the reference, tensor by tensor."""

from gnomon.compare.diff import diff
from gnomon.compare.record import Problem, Unwatched
from gnomon.compare.report import Report
from gnomon.compare.vectors import run_vectors
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import Tally, prompts, whole

HEADER = Header(
    name="shadow",
    question="Does an engine cast the bytes of the reference, in every op and in whole models?",
    instrument="known answers of an independent implementation through the op table; compare.diff of every tap, logits "
    "and state over a prompt and decoded tokens; logits and state of a run without a tap, where fused paths are taken",
    threshold="every known answer of an op has its bits (functions inside ops may be absent); every tensor identical",
    disproof="a mistake that the reference shares: loader, tokenizer and wiring have judges of their own",
    void="no prompt, no known answers, a model that does not load",
    numbers={"rows": 14, "steps": 3, "least_answers": 30},
)


def run(subject: Subject) -> Outcome:
    tally, answers, absent = Tally(), 0, 0
    for model, ids in prompts(subject):
        ids = ids[: HEADER.numbers["rows"]]
        engine, reference = subject.engine(model), subject.reference(model)
        if not answers:
            inner = reference.ops.elementary()
            results = list(run_vectors(subject.vectors, engine.ops))
            for r in results:
                if r.verdict == "FAIL":
                    return Outcome("FAIL", f"{r.case}: {r.detail.splitlines()[0]}")
                if r.verdict == "NOT RUN" and not any(
                    r.case == name or r.case.startswith(f"{name}_") for name in inner
                ):
                    return Outcome("NOT RUN", f"{r.case}: {r.detail}")
            answers = sum(r.verdict == "PASS" for r in results)
            absent = len(results) - answers
            if answers < HEADER.numbers["least_answers"]:
                raise VoidError(f"{answers} known answers could be run, expected {HEADER.numbers['least_answers']}")
        report = diff(reference, engine, ids, steps=HEADER.numbers["steps"])
        if report.exit_code:
            return Outcome("FAIL", f"{model.name}, {first(report)}", {"answers": answers})
        tally.tensors += report.summary.compared
        tally.values += report.summary.values
        logits, state = whole(reference, ids)
        got, got_state = whole(engine, ids)
        tally.compare(f"{model.name}, without a tap", got, logits, "logits")
        tally.compare_all(f"{model.name}, without a tap, state", got_state, state)
    return tally.outcome(answers=answers, functions_absent=absent)


def first(report: Report) -> str:
    """The first divergence in one line."""
    card = report.first_divergence
    if card is None:
        wrong = [r for r in report.records if isinstance(r, Unwatched) and r.verdict != "identical"]
        if wrong:
            made = f", first at {wrong[0].tap}, made by {wrong[0].op}" if wrong[0].tap else ""
            return f"without a tap, {wrong[0].name}: {wrong[0].verdict} ({wrong[0].form}){made}"
        problem = next((r for r in report.records if isinstance(r, Problem)), None)
        return problem.message if problem else report.verdict
    made = f", made by {card.op}" if card.inputs_equal else ""
    what = f"; {card.mismatch.headline()}" if card.mismatch else ""
    return f"first difference: {card.tap}, step {card.step}: {card.verdict}{made}{what}"


GATE = Gate(
    HEADER,
    run,
    {
        "a square matrix is transposed": (
            broken.transposed("blocks.0.attn.q.weight"),
            "blocks.0.attn.q, step 0: differs, made by linear",
        ),
        "query head h reads kv head h mod kv_heads": (
            broken.tiled_heads,
            "blocks.0.attn.scores, step 0: differs, made by scores",
        ),
        "the last terms of each product are dropped": (broken.tail_dropped, "linear: linear y: differs"),
        "one bit of one gated unit": (broken.flips("swiglu"), "swiglu: swiglu y: ulp<=1"),
        "a fused path with other bytes": (broken.flips_without_a_tap, "without a tap, logits: ulp<=1"),
    },
)
