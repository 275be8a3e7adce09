"""Records for the eye: the table of both forms, and the Rich renderables for the terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gnomon.compare.mismatch import Place, listed
from gnomon.compare.record import Config, FirstDivergence, Record, Summary, Tensor, WrongOp
from gnomon.compare.render_unwatched import unwatched_lines
from gnomon.compare.sentences import card_lines, fingerprint, headline, no_values, notes
from gnomon.compare.verdict import INCOMPARABLE, exit_code, worst
from gnomon.compare.words import counted

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
    parts += [Text(line, style="red") for line in unwatched_lines(records)]
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


def _colour(verdict: str) -> str:
    return {0: "green", 1: "red", 3: "yellow"}[exit_code(verdict)]
