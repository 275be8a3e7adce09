"""The file of `gnomon run --batch`: many prompts, each with its own settings if it has any.

A file whose name ends in .jsonl holds a JSON object a line: "prompt" (text) or "ids" (token ids) and, where they are
not those of the command line, "max_tokens", "temperature", "top_k", "top_p", "seed", "stop" (a text, or several). Any
other file holds a prompt a line, as it stands. From stdin ("-") come lines of either kind. Empty lines are left out;
lines are counted from 1, these included.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gnomon.cli.options import prompt_ids
from gnomon.cli.prompt_file import STDIN, read_text
from gnomon.decode.text import Request
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.strict_json import parse_object, show

FIELDS: dict[str, type | tuple[type, ...]] = {
    "prompt": str,
    "ids": list,
    "max_tokens": int,
    "temperature": (int, float),
    "top_k": int,
    "top_p": (int, float),
    "seed": int,
    "stop": (str, list),
}


def read(path: Path, model: Model, default: Request) -> Iterator[tuple[int, Request]]:
    """Line number and request of each prompt. default: the settings of the command line; its ids are not read.

    Raises UsageError or ModelError, with the line, for one that is wrong.
    """
    text = read_text(path)
    found = False
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        found = True
        with line_of(path, number):
            given = parse_object(line.encode(), "it") if objects(path, line) else {"prompt": line}
            asked = request(given, model, default)
        yield number, asked
    if not found:
        raise UsageError(f"Expected at least one prompt in {named(path)} but there is none")


def objects(path: Path, line: str) -> bool:
    """Whether the lines are JSON objects: of a .jsonl, and of stdin where they begin as one."""
    return path.suffix == ".jsonl" or (path == STDIN and line.lstrip().startswith('{"'))


def named(path: Path) -> str:
    return "stdin" if path == STDIN else path.name


@contextmanager
def line_of(path: Path, number: int) -> Iterator[None]:
    """Puts the line in front of what is raised within it."""
    try:
        yield
    except GnomonError as error:
        raise UsageError(f"line {number} of {named(path)}: {error}") from error


def request(given: dict[str, Any], model: Model, default: Request) -> Request:
    """One line, the default where it is silent. Raises UsageError."""
    for name, value in given.items():
        if name not in FIELDS:
            raise UsageError(f"Expected fields among {', '.join(FIELDS)} but got {show(name)}")
        if not isinstance(value, FIELDS[name]) or isinstance(value, bool):
            raise UsageError(f"Expected another type of value for {name} but got {show(value)}")
    ids, stops = given.get("ids"), given.get("stop", list(default.stop_texts))
    if ids is not None and (not ids or not all(type(i) is int for i in ids)):
        raise UsageError(f"Expected a list of token ids but got {show(ids)}")
    stops = [stops] if isinstance(stops, str) else stops
    if not all(isinstance(stop, str) for stop in stops):
        raise UsageError(f"Expected stop to be a text or a list of texts but got {show(stops)}")
    if ids is not None and "prompt" in given:
        raise UsageError("Expected prompt or ids but got both")
    drawn = {name: given[name] for name in asdict(default.sampling) if name in given}
    sampling = Sampling(**{**asdict(default.sampling), **drawn})
    if sampling.temperature == 0.0 and drawn.keys() - {"temperature"}:
        raise UsageError("Expected a temperature above 0 beside top_k, top_p or seed: a greedy text draws nothing")
    return replace(
        default,
        ids=ids or prompt_ids(model, None, given.get("prompt")),
        max_tokens=given.get("max_tokens", default.max_tokens),
        sampling=sampling,
        stop_texts=tuple(stops),
    )
