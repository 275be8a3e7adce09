"""`gnomon bisect`: the smallest set of ops that makes two engines differ."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import ArmOption, IdsOption, JsonOption, KvOption, ModelArgument, PromptOption, prompt_ids
from gnomon.compare.bisect import bisect
from gnomon.compare.words import counted
from gnomon.reference.errors import UsageError


def command(
    model: ModelArgument,
    engines: Annotated[list[str], typer.Option("--engine", "-e", help="twice: the expected side, then the other")],
    ids: IdsOption = None,
    prompt: PromptOption = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="greedy tokens after the prompt")] = 2,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="runs per set, for faults that come and go")] = 1,
    log: Annotated[Path | None, typer.Option("--log", help="a file from which a search cut short goes on")] = None,
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Find the smallest set of ops of the second engine that must move to the first to make both identical."""
    if len(engines) != 2:
        raise UsageError(f"Expected --engine twice, such as -e numpy -e mlx, but got {len(engines)}")
    loaded = load(model)
    tokens = prompt_ids(loaded, ids, prompt, default="def main(" if loaded.tokenizer else None)
    expected, observed = (make_engine(name, loaded, arm, kv) for name in engines)
    console = Console(stderr=True, emoji=False, highlight=False)
    with console.status("both engines as they are", spinner="line") as status:
        found = bisect(expected, observed, tokens, steps, repeats, log, progress=status.update)
    if as_json:
        print(json.dumps(vars(found)))
    else:
        words = {
            "identical": "nothing to find: the two engines are identical on these tokens",
            "found": f"to blame: {', '.join(found.ops)}",
            "not-found": "the runs differ even with every op moved: the difference lies outside the ops",
        }
        known = f"; {counted(found.resumed, 'set')} had been tried before" if found.resumed else ""
        print(f"{words[found.verdict]} ({counted(found.trials, 'run')}{known})")
    return 0 if found.verdict == "identical" else 1
