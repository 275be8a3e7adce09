"""The command line that the training scripts share: read the text, train tokenizer and model, write the folder."""

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from gnomon.models.text import encode, read_corpus, train_tokenizer
from gnomon.models.training import Recipe, report, save, train


class Sizes(Protocol):
    """What a script says of its model."""

    @property
    def vocab_size(self) -> int: ...

    def config(self) -> dict[str, Any]:
        """The content of `config.json`."""
        ...


def run(name: str, shape: Sizes, build: Callable[[], nn.Module], recipe: Recipe, minutes: float) -> None:
    """Train and write the model that `build` makes from the recipe's seed; an early state after three minutes.

    name: of the model; minutes: how long, where the command line does not say
    """
    parser = argparse.ArgumentParser(description=f"train {name}")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=minutes, help="time for the training, without --steps")
    parser.add_argument("--steps", type=int, help="number of steps; the one in training.json repeats that run")
    parser.add_argument("--threads", type=int, default=2, help="each takes a share of every batch")
    arguments = parser.parse_args()

    corpus = read_corpus()
    tokenizer = train_tokenizer(corpus.train, shape.vocab_size)
    ids = encode(tokenizer, corpus.train)
    torch.manual_seed(recipe.seed)
    model = build()
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{len(ids)} tokens of {corpus.train_bytes} bytes, {parameters} parameters", flush=True)
    began = time.monotonic()

    def write(step: int) -> None:
        seconds = round(time.monotonic() - began, 1)
        training = {
            "model": name,
            "parameters": parameters,
            "text": {**corpus.describe(), "train_tokens": len(ids)},
            "steps": step,
            "tokens_seen": step * recipe.batch * recipe.length,
            "seconds": seconds,
            "threads": arguments.threads,
            "torch": str(torch.__version__),
            "recipe": dataclasses.asdict(recipe),
            **report(model, tokenizer, corpus, recipe.length),
        }
        save(arguments.out, model, tokenizer, shape.config(), training)
        print(f"wrote step {step}: {training['held_out_nats_per_token']} nats per token held out", flush=True)

    write(train(model, ids, recipe, arguments.steps, arguments.minutes, arguments.threads, early=write))
