"""`gnomon inspect`: what a file holds."""

import json

from rich.console import Console
from rich.table import Table

from gnomon.cli.options import JsonOption, ModelArgument
from gnomon.loading import load


def group() -> None:
    """Show what a file holds."""


def model(model: ModelArgument, as_json: JsonOption = False) -> int:
    """Config, tokenizer, weights and their digest. The file is checked in full."""
    loaded = load(model)
    config = vars(loaded.config)
    tokenizer = f"{loaded.tokenizer.kind}, {loaded.tokenizer.vocab_size} ids" if loaded.tokenizer else None
    weights = list(loaded.weights.values())
    if as_json:
        listing = [{"name": w.name, "dtype": w.dtype, "shape": w.shape, "bytes": w.data.nbytes} for w in weights]
        print(json.dumps({"model": loaded.name, "digest": loaded.digest, "tokenizer": tokenizer,
                          "config": {**config, "rope": vars(loaded.config.rope)}, "weights": listing}))  # fmt: skip
        return 0
    console = Console(highlight=False)
    console.print(f"[bold]{loaded.name}[/]  sha256 {loaded.digest}")
    console.print(f"tokenizer: {tokenizer or 'none (token ids only)'}")
    console.print(", ".join(f"{key} {value}" for key, value in config.items() if key != "windows"), markup=False)
    if any(window is not None for window in loaded.config.windows):
        console.print(f"windows: {' '.join(str(window or 'all') for window in loaded.config.windows)}")
    table = Table("weight", "type", "shape", "bytes", box=None, pad_edge=False)
    for w in weights:
        table.add_row(w.name, w.dtype, " x ".join(str(n) for n in w.shape), f"{w.data.nbytes:,}")
    console.print(table)
    values = sum(w.data.nbytes for w in weights)
    console.print(f"{len(weights)} weights, {values:,} bytes as stored")
    return 0
