"""Models and engines for a verb: what takes long is shown on a terminal, and a short name says what it came to."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from gnomon.engines import engine as make_engine
from gnomon.engines import fallen_back
from gnomon.loading import load as load_model
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model


def load(source: str) -> Model:
    """As `gnomon.load`."""
    with waiting(f"loading {source}"):
        return load_model(source)


def engine(name: str, model: Model, arm: str = "f32", kv: str = "f32") -> Engine[Any]:
    """As `gnomon.engine`. Says on stderr where "fast" or "shadow" stands for another engine than `host`, and why."""
    with waiting(f"{model.name} on {name}"):
        made = make_engine(name, model, arm, kv)
    reason = fallen_back(name)
    if reason:
        print(f"gnomon: {name} is {made.name} here, since host cannot run: {reason}", file=sys.stderr)
    return made


def waiting(what: str) -> AbstractContextManager[object]:
    """A line on stderr that moves while something is waited for; nothing where stderr is no terminal."""
    console = Console(stderr=True, emoji=False)
    return Status(escape(what), console=console) if console.is_terminal else nullcontext()
