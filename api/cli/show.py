"""How a report leaves a verb: printed for the eye or as one JSON object, and as an HTML file where one is asked for."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from gnomon.compare.report import Report
from gnomon.reference.errors import UsageError


def writable(path: Path | None) -> Path | None:
    """Refuse a path that cannot be written before the long work, not after it."""
    if path is not None and path.is_dir():
        raise UsageError(f"Expected a file for --html but {str(path)!r} is a directory")
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"Expected --html in a directory that exists but there is no {str(path.parent)!r}")
    return path


HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", callback=writable, help="write the report as one HTML file, too"),
]


def progress_bar(hidden: bool = False) -> Progress:
    """A bar on stderr that leaves nothing behind. Where stderr is no terminal, even its end would be an empty line."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=hidden or not console.is_terminal)


def show(report: Report, as_json: bool, html: Path | None) -> int:
    """Write the file first, so that it is there even where the reader of stdout has left -> the exit code."""
    if html is not None:
        report.write_html(html)
    if as_json:
        print(json.dumps(report.to_json()))
    else:
        console = Console(emoji=False, highlight=False)
        report.render(console)
        if html is not None:
            console.print(f"report: {html}", markup=False, soft_wrap=True)
    return report.exit_code
