"""What it costs to make a transcript, and to verify it.

    python bench/transcripts.py MODEL --engine numpy --engine mlx-array --tokens 16 --repeat 3

For each engine: the time of `produce`, of `verify` on the same engine, and their ratio, medians over the rounds; in a
round one follows the other, so that whatever else the machine does falls on both. Every engine then verifies what every
other one made, and all files must be the same. The first round is not counted. Ends with one line of JSON.

Target: verifying takes at most 0.6 of the time of making, on the engine `host`.
"""

import json
import statistics
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import gnomon
from gnomon.decode.transcript import GREEDY, produce, verify
from gnomon.decode.transcript_file import parse
from gnomon.reference.ops.sample import Sampling

PROMPT = "The first law of thermodynamics states that"
SAMPLED = Sampling(0.8, 0, 0.95, 7)


def main(
    model: str,
    engine: Annotated[list[str], typer.Option("--engine", "-e")] = ["numpy", "mlx-array"],  # noqa: B006
    tokens: Annotated[int, typer.Option("--tokens", "-n", min=1)] = 16,
    repeat: Annotated[int, typer.Option("--repeat", min=1)] = 3,
    sampled: Annotated[bool, typer.Option("--sampled/--greedy")] = True,
) -> None:
    """Measure each engine."""
    loaded = gnomon.load(model)
    ids = loaded.tokenizer.encode(PROMPT) if loaded.tokenizer else [11, 21, 45, 83]
    how = SAMPLED if sampled else GREEDY
    engines = {name: gnomon.engine(name, loaded) for name in engine}
    rows, files = {}, {}
    for name, running in engines.items():
        rows[name], files[name] = measured(running, ids, tokens, how, repeat)
    for lines in files.values():
        for running in engines.values():
            verify(running, parse(lines))
    if len({"\n".join(lines) for lines in files.values()}) != 1:
        raise SystemExit("the engines made different transcripts")
    table = Table("engine", "tokens", "produce [s]", "tokens/s", "verify [s]", "verify / produce", box=None)
    for name, row in rows.items():
        figures = (f"{row['produce']:.3f}", f"{row['tokens'] / row['produce']:.1f}", f"{row['verify']:.3f}")
        table.add_row(name, str(row["tokens"]), *figures, f"{row['ratio']:.2f}")
    Console(emoji=False, highlight=False, width=120).print(table)
    print(json.dumps({"model": loaded.name, "tokens": tokens, "sampled": sampled, "engines": rows}))


def measured(
    running: gnomon.Engine[Any], ids: list[int], tokens: int, how: Sampling, repeat: int
) -> tuple[dict[str, float], list[str]]:
    """Medians in seconds, and the lines of the transcript."""
    made, judged = [], []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        lines = produce(running, ids, tokens, how).chain.lines
        between = time.perf_counter()
        verify(running, parse(lines))
        made.append(between - start)
        judged.append(time.perf_counter() - between)
    ratios = [j / m for j, m in zip(judged[1:], made[1:], strict=True)]
    figures = {"produce": statistics.median(made[1:]), "verify": statistics.median(judged[1:])}
    return {"tokens": len(lines) - 2, **figures, "ratio": statistics.median(ratios)}, lines


if __name__ == "__main__":
    typer.run(main)
