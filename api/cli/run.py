"""`gnomon run`: continue a prompt, or many at once; text as it comes."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli import batch_file
from gnomon.cli.clock import Clock
from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import (
    ArmOption,
    EngineOption,
    IdsOption,
    JsonOption,
    KvOption,
    ModelArgument,
    PromptOption,
    SeedOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    prompt_ids,
)
from gnomon.cli.prompt_file import there
from gnomon.decode.batch import Batch
from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram
from gnomon.decode.generate import Generation
from gnomon.decode.text import Request, Text
from gnomon.reference.engine import Engine
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling


def command(
    model: ModelArgument,
    prompt: PromptOption = None,
    ids: IdsOption = None,
    batch: Annotated[
        Path | None,
        typer.Option("--batch", help="prompts to continue at once: a line each, or JSON objects in a .jsonl; -: stdin"),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "--steps", "-n", min=1, help="tokens after the prompt, at most")
    ] = 64,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    seed: SeedOption = 0,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="a text to end before; may be given again")] = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", help="ngram, model:NAME or engine:NAME: guesses that save passes, never a byte"),
    ] = None,
    stats: Annotated[
        bool,
        typer.Option("--stats", help="passes, guesses, and seconds of prefill and decode, on stderr or in the JSON"),
    ] = False,
    engine: EngineOption = "fast",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Continue a prompt; text streams as it comes (ids, for a model without a tokenizer). Same seed, same text."""
    sampling = Sampling(temperature, top_k, top_p, seed)
    if temperature == 0.0 and sampling != Sampling(temperature=0.0):
        raise UsageError(
            "Expected --temperature above 0 beside --top-k, --top-p or --seed: a greedy text draws nothing"
        )
    if batch is not None and (prompt, ids, draft) != (None, None, None):
        raise UsageError("Expected --batch without --prompt, --ids and --draft but got one of them")
    there(batch, "a file of prompts")
    loaded = load(model)
    eos = frozenset(loaded.tokenizer.eos_ids) if loaded.tokenizer else frozenset[int]()
    asked = Request([], max_tokens, sampling, eos, tuple(stop or ()))
    if batch is not None:
        return run_batch(batch, make_engine(engine, loaded, arm, kv), asked, stats, as_json)
    tokens = prompt_ids(loaded, ids, prompt)
    running = make_engine(engine, loaded, arm, kv)
    drafter = None if draft is None else drafter_of(draft, loaded, engine, arm, kv)
    made = Generation(running, Request(tokens, max_tokens, sampling, eos, asked.stop_texts), drafter)

    clock = Clock(len(tokens))
    if as_json:
        list(clock.timed(made))
    elif loaded.tokenizer:
        say([loaded.tokenizer.decode(tokens)])
        say(clock.timed(pieces(made)), end="\n")
    else:
        say((f"{token} " for token in clock.timed(made)), end="\n")
    figures = asdict(made.statistics) | clock.figures(len(made.text.ids), max(0, len(made.text.ids) - 1))
    if made.text.reason == "positions" and not as_json:
        full = f"the text fills all {loaded.config.max_positions} positions of {loaded.name}"
        print(f"stopped at {len(made.text.ids)} tokens: {full}", file=sys.stderr)
    if as_json:
        about = {"model": loaded.name, "engine": running.name, **fields(made.text)}
        print(json.dumps(about | ({"statistics": figures} if stats else {})))
    elif stats:
        print(", ".join(f"{name} {value}" for name, value in figures.items()), file=sys.stderr)
    return 0


def run_batch(path: Path, running: Engine[Any], asked: Request, stats: bool, as_json: bool) -> int:
    """Every prompt of a file at once; each text when it ends. Exit 1 where one ended in NaN, infinity or an error."""
    together, lines = Batch(running), dict[int, Text]()
    for number, request in batch_file.read(path, running.model, asked):
        with batch_file.line_of(path, number):
            lines[number] = together.join(request)
    clock = Clock(sum(len(text.request.ids) for text in lines.values()))
    shown: set[int] = set()
    decoded = 0
    while together.active or together.waiting:
        before = {id(text) for text in lines.values() if text.ids}
        rows = sum(text.state.length for text in lines.values())
        drawn = together.step()
        plain = sum(text.state.length for text in lines.values()) - rows == sum(id(one.text) in before for one in drawn)
        decoded += len(drawn) if plain else 0
        clock.lap(prefill=not plain)
        for number, text in lines.items():
            if text.reason and number not in shown:
                shown.add(number)
                if not as_json:
                    why = f": {text.error}" if text.error else ""
                    print(f"--- line {number}: {len(text.ids)} tokens, {text.reason}{why}")
                    print(readable(running.model, text), flush=True)
    figures = {"steps": together.steps} | clock.figures(sum(len(text.ids) for text in lines.values()), decoded)
    if as_json:
        texts = [{"line": number, **fields(text)} for number, text in lines.items()]
        about = {"model": running.model.name, "engine": running.name, "texts": texts}
        print(json.dumps(about | ({"statistics": figures} if stats else {})))
    elif stats:
        print(", ".join(f"{name} {value}" for name, value in figures.items()), file=sys.stderr)
    return int(any(text.reason in ("nonfinite", "failed") for text in lines.values()))


def drafter_of(draft: str, model: Model, engine: str, arm: str, kv: str) -> Drafter:
    """ngram; model:NAME, another model on the same engine; engine:NAME, the same model on another engine."""
    kind, _, name = draft.partition(":")
    if draft == "ngram":
        return Ngram()
    if kind == "engine" and name:
        return EngineDrafter(make_engine(name, model, arm, kv))
    if kind == "model" and name:
        other = load(name)
        if model.tokenizer and other.tokenizer and model.tokenizer.digest != other.tokenizer.digest:
            raise ModelError(
                f"Expected a model with the tokenizer of {model.name} for --draft but that of {other.name} is another: "
                "its ids mean other text"
            )
        return EngineDrafter(make_engine(engine, other, arm, kv))
    raise UsageError(f"Expected --draft to be ngram, model:NAME or engine:NAME but got {draft!r}")


def say(pieces: Iterable[str], end: str = "") -> None:
    """Print pieces as they come."""
    for piece in pieces:
        print(piece, end="", flush=True)
    print(end, end="", flush=True)


def pieces(made: Generation) -> Iterator[str]:
    """The text as it is made sure, all of it at the end."""
    while not made.text.reason:
        made.round()
        yield made.text.take()


def readable(model: Model, text: Text) -> str:
    """Prompt and continuation as text, or as ids."""
    if model.tokenizer is None:
        return " ".join(str(token) for token in text.known)
    return model.tokenizer.decode(text.request.ids) + (text.spelled() or "")


def fields(text: Text) -> dict[str, Any]:
    """A text as JSON shows it. text: null without a tokenizer; error: only where it failed"""
    shown = {"prompt": list(text.request.ids), "ids": text.ids, "text": text.spelled(), "reason": text.reason}
    return shown | ({"error": str(text.error)} if text.error else {})
