"""How a report leaves a verb: printed for the eye or as one JSON object, and as an HTML file where one is asked for."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.progress import Progress
from rich.text import Text

from gnomon.compare.report import Report
from gnomon.reference.errors import UsageError

NARROWEST = 80  # columns of what is printed where nobody says how wide it may be
UNBOUNDED = 1 << 20


class Output(Console):
    """Stdout. A terminal has a width, and COLUMNS sets one; in a file or a pipe there is none, and whatever is printed
    is as wide as it needs to be: no row of a table is wrapped."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, highlight=False, **settings)
        self.has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()

    def print(self, *objects: Any, **settings: Any) -> None:
        """As of rich."""
        if not self.has_width:
            self.width = max([NARROWEST, *map(self.columns, objects)])
        super().print(*objects, **settings)

    def on_broken_pipe(self) -> None:
        """rich would exit with 1, which is a verdict here."""
        raise BrokenPipeError

    def columns(self, printed: Any) -> int:
        """How wide it needs to be. The text of a report may be wrapped, so that its boxes stay of a size to look at."""
        if isinstance(printed, Group):
            return max((self.columns(part) for part in printed.renderables if not isinstance(part, Text)), default=0)
        whole = Text(printed) if isinstance(printed, str) else printed  # markup, if any, is counted too
        return self.measure(whole, options=self.options.update(width=UNBOUNDED)).maximum


def writable(path: Path | None) -> Path | None:
    """Refuse a path that cannot be written before the long work, not after it."""
    if path is not None and os.path.isdir(path):
        raise UsageError(f"Expected a file for --html but {str(path)!r} is a directory")
    if path is not None and not os.path.isdir(path.parent):
        raise UsageError(f"Expected --html in a directory that exists but there is no {str(path.parent)!r}")
    return path


HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", callback=writable, help="write the report as one HTML file, too"),
]


VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="every kind of tensor, identical ones too, and how an engine was built")
]


def progress_bar(hidden: bool = False) -> Progress:
    """A bar on stderr that leaves nothing behind. Where stderr is no terminal, even its end would be an empty line."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=hidden or not console.is_terminal)


def show(report: Report, as_json: bool, html: Path | None, verbose: bool = False) -> int:
    """Write the file first, so that it is there even where the reader of stdout has left -> the exit code."""
    if html is not None:
        report.write_html(html)
    if as_json:
        print(json.dumps(report.to_json()))
    else:
        console = Output()
        report.render(console, verbose=verbose)
        if html is not None:
            console.print(f"report: {html}", markup=False, soft_wrap=True)
    return report.exit_code
