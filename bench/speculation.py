"""How many passes drafts save, on the twenty prompts.

    python bench/speculation.py [--model tiny-dense] [--tokens 64] [--engine numpy] [--prompts 20] [--small NAME]

Every prompt is decoded plainly and then with each drafter, greedily and sampled (T = 0.8, top_p = 0.95, a seed for each
prompt). Passes are steps of the engine that decodes, the prompt's and repeated ones included; those of a drafting
engine are not among them, its time is. Texts are compared with plain decoding: a difference ends the bench. It measures
and does not judge. Ends with one line of JSON.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gnomon.decode.drafters import Drafter, EngineDrafter, Ngram
from gnomon.decode.generate import DRAFTED, generate
from gnomon.decode.text import GREEDY
from gnomon.engines import engine
from gnomon.loading import load
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.ops.sample import Sampling

PROMPTS = Path(__file__).parents[1] / "tests" / "prompts.json"


@dataclass
class Cost:
    """Sums over all prompts, in the fields of decode.generate.Statistics. most: the largest share of passes that a
    prompt saved"""

    drafter: str
    sampled: bool
    tokens: int = 0
    passes: int = 0
    rows: int = 0
    recomputed: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    most: float = 0.0


def measure(model_name: str, tokens: int, engine_name: str, count: int, small: str | None) -> list[Cost]:
    model = load(model_name)
    if model.tokenizer is None:
        raise UsageError(f"Expected a model with a tokenizer but {model.name} has none")
    running = engine(engine_name, model)
    drafters: dict[str, Callable[[], Drafter | None]] = {
        "none": lambda: None,
        "ngram": Ngram,
        f"engine:{engine_name}": lambda: EngineDrafter(running),
    }
    if small is not None:
        other = engine(engine_name, load(small))
        drafters[f"model:{small}"] = lambda: EngineDrafter(other)
    costs = {(name, sampled): Cost(name, sampled) for sampled in (False, True) for name in drafters}
    texts = [prompt["text"] for prompt in json.loads(PROMPTS.read_text("utf-8"))["prompts"]][:count]
    for seed, text in enumerate(track(texts, model.name, console=Console(stderr=True))):
        ids = model.tokenizer.encode(text)
        for sampled in (False, True):
            sampling = Sampling(0.8, 0, 0.95, seed) if sampled else GREEDY
            plain: list[int] = []
            for name, drafter in drafters.items():
                began = time.perf_counter()
                made = generate(running, ids, tokens, sampling=sampling, draft=drafter())
                got = list(made)
                cost, counted = costs[name, sampled], made.statistics
                cost.seconds += time.perf_counter() - began
                plain = plain or got
                if got != plain:
                    raise RuntimeError(f"{name} changed the text of prompt {seed}")
                cost.tokens += len(got)
                for field, value in asdict(counted).items():
                    setattr(cost, field, getattr(cost, field) + value)
                cost.most = max(cost.most, 1.0 - counted.passes / len(got))
    return list(costs.values())


def table(costs: list[Cost]) -> Table:
    out = Table()
    out.add_column("drafter")
    out.add_column("")
    for column in ("passes / token", "accepted", "rows / token", "saved", "most saved", "seconds"):
        out.add_column(column, justify="right")
    for c in costs:
        plain = next(p for p in costs if p.drafter == "none" and p.sampled == c.sampled)
        accepted = f"{c.accepted} of {c.drafted}" if c.drafted else "-"
        shares = (f"{100 * (1 - c.passes / plain.passes):.0f} %", f"{100 * c.most:.0f} %")
        out.add_row(
            c.drafter,
            "sampled" if c.sampled else "greedy",
            f"{c.passes / c.tokens:.2f}",
            accepted,
            f"{c.rows / c.tokens:.2f}",
            *shares,
            f"{c.seconds:.1f}",
        )
    return out


def main(
    model: Annotated[str, typer.Option(help="a model with a tokenizer")] = "tiny-dense",
    tokens: Annotated[int, typer.Option(min=2, help="to draw after each prompt")] = 64,
    engine_name: Annotated[str, typer.Option("--engine", "-e")] = "numpy",
    prompts: Annotated[int, typer.Option(min=1, max=20, help="how many of the prompts")] = 20,
    small: Annotated[str | None, typer.Option(help="a model that drafts, with the same tokenizer")] = None,
) -> None:
    """Count passes with and without drafts; see the head of this file."""
    try:
        costs = measure(model, tokens, engine_name, prompts, small)
    except GnomonError as error:
        Console(stderr=True).print(f"{error}", markup=False)
        raise typer.Exit(error.exit_code) from error
    Console(stderr=True, width=120).print(table(costs))
    record: dict[str, Any] = {"bench": "speculation", "model": model, "engine": engine_name, "tokens": tokens}
    print(json.dumps({**record, "prompts": prompts, "guesses": DRAFTED, "costs": [asdict(c) for c in costs]}))


if __name__ == "__main__":
    typer.run(main)
