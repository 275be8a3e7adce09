"""How far the bf16 and int8 arms, and stored keys and values, lie from f32, on twenty prompts.

    python bench/arm_distance.py [--model tiny-dense] [--steps 16] [--engine numpy]

Each prompt is continued by the f32 arm, greedily; every form then reads prompt and continuation in one pass, so all of
them see the same ids. Counted over all rows: where the largest logit is the same one (top-1), and the largest
difference of any logit. It measures and does not judge. Ends with one line of JSON.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gnomon.engines import engine
from gnomon.loading import load
from gnomon.models import TRAINED
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.model import Model

F32 = NDArray[np.float32]
PROMPTS = Path(__file__).parents[1] / "tests" / "prompts.json"
FORMS = (("bf16", "f32"), ("bf16", "bf16"), ("int8", "f32"), ("int8", "int8"), ("f32", "bf16"), ("f32", "int8"))


@dataclass
class Distance:
    """Of one form of a model to f32. rows: how many were compared; agree: where the largest logit is the same one;
    sure: rows whose f32 logits lead by more than 1, and sure_agree: those of them that agree;
    largest: max |difference| of a logit; rms: root mean square of the differences; spread: deviation of f32's logits"""

    model: str
    arm: str
    kv: str
    rows: int = 0
    agree: int = 0
    sure: int = 0
    sure_agree: int = 0
    largest: float = 0.0
    rms: float = 0.0
    spread: float = 0.0


def sequences(model: Model, prompts: Path, steps: int, engine_name: str) -> list[list[int]]:
    """Token ids of each prompt and of its greedy continuation in f32."""
    if model.tokenizer is None:
        raise UsageError(f"Expected a model with a tokenizer but {model.name} has none")
    plain, out = engine(engine_name, model), []
    for prompt in track(json.loads(prompts.read_text("utf-8"))["prompts"], model.name, console=Console(stderr=True)):
        ids = model.tokenizer.encode(prompt["text"])
        out.append([*ids, *plain.generate(ids, steps)])
    return out


def logits_of(model: Model, texts: list[list[int]], engine_name: str, arm: str, kv: str) -> F32:
    """Every row of every text: [rows, vocab]"""
    made = engine(engine_name, model, arm, kv)
    return np.concatenate([made.forward(ids, want="all")[0] for ids in texts])


def distance(expected: F32, got: F32, model: str, arm: str, kv: str) -> Distance:
    """[rows, vocab] twice: f32, and another form"""
    difference = got.astype(np.float64) - expected
    top = np.argmax(expected, axis=-1)
    second = np.partition(expected, -2, axis=-1)[:, -2]
    sure = np.max(expected, axis=-1) - second > 1.0
    agree = np.argmax(got, axis=-1) == top
    return Distance(
        model,
        arm,
        kv,
        rows=len(expected),
        agree=int(agree.sum()),
        sure=int(sure.sum()),
        sure_agree=int((agree & sure).sum()),
        largest=float(np.abs(difference).max()),
        rms=float(np.sqrt(np.mean(difference**2))),
        spread=float(np.std(expected)),
    )


def table(found: list[Distance]) -> Table:
    out = Table()
    for column in ("model", "arm", "kv"):
        out.add_column(column)
    for column in ("rows", "top-1", "top-1, lead > 1", "max |diff|", "rms diff", "spread of f32"):
        out.add_column(column, justify="right")
    for d in found:
        shares = (f"{100 * d.agree / d.rows:.2f} %", f"{100 * d.sure_agree / max(1, d.sure):.2f} % of {d.sure}")
        out.add_row(d.model, d.arm, d.kv, str(d.rows), *shares, f"{d.largest:.4f}", f"{d.rms:.4f}", f"{d.spread:.2f}")
    return out


def main(
    model: Annotated[list[str] | None, typer.Option(help="may be given several times; else every embedded one")] = None,
    prompts: Annotated[Path, typer.Option(help="a file of prompts like tests/prompts.json")] = PROMPTS,
    steps: Annotated[int, typer.Option(min=0, help="tokens to continue each prompt by")] = 16,
    engine_name: Annotated[str, typer.Option("--engine", "-e")] = "numpy",
) -> None:
    """Measure the distance of every form to f32; see the head of this file."""
    began, found = time.perf_counter(), []
    digests: dict[str, str] = {}
    try:
        for name in model or TRAINED:
            loaded = load(name)
            digests[name] = loaded.digest
            texts = sequences(loaded, prompts, steps, engine_name)
            expected = logits_of(loaded, texts, engine_name, "f32", "f32")
            for arm, kv in FORMS:
                got = logits_of(loaded, texts, engine_name, arm, kv)
                found.append(distance(expected, got, name, arm, kv))
    except (GnomonError, OSError, ValueError, KeyError) as error:
        Console(stderr=True).print(f"{error}", markup=False)
        raise typer.Exit(getattr(error, "exit_code", 2)) from error
    Console(stderr=True, width=120).print(table(found))
    record: dict[str, Any] = {
        "bench": "arm_distance",
        "engine": engine_name,
        "steps": steps,
        "weights": digests,
        "distances": [asdict(d) for d in found],
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    typer.run(main)
