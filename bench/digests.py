"""Every tensor of the embedded models as hashes, in every arm and storage, on every engine; held against another run.

    python bench/digests.py --out FILE [--against FILE] [-e numpy -e host]

One digest (`gnomon digest`) for each engine, model, arm and kv storage: SHA-256 of every tap and of every array of the
state after a prompt, the ids of greedy steps, and the logits after them. With --against, a file that another machine
or setting wrote, the two must hold the same digests; the first difference is named by the first tap that shows it.
Exit code 0: the same, or nothing to hold against; 1: a difference; 3: an engine cannot run here. Ends with one line of
JSON, without the hashes.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from gnomon.cli.digest import digest
from gnomon.engines import engine as make_engine
from gnomon.gates.receipt import environment
from gnomon.loading import load
from gnomon.reference.errors import GnomonError, UsageError

MODELS = ("micro", "tiny-dense", "tiny-hybrid")
ARMS = STORAGES = ("f32", "bf16", "int8")
IDS, STEPS = list(range(1, 25)), 6
IDENTITY = ("model", "config")  # of a digest: what says of which model it is


def run(names: list[str]) -> dict[str, dict[str, Any]]:
    """Digests by "engine model arm kv"."""
    forms = list(product(names, MODELS, ARMS, STORAGES))
    return {
        " ".join(form): digest(make_engine(form[0], load(form[1]), form[2], form[3]), IDS, STEPS)
        for form in track(forms, "digests", console=Console(stderr=True))
    }


def leaves(one: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Hashes and ids of a digest by name: of which model it is, then the taps, in the order in which they were made."""
    first = [*IDENTITY, "taps"]
    for key, inner in sorted(one.items(), key=lambda item: first.index(item[0]) if item[0] in first else len(first)):
        if isinstance(inner, dict):
            yield from ((f"{key} {name}", entry) for name, entry in inner.items())
        else:
            yield key, inner


def differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """One sentence for each digest that is missing on a side or differs."""
    for form in {**expected, **found}:
        if form not in expected or form not in found:
            yield f"{form}: in one of the two files only"
            continue
        a, b = dict(leaves(expected[form])), dict(leaves(found[form]))
        names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        if names:
            more = f"; {len(names)} of {len({**a, **b})} entries differ"
            yield f"{form}: first difference: {names[0]}: {b.get(names[0])}, expected {a.get(names[0])}{more}"


def read(file: Path) -> dict[str, Any]:
    """The digests of a file. Raises UsageError."""
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))["digests"]
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"Expected digests at {str(file)!r} but reading it failed: {error}") from error


def main(
    out: Annotated[Path, typer.Option(help="where the digests go")],
    against: Annotated[Path | None, typer.Option(help="digests of another run, which these must equal")] = None,
    engine: Annotated[list[str] | None, typer.Option("--engine", "-e", help="else numpy and host")] = None,
) -> None:
    """Write the digests, and hold them against those of another run; see the head of this file."""
    try:
        expected = None if against is None else read(against)
        found = run(engine or ["numpy", "host"])
        simd = np.show_config(mode="dicts")["SIMD Extensions"]
        machine = {**environment(), "numpy": np.__version__, "numpy_simd": simd["baseline"] + simd.get("found", [])}
        aside = out.with_name(out.name + ".aside")
        aside.write_text(json.dumps({"machine": machine, "digests": found}, indent=1) + "\n", "utf-8")
        aside.replace(out)
    except (GnomonError, OSError) as error:
        Console(stderr=True).print(f"{error}", markup=False)
        raise typer.Exit(getattr(error, "exit_code", 2)) from error
    wrong = [] if expected is None else list(differences(expected, found))
    for line in wrong:
        Console(stderr=True, soft_wrap=True).print(line, markup=False, highlight=False)
    record = {
        "bench": "digests",
        "machine": machine,
        "digests": len(found),
        "entries": sum(name.split()[0] not in IDENTITY for one in found.values() for name, _ in leaves(one)),
        "held_against": None if expected is None else len(expected),
        "differ": len(wrong),
        "first": wrong[0] if wrong else "",
    }
    print(json.dumps(record))
    raise typer.Exit(int(bool(wrong)))


if __name__ == "__main__":
    typer.run(main)
