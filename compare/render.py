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
from gnomon.compare.render_unwatched import beside, unwatched_lines
from gnomon.compare.verdict import INCOMPARABLE, exit_code, worst

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
        return (self.name, self.verdict, str(self.tensors), str(self.identical), f"{self.values:,}", live)


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
    live = f", {100 * summary.live / summary.values:.1f} % live" if summary.values else ""
    return (
        f"{summary.verdict}: {summary.identical} of {summary.tensors} tensors identical "
        f"({summary.values:,} values, {summary.bytes:,} bytes{live}), {summary.steps} steps"
    )


def positions(pos: tuple[int, int]) -> str:
    """The positions of a tensor in words."""
    start, stop = pos
    return f"position {start}" if stop == start + 1 else f"positions {start} to {stop - 1}"


def card_lines(card: FirstDivergence) -> list[str]:
    """The first divergence in words: where, made by what, from which inputs."""
    lines = [f"{card.tap}: {card.verdict}" + (f" ({card.detail})" if card.detail else "")]
    lines.append(f"step {card.step}, {positions(card.pos)}, made by {card.op}")
    if card.inputs:
        told = "all inputs are identical: this op made it" if card.inputs_equal else "not all inputs are identical"
        lines.append(told)
        lines += [f"  {i.name}: {i.verdict}" + f" ({i.kind})" * (i.kind != "tap") for i in card.inputs]
    return lines


def place_rows(place: Place) -> list[tuple[str, str, str]]:
    """One position: the two numbers in their four forms."""
    o, e = place.observed, place.expected
    return [
        ("decimal", o.decimal, e.decimal),
        ("hex float", o.hex, e.hex),
        ("bits", o.bits, e.bits),
        ("sign|exponent|mantissa", o.strip, e.strip),
        ("distance", place.distance, ""),
    ]


def notes(records: Sequence[Record]) -> list[str]:
    """What is no difference of values: problems, other choices of tokens, tensors that found no partner."""
    out = [f"{r.verdict}: step {r.step}, {r.side}: {r.message}" for r in records if isinstance(r, Problem)]
    out += [
        f"token: step {r.step}, position {r.pos}: observed {r.observed}, expected {r.expected}"
        for r in records
        if isinstance(r, Token)
    ]
    out += [
        f"{r.verdict}: step {r.step}, {r.name}" + (f" ({r.detail})" if r.detail else "")
        for r in records
        if isinstance(r, Tensor) and r.verdict in INCOMPARABLE
    ]
    return out if len(out) <= LISTED else [*out[:LISTED], f"and {len(out) - LISTED} more"]


def terminal(records: Sequence[Record], table: bool = True) -> RenderableType:
    """Fingerprint, verdict, card of the first divergence, notes, table."""
    parts: list[RenderableType] = []
    config = next((r for r in records if isinstance(r, Config)), None)
    if config is not None:
        parts += [
            Text(f"expected  {settings(config.expected)}"),
            Text(f"observed  {settings(config.observed)}"),
        ]
    for r in reversed(records):  # the summary is the last record, the card comes just before it
        if isinstance(r, Summary):
            parts.append(Text(headline(r) + beside(records, r), style=f"bold {_colour(r.verdict)}"))
            parts += [Text(line, style="red") for line in unwatched_lines(records)]
        elif isinstance(r, FirstDivergence):
            parts.append(Panel(_card(r), title="first divergence", title_align="left", border_style=_colour(r.verdict)))
    wrong = [r for r in records if isinstance(r, WrongOp)]
    if wrong:
        parts.append(_wrong_ops(wrong))
    parts += [Text(note, style="yellow") for note in notes(records)]
    rows = table_rows(records) if table else []
    if rows:
        kinds = Table(box=None, pad_edge=False)
        for i, column in enumerate(COLUMNS):
            kinds.add_column(column, justify="right" if i > 1 else "left", no_wrap=i != 0, overflow="fold")
        listed_rows = rows if len(rows) <= KINDS else rows[: KINDS // 2]
        for row in listed_rows:
            kinds.add_row(*(Text(c, style=_colour(row.verdict) if i == 1 else "") for i, c in enumerate(row.cells())))
        parts.append(kinds)
        if len(rows) > len(listed_rows):
            parts.append(Text(f"and {len(rows) - len(listed_rows)} more kinds of tensors"))
    return Group(*parts)


def _card(card: FirstDivergence) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in card_lines(card)]
    found = card.mismatch
    if found is not None:
        place = found.first[0]
        absolute = "" if card.position is None else f" (position {card.position})"
        grid = Table(box=None, pad_edge=False)
        for title in (f"at {listed(place.index)}{absolute}", "observed", "expected"):
            grid.add_column(title, overflow="fold")
        for row in place_rows(place):
            grid.add_row(*(Text(cell) for cell in row))
        more = [f"  {line}" for line in found.places()] if found.count > 1 else []
        parts += [Text(""), grid, Text(""), *(Text(line) for line in (found.total(), *more))]
    return Group(*parts)


def _wrong_ops(wrong: Sequence[WrongOp]) -> RenderableType:
    """Every op that gave other bytes for the same inputs, with its first mismatch."""
    table = Table(title="ops that are wrong by themselves", title_justify="left", box=None, pad_edge=False)
    for column in ("wrong op", "places", "verdict", "first at", "observed", "expected"):
        table.add_column(column)
    for r in wrong:
        place = r.mismatch.first[0] if r.mismatch and r.mismatch.first else None
        where = f"{r.name}{list(place.index)}" if place else r.name
        sides = [f"{side.decimal} {side.bits}" for side in (place.observed, place.expected)] if place else ["", ""]
        table.add_row(r.op, str(r.places), Text(r.verdict, style=_colour(r.verdict)), f"step {r.step}, {where}", *sides)
    return table


def settings(told: dict[str, str]) -> str:
    """name=value; of a digest, the first 16 digits"""
    return "  ".join(f"{name}={v[:16] if len(v) == 64 else v}" for name, v in told.items())


def _colour(verdict: str) -> str:
    return {0: "green", 1: "red", 3: "yellow"}[exit_code(verdict)]
