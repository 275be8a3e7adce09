"""Something is computed: no tensor is dead, and other tokens give other numbers."""

from gnomon.compare.digest_tap import DigestTap
from gnomon.compare.verdict import judge, judge_measures
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import prompts, rows_of, sentence

HEADER = Header(
    name="liveness",
    question="Is every tensor alive, and does the result depend on the token ids?",
    instrument="each tap and the state of a run, judged by compare.judge against themselves; rows of logits, each "
    "against all others and against those of a run of the same tokens in another order",
    threshold="no tensor with fewer than 1/8 of its values finite and not zero (for exp: no row without a 1.0), no two "
    "rows of logits equal, no layer without a tap",
    disproof="a tensor that is dead by design, or an engine that is wrong and lively",
    void="no prompt, a prompt that holds fewer than two tokens, a model that does not load",
    numbers={"rows": 14},
)


def run(subject: Subject) -> Outcome:
    tensors = values = 0
    for model, ids in prompts(subject):
        ids = ids[: HEADER.numbers["rows"]]
        if len(set(ids)) < 2:
            raise VoidError(f"the prompt of {model.name} holds fewer than two tokens")
        tap, engine = DigestTap(), subject.engine(model)
        logits, state = engine.forward(ids, want="all", tap=tap)
        others, _ = engine.forward([*ids[1:], ids[0]], want="all")
        rows = [row.tobytes() for row in (*rows_of(logits, ids), *rows_of(others, ids))]
        found = [judge_measures(shown.measure, shown.measure, key.name) for key, shown in tap.shown.items()]
        found += [judge(array, array, name) for name, array in engine.export(state).items()]
        for finding in found:
            if finding.verdict != "identical":
                return Outcome("FAIL", f"{model.name}, {sentence(finding)}")
            tensors += 1
            values += finding.expected.live if finding.expected else 0
        silent = [
            i for i in range(model.config.layers) if not any(k.name.startswith(f"blocks.{i}.") for k in tap.shown)
        ]
        if silent:
            return Outcome("FAIL", f"{model.name}, layer {silent[0]} shows nothing to a tap")
        if len(set(rows)) < len(rows):
            return Outcome("FAIL", f"{model.name}, {len(rows)} rows of logits hold {len(set(rows))} different ones")
    return Outcome("PASS", "", {"tensors": tensors, "live": values})


GATE = Gate(
    HEADER,
    run,
    {
        "every token embeds as zeros": (broken.embeds_zeros, "embed: dead"),
        "every token embeds as the first": (broken.embeds_the_first, "28 rows of logits hold 14"),
        "the last layer adds nothing": (broken.dead_result("add", "resid_post"), "resid_post: dead"),
        "the head repeats its first row": (broken.repeats_logits, "28 rows of logits hold 2"),
    },
)
