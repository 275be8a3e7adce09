"""Prompts and token ids from files: --prompt-file and --ids-file, and what stands for a file there."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.options import present
from gnomon.reference.errors import UsageError

LIMIT = 64 << 20  # bytes
STDIN = Path("-")

PromptFileOption = Annotated[
    Path | None,
    typer.Option("--prompt-file", metavar="FILE", help="the text of a file, its last line end left out; -: stdin"),
]
IdsFileOption = Annotated[Path | None, typer.Option("--ids-file", metavar="FILE", help="token ids in a file; -: stdin")]


def with_files(command: Callable[..., int]) -> Callable[..., int]:
    """A verb that takes `ids` and `prompt` takes --ids-file and --prompt-file, too: what they hold is given to it."""
    signature = inspect.signature(command)
    if not {"ids", "prompt"} <= signature.parameters.keys():
        return command

    @functools.wraps(command)
    def wrapped(ids_file: Path | None = None, prompt_file: Path | None = None, **given: object) -> int:
        for option, file, name in (("--ids-file", ids_file, "ids"), ("--prompt-file", prompt_file, "prompt")):
            if file is None:
                continue
            if given[name] is not None:
                raise UsageError(f"Expected --{name} or {option} but got both")
            given[name] = read_text(file).removesuffix("\n").removesuffix("\r")
        return command(**given)

    more = {"ids_file": IdsFileOption, "prompt_file": PromptFileOption}
    parameters = []
    for parameter in signature.parameters.values():
        parameters.append(parameter)
        if parameter.name in ("ids", "prompt"):
            name = f"{parameter.name}_file"
            parameters.append(parameter.replace(name=name, annotation=more[name], default=None))
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**command.__annotations__, **more}
    return wrapped


def there(path: Path | None, what: str = "a file of text") -> Path | None:
    """Refuse a path where no text can be read: nothing, a directory, a named pipe that nobody may ever write into."""
    if path is None or path == STDIN or str(path).startswith("/dev/fd/") or str(path) == "/dev/stdin":
        return path
    present(what)(path)
    if os.path.isdir(path):
        raise UsageError(f"Expected {what} at {str(path)!r} but that is a directory")
    return path


def read_text(path: Path) -> str:
    """The UTF-8 text of a file, of stdin for "-", or of a pipe that the shell has opened. Raises UsageError."""
    there(path)
    what = "stdin" if path == STDIN else path.name
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(LIMIT + 1)
        else:
            with path.open("rb") as file:
                data = file.read(LIMIT + 1)
    except OSError as error:
        raise UsageError(f"Expected to read {what} but got: {error.strerror}") from error
    if len(data) > LIMIT:
        raise UsageError(f"Expected {what} to hold at most {LIMIT} bytes but it holds more")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Expected {what} to be UTF-8 text but byte {error.start} is not") from error
