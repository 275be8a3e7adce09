"""A report: the records of one comparison, and the forms in which they can be read."""

import io
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from gnomon.compare import render
from gnomon.compare.record import (
    Config,
    FirstDivergence,
    Problem,
    Record,
    Summary,
    Tensor,
    Token,
    Unwatched,
    to_dict,
    to_jsonl,
)
from gnomon.compare.verdict import INCOMPARABLE, exit_code, worst
from gnomon.reference import shown
from gnomon.reference.aside import write_aside

TEXT_WIDTH = 120


@dataclass(frozen=True)
class Report:
    """records: in order of execution; the last is the summary, and every form below reads from it"""

    records: tuple[Record, ...]

    @staticmethod
    def of(records: Sequence[Record], steps: int = 0) -> "Report":
        """Close a list of records with its summary. steps: how many both sides finished"""
        return Report((*records, summarise(records, steps)))

    @property
    def summary(self) -> Summary:
        last = self.records[-1]
        assert isinstance(last, Summary)
        return last

    @property
    def verdict(self) -> str:
        """The worst verdict of all records; `not-run` where no tensor was compared."""
        return self.summary.verdict

    @property
    def exit_code(self) -> int:
        """0 identical, 1 differs, 3 incomparable or not run"""
        return self.summary.exit_code

    @property
    def first_divergence(self) -> FirstDivergence | None:
        return next((r for r in self.records if isinstance(r, FirstDivergence)), None)

    @property
    def tensors(self) -> list[Tensor]:
        return [r for r in self.records if isinstance(r, Tensor)]

    def render(self, console: Console, table: bool = True, verbose: bool = False) -> None:
        """Print the report with Rich.

        table: with a line for each kind of tensor that is not identical; verbose: for every kind, and every setting
        """
        console.print(render.terminal(self.records, table, verbose))
        config = next((r for r in self.records if isinstance(r, Config)), None)
        if config is not None:  # on one line whatever the width, so that it can be copied
            console.print(f"to see it again: {config.command}", style="dim", soft_wrap=True, markup=False, emoji=False)

    def text(self, verbose: bool = False) -> str:
        """What `render` prints, without colour."""
        out = io.StringIO()
        self.render(Console(file=out, width=TEXT_WIDTH, color_system=None, force_jupyter=False), verbose=verbose)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

    def to_json(self) -> dict[str, Any]:
        """One dict: the verdict first, then every record."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "records": [to_dict(r) for r in self.records],
        }

    def to_jsonl(self) -> str:
        """One line per record; the last is the summary."""
        return to_jsonl(self.records)

    def to_html(self) -> str:
        """One HTML document that needs no network, no script and no other file."""
        from gnomon.compare.html import page  # and with it Jinja, which no other form needs

        return page(self.records)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write `to_html` aside, then rename it into place. Raises UsageError where that cannot be done."""
        write_aside(path, [self.to_html().encode()])

    def __repr__(self) -> str:
        """A few lines, whatever was found; `text` says it all."""
        s, first = self.summary, self.first_divergence
        config = next((r for r in self.records if isinstance(r, Config)), None)
        fields = {"first": "" if first is None else f"{first.tap} in step {first.step}, made by {first.op}"}
        if config is not None:
            engines = {"observed": config.observed["engine"], "expected": config.expected["engine"]}
            fields = engines | fields | {"again": config.command}
        return shown.lines(f"{s.verdict}: {s.identical:,} of {s.tensors:,} tensors identical", fields)

    def _repr_html_(self) -> str:
        from gnomon.compare.html import fragment

        return fragment(self.records)


def summarise(records: Sequence[Record], steps: int) -> Summary:
    """Totals of some records. Nothing compared is `not-run`, whatever else was found."""
    tensors = [r for r in records if isinstance(r, Tensor)]
    unwatched = [r for r in records if isinstance(r, Unwatched)]
    both = [
        (r.observed, r.expected)
        for r in tensors
        if r.observed is not None and r.expected is not None and r.verdict not in INCOMPARABLE
    ]
    found = [r.verdict for r in records if isinstance(r, Tensor | Token | Problem | Unwatched)]
    verdict = worst(found) if both else "not-run"
    return Summary(
        verdict=verdict,
        exit_code=exit_code(verdict),
        tensors=len(tensors),
        compared=len(both),
        identical=sum(r.verdict == "identical" for r in tensors),
        values=sum(e.values for _, e in both),
        bytes=sum(e.nbytes for _, e in both),
        live=sum(min(o.live, e.live) for o, e in both),
        steps=steps,
        verdicts=dict(Counter(r.verdict for r in tensors)),
        unwatched=len(unwatched),
        unwatched_differ=sum(r.verdict != "identical" for r in unwatched),
        hidden=any(r.hidden_by or r.narrowest for r in unwatched),
    )
