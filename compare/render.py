"""Records for the eye: what the terminal and the HTML file both say, and the Rich renderables for the terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gnomon.compare.mismatch import Place, listed
from gnomon.compare.record import Config, FirstDivergence, Problem, Record, Summary, Tensor, Token, WrongOp
from gnomon.compare.verdict import INCOMPARABLE, exit_code, worst
from gnomon.compare.words import counted, joined

BUILD = ("kernels", "compiler", "flags", "target", "cuda", "nvrtc", "driver")  # settings that only --verbose shows
STATEFUL = (
    "kv_append",
    "scores",
    "mix",
    "attention",
    "causal_conv",
    "delta_rule",
    "export",
)  # read more than their inputs
NOT_REPEATED = "to repeat itself"  # as in the problem that first.py reports
NAMED = 4  # tensors that were left out: named in one sentence of the terminal
LISTED = 10  # missing tensors, tokens and problems that are spelled out; the rest are counted
KINDS = 40  # kinds of tensors in the table; of more, half as many are listed and the rest counted
COLUMNS = ("tensor", "verdict", "tensors", "identical", "values", "live")


@dataclass(frozen=True)
class Row:
    """All tensors of one kind: a tap name without its block number, over all blocks and steps."""

    name: str
    verdict: str
    tensors: int
    identical: int
    values: int
    live: int

    def cells(self) -> tuple[str, ...]:
        live = f"{100 * self.live / self.values:.1f} %" if self.values else "-"
        return (self.name, self.verdict, f"{self.tensors:,}", f"{self.identical:,}", f"{self.values:,}", live)


def table_rows(records: Sequence[Record]) -> list[Row]:
    """One row per kind of tensor, in the order in which the kinds first ran."""
    kinds: dict[str, list[Tensor]] = {}
    for r in records:
        if isinstance(r, Tensor):
            name = re.sub(r"\bblocks\.\d+\.", "blocks.*.", r.name)
            kinds.setdefault(name if r.kind in ("tap", "op") else f"{name} ({r.kind})", []).append(r)
    rows = []
    for name, tensors in kinds.items():
        both = [
            (r.observed, r.expected) for r in tensors if r.observed and r.expected and r.verdict not in INCOMPARABLE
        ]
        rows.append(
            Row(
                name,
                worst(r.verdict for r in tensors),
                len(tensors),
                sum(r.verdict == "identical" for r in tensors),
                sum(e.values for _, e in both),
                sum(min(o.live, e.live) for o, e in both),
            )
        )
    return rows


def headline(summary: Summary) -> str:
    """One line: the verdict, and what it rests on."""
    basis = f"{counted(summary.values, 'value')}, {counted(summary.bytes, 'byte')}"
    basis += f", {100 * summary.live / summary.values:.1f} % live" if summary.values else ""
    return f"{summary.verdict}: {outcome(summary)} ({basis}; {counted(summary.steps, 'step')})"


def outcome(summary: Summary) -> str:
    """How many tensors were identical, differed, and could not be compared."""
    if not summary.compared:
        return "nothing was compared"
    differ = summary.compared - summary.identical
    apart = summary.tensors - summary.compared
    tensors = counted(summary.compared, "tensor")
    if not differ:
        told = f"all {tensors} have the same bytes" if summary.compared > 1 else "the one tensor has the same bytes"
    else:
        told = f"{differ:,} of {tensors} {'differs' if differ == 1 else 'differ'}"
    told += f", {apart:,} more could not be compared" if apart else ""
    return told + (", but there are other findings" if summary.verdict != "identical" and not differ + apart else "")


def positions(pos: tuple[int, int]) -> str:
    """The positions of a tensor in words."""
    start, stop = pos
    return f"position {start}" if stop == start + 1 else f"positions {start} to {stop - 1}"


def card_lines(card: FirstDivergence) -> list[str]:
    """The first divergence in words: where, made by what, from which inputs."""
    lines = [f"{card.tap}: {card.verdict}" + (f" ({card.detail})" if card.detail else "")]
    lines.append(f"step {card.step}, {positions(card.pos)}, made by {card.op}")
    if card.inputs:
        lines.append(blame(card))
        lines += [f"  {i.name}: {i.verdict}" + f" ({i.kind})" * (i.kind != "tap") for i in card.inputs]
    return lines


def blame(card: FirstDivergence) -> str:
    """What the inputs say about the op."""
    if card.inputs_equal:
        state = ", or the state that it carries from step to step" if card.op in STATEFUL else ""
        return f"all inputs are identical: this op made it{state}"
    wrong = [i.name for i in card.inputs if i.verdict != "identical" and i.kind != "unseen"]
    if wrong:
        return f"{joined(wrong)} {'differs' if len(wrong) == 1 else 'differ'} already: the difference is older"
    unseen = [i.name for i in card.inputs if i.kind == "unseen"]
    return f"{joined(unseen)} {'was' if len(unseen) == 1 else 'were'} not seen: the difference may be older"


def no_values(card: FirstDivergence, records: Sequence[Record]) -> str:
    """Why a card has no numbers to show."""
    if card.detail:
        return card.detail
    repeated = not any(isinstance(r, Problem) and NOT_REPEATED in r.message and card.tap in r.message for r in records)
    return "known by digest only" if repeated else "it came out otherwise when the same tokens ran again"


def place_rows(place: Place) -> list[tuple[str, str, str]]:
    """One position: the two numbers in their four forms, and how far apart they are."""
    o, e = place.observed, place.expected
    return [
        ("decimal", o.decimal, e.decimal),
        ("hex float", o.hex, e.hex),
        ("bits", o.bits, e.bits),
        ("sign|exponent|mantissa", o.strip, e.strip),
        ("distance", place.told, ""),
    ]


def notes(records: Sequence[Record]) -> list[str]:
    """Findings that are not value differences: errors, other choices of tokens, tensors without a partner."""
    out = [f"{r.verdict}: step {r.step}, {r.side}: {r.message}" for r in records if isinstance(r, Problem)]
    out += [
        f"token: step {r.step}, position {r.pos}: the greedy choice is {r.observed}, expected {r.expected}"
        for r in records
        if isinstance(r, Token)
    ]
    out += [
        f"{r.verdict}: step {r.step}, {r.name}" + (f" ({r.detail})" if r.detail else "")
        for r in records
        if isinstance(r, Tensor) and r.verdict in INCOMPARABLE
    ]
    out = out if len(out) <= LISTED else [*out[:LISTED], f"and {len(out) - LISTED:,} more"]
    return out + left_out(records)


def left_out(records: Sequence[Record], named: int = NAMED) -> list[str]:
    """What was not compared: one sentence each. named: tensors that a sentence names; the rest it counts"""
    config = next((r for r in records if isinstance(r, Config)), None)
    if config is None:
        return []
    summary = records[-1]
    out = []
    for count, names, what in (
        (len(config.left_out), config.left_out, "of the observed side has no partner by the map"),
        (len(config.not_held), config.not_held, "of the expected side was not compared with anything"),
    ):
        if count:
            some = ", ".join(names[:named]) + (f" and {count - named:,} more" if count > named else "")
            verb = what if count == 1 else what.replace("has", "have").replace("was", "were")
            out.append(f"left out: {counted(count, 'tensor')} {verb}: {some}")
    left = config.steps + 1 - summary.steps if isinstance(summary, Summary) else 0
    if left > 0:
        out.append(f"not-run: {left:,} of {counted(config.steps + 1, 'step')} did not finish on both sides")
    states = sorted({r.step for r in records if isinstance(r, Tensor) and r.kind == "state"})
    steps = {r.step for r in records if isinstance(r, Tensor)}
    if states and len(states) < len(steps):
        after = joined([str(s) for s in states])
        out.append(f"the state was exported and compared after step{'s' * (len(states) > 1)} {after} only")
    return out


def terminal(records: Sequence[Record], table: bool = True, verbose: bool = False) -> RenderableType:
    """Verdict, settings, card of the first divergence, notes, table of the kinds that are not identical.

    verbose: every kind of tensor, and every setting
    """
    parts: list[RenderableType] = []
    summary = records[-1]
    if isinstance(summary, Summary):
        parts.append(Text(headline(summary), style=f"bold {_colour(summary.verdict)}"))
    config = next((r for r in records if isinstance(r, Config)), None)
    if config is not None:
        parts += [Text(f"{side:<10}{told}") for side, told in fingerprint(config, verbose).items() if told]
    for r in records:
        if isinstance(r, FirstDivergence):
            card = _card(r, records)
            parts.append(Panel(card, title="first divergence", title_align="left", border_style=_colour(r.verdict)))
    wrong = [r for r in records if isinstance(r, WrongOp)]
    if wrong:
        parts.append(_wrong_ops(wrong))
    parts += [Text(note, style="yellow") for note in notes(records)]
    if table:
        parts += _kinds(table_rows(records), verbose)
    return Group(*parts)


def _kinds(rows: Sequence[Row], verbose: bool) -> list[RenderableType]:
    """The table; without `verbose`, of the kinds that are not identical, and a count of the others."""
    shown = [row for row in rows if verbose or row.verdict != "identical"]
    same = len(rows) - len(shown)
    parts: list[RenderableType] = []
    cut = shown if verbose or len(shown) <= KINDS else shown[: KINDS // 2]
    if cut:
        kinds = Table(box=None, pad_edge=False)
        for i, column in enumerate(COLUMNS):
            kinds.add_column(column, justify="right" if i > 1 else "left", no_wrap=i != 0, overflow="fold")
        for row in cut:
            kinds.add_row(*(Text(c, style=_colour(row.verdict) if i == 1 else "") for i, c in enumerate(row.cells())))
        parts.append(kinds)
    if len(shown) > len(cut):
        parts.append(Text(f"and {counted(len(shown) - len(cut), 'more kind', 'more kinds')} of tensors"))
    if same and shown:
        kinds_of = counted(same, "other kind of tensors is", "other kinds of tensors are")
        parts.append(Text(f"{kinds_of} identical in all blocks and steps"))
    return parts


def _card(card: FirstDivergence, records: Sequence[Record]) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in card_lines(card)]
    found = card.mismatch
    if found is None:
        return Group(*parts, Text(f"no values to show: {no_values(card, records)}"))
    place = found.first[0]
    absolute = "" if card.position is None else f" (position {card.position})"
    grid = Table(box=None, pad_edge=False)
    for title in (f"first at {listed(place.index)}{absolute}", "observed", "expected"):
        grid.add_column(title, overflow="fold")
    for row in place_rows(place):
        grid.add_row(*(Text(cell) for cell in row))
    parts += [Text(""), grid, Text(""), Text(found.total()), *([Text(found.where)] if found.where else [])]
    if found.count > 1:
        places = Table(box=None, pad_edge=False)
        for title in (found.worst_title(), "observed", "expected", "distance", "error", "relative"):
            places.add_column(title, overflow="fold")
        for p in found.worst:
            cells = (listed(p.index), p.observed.decimal, p.expected.decimal, p.distance, p.absolute, p.relative)
            places.add_row(*(Text(cell or "-") for cell in cells))
        parts += [Text(""), places]
    return Group(*parts)


def _wrong_ops(wrong: Sequence[WrongOp]) -> RenderableType:
    """Every op that gave other bytes for the same inputs, with the worst value of its first mismatch."""
    table = Table(title="ops that are wrong by themselves", title_justify="left", box=None, pad_edge=False)
    for column in ("wrong op", "places", "verdict", "first at", "worst there", "observed", "expected", "distance"):
        table.add_column(column)
    for r in wrong:
        place = r.mismatch.worst[0] if r.mismatch and r.mismatch.worst else None
        cells = [listed(place.index), place.observed.decimal, place.expected.decimal, place.distance] if place else []
        verdict = Text(r.verdict, style=_colour(r.verdict))
        table.add_row(r.op, f"{r.places:,}", verdict, f"step {r.step}, {r.name}", *(cells or [r.detail, "", "", ""]))
    lines = [Text(f"{r.op}: {r.mismatch.where}") for r in wrong if r.mismatch and r.mismatch.where]
    return Group(table, *lines)


def fingerprint(config: Config, verbose: bool = True) -> dict[str, str]:
    """What both sides share, once; then what is of one side. Without `verbose`, how an engine was built is left out,
    except where that is what tells the two sides apart."""
    e, o = config.expected, config.observed
    hidden = () if verbose else [n for n in BUILD if not (n in e and n in o and e[n] != o[n])]
    both = {name: value for name, value in e.items() if o.get(name) == value and name not in hidden}
    own = [{n: v for n, v in side.items() if n not in both and n not in hidden} for side in (e, o)]
    return {"both": settings(both), "expected": settings(own[0]), "observed": settings(own[1])}


def settings(told: dict[str, str]) -> str:
    """name=value; of a digest, the first 16 digits"""
    return "  ".join(f"{name}={v[:16] if len(v) == 64 else v}" for name, v in told.items())


def _colour(verdict: str) -> str:
    return {0: "green", 1: "red", 3: "yellow"}[exit_code(verdict)]
