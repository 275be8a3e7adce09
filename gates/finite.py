"""No NaN, no infinity, in any tensor; and one that is planted is reported, not swallowed."""

from dataclasses import replace

import numpy as np

from gnomon.compare.digest_tap import DigestTap
from gnomon.compare.verdict import measure
from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import FailedError, Gate, Header, Outcome, Subject
from gnomon.gates.tally import prompts
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.model import Model

HEADER = Header(
    name="finite",
    question="Is every value finite, and is a NaN or infinity that arises reported instead of given back?",
    instrument="counts of every tap, of the logits and of the state; then the same run with one number replaced",
    threshold="no value of any tensor is NaN or infinite; the run with a planted one raises NonFiniteError",
    disproof="a NaN that no tap shows, or one that an op drops on the way",
    void="no prompt, an empty prompt, a model that does not load",
    numbers={"rows": 14, "planted": ["nan", "inf", "-inf"]},
)


def run(subject: Subject) -> Outcome:
    tensors = values = planted = 0
    for model, ids in prompts(subject):
        ids = ids[: HEADER.numbers["rows"]]
        tap, engine = DigestTap(), subject.engine(model)
        logits, state = engine.forward(ids, want="all", tap=tap)
        measures = {key.name: shown.measure for key, shown in tap.shown.items()}
        measures |= {f"state {name}": measure(array, name) for name, array in engine.export(state).items()}
        measures["result"] = measure(logits, "logits")
        for name, m in measures.items():
            if m.finite < m.values:
                return Outcome("FAIL", f"{model.name}, {name}: {m.values - m.finite} of {m.values} values not finite")
            tensors += 1
            values += m.values
        for value in HEADER.numbers["planted"]:
            must_report(subject, model, ids, float(value))
            planted += 1
    return Outcome("PASS", "", {"tensors": tensors, "values": values, "planted": planted})


def must_report(subject: Subject, model: Model, ids: list[int], value: float) -> None:
    """Raises FailedError where `value` in the embedding of the last token does not end the step."""
    engine = subject.engine(planted_in(model, ids[-1], value))
    try:
        engine.forward(ids, want="all")
    except NonFiniteError:
        return
    raise FailedError(f"{model.name}, {value} in the embedding of token {ids[-1]} was not reported")


def planted_in(model: Model, token: int, value: float) -> Model:
    """The model with the first number of one embedding row replaced; F32 or BF16"""
    table = model.weights["embed.weight"]
    data = table.data.copy()
    bits = np.float32(value).view(np.uint32)
    if table.dtype == "BF16":
        data.view("<u2")[token, 0] = bits >> np.uint32(16)
    else:
        data.view("<u4")[token, 0] = bits
    return replace(model, weights={**model.weights, "embed.weight": replace(table, data=data)})


GATE = Gate(
    HEADER,
    run,
    {
        "NaN where no row looks": (broken.nan_in_unseen_scores, "scores: 4 of 784"),
        "NaN is dropped on the way": (broken.drops_nan, "was not reported"),
        "NaN is given back": (broken.gives_nan_back, "result: 1 of"),
    },
)
