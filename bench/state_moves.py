"""States moved between every ordered pair of engines, on real prompts, in every form: how many, how large, how fast.

    python bench/state_moves.py [-e numpy -e mlx-array] [--all-prompts PAIR] [--model FILE] [--tokens 8]

For each pair (A, B), (A, A) included, model, arm and kv storage: A runs a prompt, its state goes to B as a state file,
B writes it again, and both continue greedily. Counted are moves, and moves whose second file is not the first, byte for
byte, or whose continuation has another row of logits; so is the state with keys and values exchanged, whose second file
must be the exchanged one. A pair named by --all-prompts, such as host:host, runs on all of tests/prompts.json, the
others on three of them. Exit code 1 if any move changed a byte. Ends with one line of JSON.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gnomon.decode.state_file import StateFile, pack, receive
from gnomon.engines import engine as make_engine
from gnomon.engines import engines
from gnomon.gates.faults.states import exchanged
from gnomon.loading import load
from gnomon.models import TRAINED
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.protocol import F32
from gnomon.reference.state import State

PROMPTS = Path(__file__).parents[1] / "tests" / "prompts.json"
FEW = ("code-fibonacci", "prose-physics", "list-numbered")
ARMS, STORAGES = ("f32", "int8"), ("f32", "bf16", "int8")


@dataclass
class Moves:
    """Of one pair. moves: states moved; nbytes: of their files; seconds: export, import and export again
    changed: files that came back as others; parted: continuations with another row; lost: exchanged states that did not
    come back as they were sent; first: the first of all these"""

    source: str
    target: str
    moves: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    changed: int = 0
    parted: int = 0
    lost: int = 0
    first: str = ""
    prompts: set[str] = field(default_factory=set)

    def note(self, what: str, where: str) -> None:
        setattr(self, what, getattr(self, what) + 1)
        self.first = self.first or f"{what}: {where}"


def move(found: Moves, source: Engine[Any], target: Engine[Any], ids: list[int], tokens: int, where: str) -> None:
    """One prompt from one engine to the other, honest and exchanged."""
    _, state = source.forward(ids[:-1] or ids, want="none")
    began = time.perf_counter()
    file = pack(source, state)
    moved = receive(target, file.pieces(), file.size)
    again = pack(target, moved)
    found.seconds += time.perf_counter() - began
    found.moves, found.nbytes = found.moves + 1, found.nbytes + file.size
    if whole(again) != whole(file):
        found.note("changed", where)
    sent = exchanged(file)
    if whole(pack(target, receive(target, [sent], len(sent)))) != sent:
        found.note("lost", where)
    if not np.array_equal(rows(source, state, ids[-1], tokens), rows(target, moved, ids[-1], tokens)):
        found.note("parted", where)


def rows(engine: Engine[Any], state: State, last: int, tokens: int) -> F32:
    """Logits of a greedy continuation as bits: [tokens, vocab]"""
    made, token = [], last
    for _ in range(tokens):
        logits, _ = engine.forward([token], state)
        made.append(logits[-1])
        token = int(np.argmax(logits[-1]))
    return np.stack(made).view(np.uint32)


def whole(file: StateFile) -> bytes:
    return b"".join(file.pieces())


def table(found: list[Moves]) -> Table:
    out = Table("from", "to", box=None)
    for column in ("prompts", "moves", "bytes", "seconds", "changed", "parted", "lost"):
        out.add_column(column, justify="right")
    for m in found:
        counts = (m.moves, m.nbytes, round(m.seconds, 2), m.changed, m.parted, m.lost)
        out.add_row(m.source, m.target, str(len(m.prompts)), *(f"{value:,}" for value in counts))
    return out


def main(
    engine: Annotated[list[str] | None, typer.Option("--engine", "-e", help="else every one that runs here")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="else tiny-dense and tiny-hybrid")] = None,
    all_prompts: Annotated[list[str] | None, typer.Option("--all-prompts", help="a pair, such as host:host")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="rows of the continuation that are compared")] = 8,
) -> None:
    """Move states between engines; see the head of this file."""
    names = engine or [name for name, reason in engines().items() if not reason]
    texts = {p["name"]: p["text"] for p in json.loads(PROMPTS.read_text("utf-8"))["prompts"]}
    found = {pair: Moves(*pair) for pair in product(names, names)}
    unknown = [pair for pair in all_prompts or [] if tuple(pair.split(":")) not in found]
    try:
        if unknown:
            raise UsageError(
                f"Expected a pair of {', '.join(names)} such as {names[0]}:{names[0]} but got {unknown[0]!r}"
            )
        loaded = {name: load(name) for name in model or TRAINED}
        work = list(product(loaded.values(), ARMS, STORAGES))
        with Progress(console=Console(stderr=True), transient=True) as bar:
            for one, arm, kv in bar.track(work):
                if one.tokenizer is None:
                    raise UsageError(f"Expected a model with a tokenizer but {one.name} has none")
                made = {name: make_engine(name, one, arm, kv) for name in names}
                for (a, b), moves in found.items():
                    for prompt in texts if f"{a}:{b}" in (all_prompts or []) else FEW:
                        ids, where = one.tokenizer.encode(texts[prompt]), f"{one.name} {arm} kv {kv}, {prompt}"
                        move(moves, made[a], made[b], ids, tokens, where)
                        moves.prompts.add(prompt)
    except GnomonError as error:
        Console(stderr=True).print(f"{error}", markup=False)
        raise typer.Exit(error.exit_code) from error
    Console(stderr=True, width=120).print(table(list(found.values())))
    wrong = sum(m.changed + m.parted + m.lost for m in found.values())
    pairs = [asdict(m) | {"prompts": len(m.prompts), "seconds": round(m.seconds, 3)} for m in found.values()]
    print(
        json.dumps({"bench": "state_moves", "models": list(loaded), "tokens": tokens, "pairs": pairs, "wrong": wrong})
    )
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
