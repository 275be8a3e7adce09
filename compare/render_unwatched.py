"""In words: what the runs without a tap say."""

from collections.abc import Sequence

from gnomon.compare.record import Record, Unwatched

FORMS = {
    "alone": "by itself",
    "last": "by itself, asked for the last row of logits only",
    "batch": "last in a batch of {rows} rows",
    "cut": "the prompt cut into steps of 4, 3, 1, 2, ... rows",
}
HIDDEN = "differs only when nobody looks"
ALWAYS = "differs from its own watched run"


def unwatched_lines(records: Sequence[Record]) -> list[str]:
    """The paragraphs, indented below their first lines."""
    return [line for first, *rest in paragraphs(records) for line in (first, *(f"  {text}" for text in rest))]


def paragraphs(records: Sequence[Record]) -> list[list[str]]:
    """Which engine, in which forms, from which step on; what hides it; the first tensor of the wrong path.

    Forms in which the same was found share a paragraph.
    """
    found: dict[tuple[object, ...], list[Unwatched]] = {}
    for r in records:
        if isinstance(r, Unwatched) and r.verdict != "identical":
            found.setdefault((r.engine, r.hidden_by, r.narrowest, r.tap, r.op), []).append(r)
    return [paragraph(group) for group in found.values()]


def paragraph(group: Sequence[Unwatched]) -> list[str]:
    """The lines on runs in which one thing was found."""
    first = group[0]
    hidden = first.hidden_by or first.narrowest
    lines = [f"{HIDDEN if hidden else ALWAYS}: engine {first.engine}"]
    for r in group:
        cut = "" if r.schedule == "whole" else f", schedule {r.schedule}"
        found = r.mismatch
        what = f"{found.count:,} of {found.values:,} values differ" if found is not None else r.verdict
        detail = f" ({r.detail})" if r.detail else ""
        lines.append(f"{FORMS[r.form].format(rows=r.rows)}{cut}: step {r.step}, {r.name}: {what}{detail}")
    if first.hidden_by:
        lines.append(f"each of these hides it when it is watched: {', '.join(first.hidden_by)}")
    if first.narrowest:
        lines.append(f"the narrowest set of taps that hides it: {named(first.narrowest)}")
    if not hidden and first.tap:
        lines.append("watching does not hide it")
    if first.tap:
        inputs = "from equal inputs" if first.inputs_equal else "from inputs of which not all were seen equal"
        lines.append(f"the first tensor to differ on that path: {first.tap}, made by {first.op} {inputs}")
    elif not hidden:
        lines.append("no tap shows that path: it did not come again, or every tap leaves it")
    return lines


def named(names: Sequence[str], most: int = 4) -> str:
    """A few names, or how many there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
