"""`gnomon explain`: why a tensor of a trace differs, by computing its op again under a menu of departures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.loaded import load
from gnomon.cli.options import ExpectedArgument, JsonOption, present
from gnomon.compare.explain.traces import explain_traces
from gnomon.compare.trace_read import Trace


def command(
    expected: ExpectedArgument,
    observed: Annotated[
        Path,
        typer.Argument(
            metavar="OBSERVED", callback=present("a trace directory"), help="the other trace, with its tensors"
        ),
    ],
    tap: Annotated[str | None, typer.Option("--tap", help="this tensor; default: the first that differs")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="where the weights are; default: the model that the trace names")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Name what reproduces every byte of the first differing tensor: an order of addition, a fused multiply-add, ..."""
    sides = Trace(expected), Trace(observed)
    found = explain_traces(*sides, load(model or sides[1].manifest.model), tap)
    if found is None:
        print(
            json.dumps({"type": "explanation", "verdict": "identical"}) if as_json else "identical: nothing to explain"
        )
        return 0
    print(json.dumps(found.to_dict()) if as_json else found.text())
    if found.verdict != "identical":
        return found.exit_code
    if not as_json:  # the two traces differ in it all the same
        print(
            "The traces differ in it, and the observed one is as the contract gives it: swap them to explain the other"
        )
    return 1
