"""`gnomon probe`: the arithmetic of a device on known answers."""

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from gnomon import models
from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.options import JsonOption
from gnomon.cli.show import Output
from gnomon.compare.probe import Probe, probe
from gnomon.compare.probe_cases import words

COLOURS = {"PASS": "green", "FAIL": "red", "NOT RUN": "yellow", "told": "dim"}


def command(
    engine: Annotated[list[str] | None, typer.Option("--engine", "-e", help="may be given more than once")] = None,
    as_json: JsonOption = False,
) -> int:
    """Find out how an engine's device computes. Exit 0: as the contract needs; 1: not so; 3: it could not be asked."""
    return max(probed(name, as_json) for name in engine or ["numpy"])


def probed(name: str, as_json: bool) -> int:
    """All batteries on one engine; with --json one object a line. The exit code."""
    running = make_engine(name, models.micro())
    found = probe(running.name, running.ops)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show(found)
    return found.exit_code


def show(found: Probe) -> None:
    """One line a battery, the first case that differs under one that failed, the fingerprint last."""
    console = Output(soft_wrap=True)
    table = Table("way", "battery", "verdict", "finding", box=None, pad_edge=False)
    for way, findings in found.findings.items():
        for f in findings:
            table.add_row(way, f.battery, f"[{COLOURS[f.verdict]}]{f.verdict}[/]", escape(words(f)))
    console.print(table)
    for way, findings in found.findings.items():
        for f in findings:
            if f.verdict == "FAIL":
                console.print(f"\n{way}, {f.battery}: {f.detail}", markup=False)
    stands = {0: "the contract can stand on it", 1: "not exact", 3: "not offered in full"}[found.exit_code]
    console.print(f"\n{found.engine}: {stands}; fingerprint {found.sha256}", markup=False)
