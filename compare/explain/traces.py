"""Explain a difference between two traces, from the observed trace's own inputs."""

from gnomon.compare.explain.result import Explanation
from gnomon.compare.explain.tap import cut, explain_tap
from gnomon.compare.first import first_unequal
from gnomon.compare.lane import Array
from gnomon.compare.record import Problem
from gnomon.compare.trace_compare import STALE, compare_traces
from gnomon.compare.trace_read import Trace
from gnomon.reference.errors import UsageError
from gnomon.reference.identity import arithmetic, differences
from gnomon.reference.model import Model


def explain_traces(expected: Trace, observed: Trace, model: Model, name: str | None = None) -> Explanation | None:
    """Explain tensor `name` of the observed trace, or the first that differs; None where nothing differs.

    Raises UsageError for traces that are damaged, of another model or config or without the tensor; NotRunError where
    the tensor cannot be explained.
    """
    if observed.manifest.model_sha256 != model.digest:
        raise UsageError(
            f"Expected a trace of model {model.name} ({model.digest[:16]}) but got one of {observed.manifest.model} "
            f"({observed.manifest.model_sha256[:16]}); give --model"
        )
    for field, ours, theirs in differences(arithmetic(model), observed.manifest.config):
        raise UsageError(
            f"Expected a trace of {field}={ours}, as model {model.name} has it, but got one of {field}={theirs}; give "
            "--model"
        )
    report = compare_traces(expected, observed)
    for p in report.records:
        if isinstance(p, Problem) and p.message.endswith(STALE):
            raise UsageError(f"Expected a whole trace but in the {p.side} one, {p.message}; record it again")
    taps = [t for t in report.tensors if t.kind == "tap"]
    if not taps:
        why = next(
            (p.message for p in report.records if isinstance(p, Problem)), "Expected a tensor that both traces have"
        )
        raise UsageError(f"{why}; nothing can be explained across that")
    if name is not None:
        taps = [t for t in taps if t.name == name]
        if not taps:
            raise UsageError(f"Expected a tensor of both traces but got {name!r}")
    first = first_unequal(taps)
    if first is None:
        return None
    kept: dict[str, list[tuple[int, Array]]] = {}
    for record in observed.records:
        array = observed.array(record) if record.kind == "tap" and record.rows else None
        if array is not None:
            kept.setdefault(record.name, []).append((record.pos[0], array))
    tensor = cut(kept.get(first.name, []), *first.pos)
    if tensor is None:
        raise UsageError(f"Expected the values of {first.name} in the observed trace but it keeps digests only")
    arm = observed.manifest.engine.get("arm", "f32")
    return explain_tap(model, first.name, first.pos, tensor, lambda n, a, b: cut(kept.get(n, []), a, b), arm)
