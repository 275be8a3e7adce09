"""`gnomon trace`: run an engine on one sequence and keep every tensor."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import (
    EngineOption,
    IdsOption,
    JsonOption,
    ModelArgument,
    PromptOption,
    ScheduleOption,
    prompt_ids,
)
from gnomon.cli.show import progress_bar
from gnomon.compare.render_unwatched import unwatched_lines
from gnomon.compare.trace_compare import unwatched_of
from gnomon.compare.trace_write import write_trace


def command(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="directory to make; must not exist, or be empty")],
    ids: IdsOption = None,
    prompt: PromptOption = None,
    engine: EngineOption = "numpy",
    steps: Annotated[int, typer.Option("--steps", min=0, help="greedy tokens after the prompt")] = 0,
    digests_only: Annotated[bool, typer.Option("--digests-only", help="keep digests, no values")] = False,
    schedule: ScheduleOption = "whole",
    as_json: JsonOption = False,
) -> int:
    """Write a trace: every tap of every step, the state at the end, and what they were made from."""
    loaded = load(model)
    tokens = prompt_ids(loaded, ids, prompt)
    running = make_engine(engine, loaded)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that an ended run, too, leaves nothing behind
    with progress_bar(hidden=as_json) as bar:
        task = bar.add_task("trace", total=None)
        manifest = write_trace(
            running,
            tokens,
            out,
            steps=steps,
            schedule=schedule,
            digests_only=digests_only,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print(json.dumps({"trace": str(out), **manifest.to_json()}))
    else:
        kept = "digests" if digests_only else "tensors"
        print(f"{out}: {manifest.records} {kept} of {len(manifest.ids)} positions, {running.name} on {loaded.name}")
        if manifest.failed is not None:
            print(manifest.failed)
        for line in unwatched_lines(unwatched_of("observed", manifest)):
            print(line)
    same = all(form["verdict"] == "identical" for form in manifest.unwatched)
    return 0 if manifest.failed is None and same else 1
