"""`gnomon selftest`: known answers through the ops of an engine, and through whole runs of a small model."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from gnomon import models
from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.options import JsonOption, present
from gnomon.cli.show import Output
from gnomon.compare.known_runs import known_runs
from gnomon.compare.vectors import Result, run_vectors
from gnomon.compare.words import counted
from gnomon.reference.errors import UsageError


def command(
    engine: Annotated[list[str] | None, typer.Option("--engine", "-e", help="may be given more than once")] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors",
            callback=present("a folder of vector files"),
            help="a folder of cases; default: the ones built in",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="a line for every case, not only the failures")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Run known answers bit for bit. Exit 0: all passed; 1: one failed; 3: one could not be run."""
    if vectors is not None and not vectors.is_dir():
        raise UsageError(f"Expected a folder of vector files at {str(vectors)!r} but it is a file")
    return max(answered(name, vectors, as_json, verbose) for name in engine or ["numpy"])


def answered(name: str, vectors: Path | None, as_json: bool, verbose: bool = False) -> int:
    """All cases on one engine; with --json one object a line. The exit code."""
    running = make_engine(name, models.micro())
    with as_file(files("gnomon") / "vectors") as built_in:
        results = list(run_vectors(vectors or built_in, running.ops))
    if vectors is None:
        results += known_runs(running, (files("gnomon") / "vectors" / "runs" / "micro.json").read_text("utf-8"))
    counts = {verdict: sum(r.verdict == verdict for r in results) for verdict in ("PASS", "FAIL", "NOT RUN")}
    if as_json:
        print(json.dumps({"engine": running.name, **counts, "cases": [vars(r) for r in results]}))
    else:
        show(running.name, results, counts, verbose)
    if counts["FAIL"]:
        return 1
    return 3 if counts["NOT RUN"] or not counts["PASS"] else 0


def show(engine: str, results: list[Result], counts: dict[str, int], verbose: bool) -> None:
    """The verdict, then a line for each case that did not pass, with its mismatch; verbose: a line for every case."""
    console = Output()
    values = sum(r.values for r in results)
    told = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    console.print(f"{engine}: {told} ({counted(values, 'value')} compared)")
    table = Table("case", "verdict", "values", "", box=None, pad_edge=False)
    colours = {"PASS": "green", "FAIL": "red", "NOT RUN": "yellow"}
    for r in results:
        if verbose or r.verdict != "PASS":
            detail = Text(r.detail.split("\n")[0])
            table.add_row(
                r.case, Text(r.verdict, style=colours[r.verdict]), f"{r.values:,}" if r.values else "", detail
            )
    if table.row_count:
        console.print(table)
    for r in results:
        if r.verdict == "FAIL":
            console.print(f"\n{r.detail}", markup=False)
