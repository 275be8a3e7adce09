"""Arguments that several verbs share, and how they are read."""

import re
from typing import Annotated

import typer

from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model

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
ArmOption = Annotated[str, typer.Option("--arm", help="what linear multiplies: f32, bf16 or int8")]
KvOption = Annotated[str, typer.Option("--kv", help="how keys and values are stored: f32, bf16 or int8")]
JsonOption = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


def read_ids(text: str) -> list[int]:
    """Token ids from "1,2,3" or "1 2 3"."""
    words = [word for word in re.split(r"[,\s]+", text) if word]
    if not words or not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise UsageError(f"Expected token ids such as 1,2,3 but got {text!r}")
    return [int(word) for word in words]


def prompt_ids(model: Model, ids: str | None, prompt: str | None, default: str | None = None) -> list[int]:
    """The token ids of a run: given as ids, or as text for a model with a tokenizer."""
    if ids is not None and prompt is not None:
        raise UsageError("Expected --ids or --prompt but got both")
    if ids is not None:
        return read_ids(ids)
    text = prompt if prompt is not None else default
    if text is None:
        raise UsageError("Expected --ids or --prompt but got neither")
    if model.tokenizer is None:
        raise UsageError(f"Expected a tokenizer for text but model {model.name} has none; give --ids instead")
    encoded = model.tokenizer.encode(text)
    if not encoded:
        raise UsageError(f"Expected a prompt of at least one token but got {text!r}")
    return encoded
