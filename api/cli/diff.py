"""`gnomon diff`: two engines, every tensor of every step, bit for bit."""

from typing import Annotated

import typer

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import (
    ArmOption,
    IdsOption,
    JsonOption,
    KvOption,
    ModelArgument,
    PromptOption,
    SchedulesOption,
    prompt_ids,
)
from gnomon.cli.show import HtmlOption, VerboseOption, progress_bar, show
from gnomon.compare.diff import diff
from gnomon.compare.isolate import grafted
from gnomon.compare.isolate import isolate as isolated
from gnomon.compare.schedule import named
from gnomon.reference.errors import UsageError


def command(
    model: ModelArgument,
    engines: Annotated[list[str], typer.Option("--engine", "-e", help="twice: the expected side, then the other")],
    ids: IdsOption = None,
    prompt: PromptOption = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="greedy tokens after the prompt")] = 16,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="give every op of the second engine the first one's inputs")
    ] = False,
    op_set: Annotated[
        str | None, typer.Option("--op-set", help="only these ops come from the second engine, such as linear,mix")
    ] = None,
    schedule: SchedulesOption = "whole",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    html: HtmlOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> int:
    """Diff two engines bitwise, fed the same tokens; name the first tensor that differs and how."""
    if len(engines) != 2:
        raise UsageError(f"Expected --engine twice, such as -e numpy -e mlx, but got {len(engines)}")
    if isolate and op_set is not None:
        raise UsageError("Expected --isolate or --op-set but got both")
    schedules = named(schedule)
    if isolate and len(schedules) > 1:
        raise UsageError(f"Expected one --schedule with --isolate but got {schedule!r}")
    loaded = load(model)
    tokens = prompt_ids(loaded, ids, prompt, default="def main(" if loaded.tokenizer else None)
    expected, observed = (make_engine(name, loaded, arm, kv) for name in engines)
    with progress_bar(hidden=as_json) as bar:
        task = bar.add_task(f"{expected.name} | {observed.name}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if isolate:
            report = isolated(expected, observed, tokens, steps, progress, schedules[0])
        else:
            if op_set is not None:
                observed = grafted(expected, observed, [name for name in op_set.split(",") if name])
            report = diff(expected, observed, tokens, steps, progress, schedules)
    return show(report, as_json, html, verbose)
