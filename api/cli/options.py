"""Arguments that several verbs share, and how they are read."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gnomon.loading import nothing_at
from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model
from gnomon.reference.strict_json import show


def present(what: str) -> Callable[[Path | None], Path | None]:
    """A callback that refuses a path where nothing is, before any long work. what: such as "a state file"."""

    def checked(path: Path | None) -> Path | None:
        if path is not None and not os.path.exists(path):
            raise UsageError(nothing_at(what, path))
        if path is not None and not (os.path.isfile(path) or os.path.isdir(path)):
            raise UsageError(f"Expected {what} at {str(path)!r} but that is a device or a pipe; name a file")
        return path

    return checked


ModelArgument = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="micro, tiny-dense, tiny-hybrid, a Hugging Face directory, or a GGUF file"),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", "-e", help="numpy, host, mlx-array, mlx-metal, cupy, mlx, fast, shadow, or package.module:factory"
    ),
]
IdsOption = Annotated[str | None, typer.Option("--ids", help="token ids, such as 1,2,3")]
PromptOption = Annotated[str | None, typer.Option("--prompt", "-p", help="text, for a model with a tokenizer")]
ScheduleOption = Annotated[
    str, typer.Option("--schedule", help="how the prompt is cut into steps: whole, rows, or lengths as 4-3-1-2")
]
SchedulesOption = Annotated[
    str,
    typer.Option(
        "--schedule", help="how the prompt is cut into steps, such as whole,rows,4-3-1-2,ragged: one or several"
    ),
]
ArmOption = Annotated[str, typer.Option("--arm", help="what linear multiplies: f32, bf16 or int8")]
KvOption = Annotated[str, typer.Option("--kv", help="how keys and values are stored: f32, bf16 or int8")]
TemperatureOption = Annotated[float, typer.Option("--temperature", help="0: greedy; else from 2^-20 to 2^20")]
TopKOption = Annotated[int, typer.Option("--top-k", min=0, help="draw from the likeliest ids; 0: from all")]
TopPOption = Annotated[float, typer.Option("--top-p", help="draw from the likeliest ids that hold this share")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="of the draws, below 2^64")]
KeyOption = Annotated[Path | None, typer.Option("--key", help="sign it: a file of 64 hex digits")]
StateArgument = Annotated[Path, typer.Argument(metavar="FILE", callback=present("a state file"), help="a state file")]
ExpectedArgument = Annotated[
    Path,
    typer.Argument(metavar="TRACE", callback=present("a trace directory"), help="the expected side: a trace directory"),
]
TraceArgument = Annotated[
    Path, typer.Argument(metavar="TRACE", callback=present("a trace directory"), help="a trace directory")
]
JsonOption = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


def signing_key(path: Path | None) -> bytes | None:
    """What --key names, 32 bytes; None where it names nothing. Raises UsageError for what is no key file."""
    if path is None:
        return None
    from gnomon.gates.receipt import read_key  # only a verb that signs waits for it

    present("a key file of 64 hexadecimal digits")(path)
    return read_key(path)


def read_ids(text: str) -> list[int]:
    """Token ids from "1,2,3" or "1 2 3"."""
    words = re.split(r"\s*,\s*|\s+", text.strip())
    if not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise UsageError(f"Expected token ids such as 1,2,3 but got {show(text)}")
    return [int(word) for word in words]


def prompt_ids(model: Model, ids: str | None, prompt: str | None, default: str | None = None) -> list[int]:
    """The token ids of a run: given as ids, or as text for a model with a tokenizer."""
    if ids is not None and prompt is not None:
        raise UsageError("Expected --ids or --prompt but got both")
    if ids is not None:
        known = read_ids(ids)
        wrong = next((i for i in known if i >= model.config.vocab), None)
        if wrong is not None:
            raise UsageError(f"Expected token ids from 0 to {model.config.vocab - 1} but got {wrong}")
        return known
    text = prompt if prompt is not None else default
    if text is None:
        raise UsageError("Expected --ids or --prompt but got neither")
    if model.tokenizer is None:
        raise UsageError(f"Expected a tokenizer for text but {model.without_tokenizer}; give --ids instead")
    encoded = model.tokenizer.encode(text)
    if not encoded:
        raise UsageError(f"Expected a prompt of at least one token but got {show(text)}")
    return encoded
