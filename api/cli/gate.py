"""`gnomon gate`: the executable requirements, their planted faults or the kill matrix; a line each, the verdict
last; with --json one object and nothing else."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnomon.cli.options import JsonOption, KeyOption, signing_key
from gnomon.cli.show import Output
from gnomon.compare.probe import probe
from gnomon.engines import engine as make_engine
from gnomon.engines import engines as all_engines
from gnomon.engines import full_name
from gnomon.loading import load
from gnomon.models import micro
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.identity import arithmetic
from gnomon.reference.own_code import OwnCodeError

if TYPE_CHECKING:  # the gates are imported where they are run: no other verb waits for them
    from gnomon.gates.gate import Verdict
    from gnomon.gates.run import Result

COLOURS: "dict[Verdict, str]" = {"PASS": "green", "FAIL": "red", "VOID": "red", "NOT RUN": "yellow"}


def command(
    name: Annotated[str | None, typer.Argument(help="one gate, or the experiment ids; default: all gates")] = None,
    engine: Annotated[
        list[str] | None, typer.Option("--engine", "-e", help="required engines; default: all that can run here")
    ] = None,
    falsify: Annotated[
        bool, typer.Option("--falsify", help="run each gate on its planted faults: it must fail")
    ] = False,
    as_matrix: Annotated[
        bool, typer.Option("--matrix", help="run each mutation, or the one named, through all gates")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="the gates and what each asks")] = False,
    receipt_file: Annotated[Path | None, typer.Option("--receipt", help="write a hash-chained receipt")] = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the gates. Exit 0: every required one passed; 1: one failed or was void; 3: one could not be run."""
    from gnomon.gates import matrix, receipt
    from gnomon.gates.all import EXPERIMENTS, GATES
    from gnomon.gates.run import PROMPTS, run_faults, run_gates, subject

    asked = GATES | EXPERIMENTS
    if listed:
        questions = {gate.name: gate.header.question for gate in asked.values()}
        print(json.dumps(questions) if as_json else "\n".join(f"{n:15}{q}" for n, q in questions.items()))
        return 0
    if as_matrix and (falsify or engine):
        raise UsageError("Expected --matrix without --falsify and --engine: a mutation names its own engine")
    mutations = matrix.chosen(name) if as_matrix else []
    if name is not None and name not in asked and not as_matrix:
        raise UsageError(f"Expected a gate among {', '.join(asked)} but got {name!r}")
    if key_file is not None and receipt_file is None:
        raise UsageError("Expected --receipt FILE beside --key but got none")
    key = signing_key(key_file)
    if receipt_file is not None and not os.path.isdir(receipt_file.parent):
        raise UsageError(f"Expected a folder for the receipt but there is no {str(receipt_file.parent)!r}")
    gates = [asked[name]] if name and not as_matrix else list(GATES.values())
    asked_for = [mutation.engine for mutation in mutations] or engine
    absent = {} if engine or as_matrix else {n: reason for n, reason in all_engines().items() if reason}
    wanted = list(dict.fromkeys(map(full_name, asked_for or [n for n in all_engines() if n not in absent])))
    for wanted_name in wanted:
        known(wanted_name)

    console = Output(soft_wrap=True)
    results: list[Result] = []
    with as_file(files("gnomon") / "vectors") as vectors, progress(as_json) as bar:
        total = sum((len(g.faults) + 1 if falsify else 1) * (len(wanted) if g.per_engine else 1) for g in gates)
        task = bar.add_task("", total=len(mutations) or total)
        make_subject = partial(subject, make_engine, load, vectors)

        def started(gate: str, on: str) -> None:
            bar.update(task, description=f"{gate} {on}")

        run = run_faults if falsify else run_gates
        for result in (
            matrix.run_matrix(mutations, make_subject, started)
            if as_matrix
            else run(gates, wanted, make_subject, started)
        ):
            results.append(result)
            bar.advance(task)
            if not as_json:
                console.print(line(result))
                if result.outcome.table and not as_matrix:
                    console.width = max(console.width, 110)
                    console.print(below(result.outcome.table))
    if not as_json:
        for n, reason in absent.items():
            console.print(text("NOT RUN", "(all of them)", n, reason))
    what = "matrix" if as_matrix else "faults" if falsify else "gates"
    summary = summed_up(results, wanted, absent, what)
    if receipt_file is not None:
        described = [*(model_of(n) for n in PROMPTS), *(settings(n) for n in wanted)]
        public = receipt.write(receipt_file, summary, described, key)
        summary |= {"receipt": receipt_file.name} | ({"public_key": public} if public else {})
    if as_json:
        print(json.dumps(summary))
    else:
        counted = ", ".join(f"{count} {verdict}" for verdict, count in summary["counts"].items() if count)
        console.print(text(summary["verdict"], f"{what}:", "", counted or "nothing was run"))
        if receipt_file is not None:
            signed = f", signed by {summary['public_key']}" if "public_key" in summary else ""
            console.print(f"receipt: {receipt_file}{signed}", markup=False)
    return int(summary["exit_code"])


def known(engine: str) -> None:
    """Raises UsageError for a name that no engine has; one that cannot run here passes, and is NOT RUN later."""
    try:
        make_engine(engine, micro())
    except (UsageError, OwnCodeError):
        raise
    except Exception:  # a factory may raise anything; the gates say so one by one
        return


def settings(engine: str) -> dict[str, Any]:
    """What an engine says of itself while it runs, or why it does not run."""
    try:
        running = make_engine(engine, micro())
        told = {"probe": probe(engine, running.ops).for_receipt()} if running.ops.devices() else {}
        return {"type": "engine", "name": engine, "settings": running.describe(), **told}
    except GnomonError as error:
        return {"type": "engine", "name": engine, "absent": str(error)}


def model_of(name: str) -> dict[str, Any]:
    """Weights and config of a model as they are loaded here, or why they are not."""
    try:
        model = load(name)
        return {"type": "model", "name": name, "weights_sha256": model.digest, "config": arithmetic(model)}
    except GnomonError as error:
        return {"type": "model", "name": name, "absent": str(error)}


def progress(hidden: bool) -> Progress:
    """Which gate is running, on stderr; gone when it is over."""
    columns = SpinnerColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn()
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)


def line(result: "Result") -> str:
    """FAIL     incremental    mlx   first difference: ..."""
    outcome = result.outcome
    figures = ", ".join(f"{value:,} {name}" for name, value in outcome.figures.items())
    what = f"{'caught' if outcome.verdict == 'PASS' else 'missed'}: {result.fault}: " if result.fault else ""
    return text(outcome.verdict, result.gate, result.engine, what + (outcome.detail or figures))


def below(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The table of a gate, to be shown below its line."""
    words = {"True": "yes", "False": "no", "None": "-"}
    shown = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*(escape(words.get(str(value), str(value))) for value in row.values()))
    return shown


def text(verdict: "Verdict", gate: str, engine: str, detail: str) -> str:
    """One line in columns, its verdict coloured."""
    rest = f"  {gate:<14} {engine or '-':<10} {detail}".rstrip()
    return f"[{COLOURS[verdict]}]{verdict:<8}[/]{escape(rest)}"


def summed_up(results: "list[Result]", wanted: list[str], absent: dict[str, str], what: str) -> dict[str, Any]:
    """The last line. Its verdict is PASS only where the exit code is 0."""
    from gnomon.gates.run import exit_code

    code = exit_code(results)
    counts = Counter(result.outcome.verdict for result in results)
    return {
        "type": "summary",
        "what": what,
        "verdict": {0: "PASS", 1: "FAIL", 3: "NOT RUN"}[code],
        "exit_code": code,
        "counts": {verdict: counts[verdict] for verdict in COLOURS},
        "engines": wanted,
        "absent": absent,
        "results": [result.to_dict() for result in results],
    }
