"""What the training scripts share: batches, the optimiser loop, evaluation, and the folder that is written.

A model here is a `torch.nn.Module` that maps ids [B, T] to logits [B, T, V] and whose parameters already have
their Hugging Face names.
"""

import copy
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gnomon.models.text import END_ID, Corpus, encode

Ids = NDArray[np.int64]
PROMPTS = (
    "def __init__(self",
    "for i in range(",
    "if __name__ == ",
    "import os\nimport ",
    "    raise ValueError(",
)


@dataclass(frozen=True)
class Recipe:
    """Everything besides the text and the wiring that decides the weights, apart from the number of steps."""

    seed: int = 1618
    batch: int = 4  # few tokens are affordable, and then many small steps go further than few large ones
    length: int = 256
    peak_rate: float = 3e-3
    warmup: int = 100
    cooldown: float = 0.3  # the last share of the steps, over which the rate falls to zero
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0

    def rate(self, step: int, steps: int | None) -> float:
        """Learning rate of `step`: a ramp, a plateau, a straight fall to zero at `steps` (None: unknown).

        A plateau and no cosine, because then the end can be settled by the clock while the run is under way,
        and the same number of steps given beforehand yields the same rates.
        """
        rise = (step + 1) / self.warmup
        fall = 1.0 if steps is None else (steps - step) / (self.cooldown * steps)
        return self.peak_rate * min(1.0, rise, fall)

    def steps_for(self, step: int) -> int:
        """The number of steps of a run that starts its fall at `step`."""
        return int(step / (1.0 - self.cooldown))


def batches(ids: Ids, recipe: Recipe) -> Iterator[Tensor]:
    """Endless batches [batch, length + 1]; each epoch cuts the stream elsewhere and shuffles the pieces."""
    generator = np.random.default_rng(recipe.seed)
    if len(ids) < recipe.length * (recipe.batch + 1) + 1:
        raise ValueError(f"ids has {len(ids)} tokens: expected more than one batch of {recipe.batch} x {recipe.length}")
    while True:
        offset = int(generator.integers(recipe.length))
        pieces = (len(ids) - offset - 1) // recipe.length
        starts = offset + recipe.length * generator.permutation(pieces)
        for first in range(0, pieces - recipe.batch + 1, recipe.batch):
            chosen = starts[first : first + recipe.batch]
            yield torch.from_numpy(np.stack([ids[start : start + recipe.length + 1] for start in chosen]))


def loss_of(model: nn.Module, batch: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy in nats of predicting batch[:, 1:] from batch[:, :-1], a scalar."""
    logits: Tensor = model(batch[:, :-1])
    return cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction=reduction)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; vectors (norm weights and the like) do not, for their natural value is not zero."""
    decayed = [weight for weight in model.parameters() if weight.dim() >= 2]
    kept = [weight for weight in model.parameters() if weight.dim() < 2]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def backward(model: nn.Module, batch: Tensor, pool: ThreadPoolExecutor, threads: int) -> float:
    """Set the gradients of the mean loss over `batch` [B, T + 1] and return that loss; each thread takes some rows.

    Threads with rows of their own, rather than ops spread over cores: on a busy machine every op would wait for its
    slowest core, and here only every step does. The shares are added in order, so nothing depends on timing.
    """
    weights = list(model.parameters())

    def share(rows: Tensor) -> tuple[float, tuple[Tensor, ...]]:
        loss = loss_of(model, rows) * (len(rows) / len(batch))
        return loss.item(), torch.autograd.grad(loss, weights)

    shares = list(pool.map(share, batch.chunk(threads)))
    for weight, *parts in zip(weights, *(gradients for _, gradients in shares), strict=True):
        weight.grad = torch.stack(parts).sum(dim=0)
    return sum(loss for loss, _ in shares)


def train(
    model: nn.Module,
    ids: Ids,
    recipe: Recipe,
    steps: int | None,
    minutes: float,
    threads: int,
    early: Callable[[int], None],
    early_minutes: float = 3.0,
) -> int:
    """Train `model` in place and return the number of steps taken.

    With `steps` the run is a function of text, recipe and machine. Without it the plateau lasts until the
    clock says that the fall will end after `minutes`. `early(step)` is called once, after `early_minutes`.
    """
    optimizer = torch.optim.AdamW(
        parameter_groups(model, recipe.weight_decay), lr=recipe.peak_rate, betas=recipe.betas, fused=True
    )
    source = batches(ids, recipe)
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    began = time.monotonic()
    step, mean, early_done = 0, 0.0, False
    while steps is None or step < steps:
        elapsed = time.monotonic() - began
        if steps is None and elapsed >= 60.0 * minutes * (1.0 - recipe.cooldown) and step > 0:
            steps = recipe.steps_for(step)
            print(f"step {step}: the rate falls from here to step {steps}", flush=True)
        if not early_done and elapsed >= 60.0 * early_minutes:
            early_done = True
            early(step)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step, steps)
        loss = backward(model, next(source), pool, threads)
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        step += 1
        mean = loss if step == 1 else 0.99 * mean + 0.01 * loss
        if not math.isfinite(mean):
            raise ValueError(f"loss = {loss} at step {step}: expected a finite number")
        if step in (1, 10, 30, 100) or step % 200 == 0:
            print(
                f"step {step}  loss {mean:.3f}  rate {recipe.rate(step, steps):.2e}  {elapsed:.0f} s",
                flush=True,
            )
    pool.shutdown()
    return step


def rounded_copy(model: nn.Module) -> nn.Module:
    """A float32 copy whose parameters have the values that bf16 storage gives them."""
    copied = copy.deepcopy(model).eval()
    for weight in copied.parameters():
        weight.data = weight.data.to(torch.bfloat16).to(torch.float32)
    return copied


def held_out_loss(model: nn.Module, ids: Ids, length: int, batch: int = 16) -> float:
    """Mean nats per token of `ids` [N] but the first, in adjacent windows of `length`."""
    total = 0.0
    pieces = (len(ids) - 1) // length
    starts = range(0, pieces * length, length)
    windows = [
        np.stack([ids[start : start + length + 1] for start in starts[first : first + batch]])
        for first in range(0, pieces, batch)
    ]
    if pieces * length + 1 < len(ids):
        windows.append(ids[None, pieces * length :])
    with torch.no_grad():
        for window in windows:
            total += loss_of(model, torch.from_numpy(window), reduction="sum").item()
    return total / (len(ids) - 1)


def complete(model: nn.Module, tokenizer: Tokenizer, prompt: str, tokens: int = 32) -> str:
    """The greedy completion of `prompt`, without it; stops at the end symbol."""
    ids: list[int] = tokenizer.encode(prompt).ids
    start = len(ids)
    for _ in range(tokens):
        with torch.no_grad():
            logits: Tensor = model(torch.tensor([ids]))
        chosen = int(logits[0, -1].argmax())
        if chosen == END_ID:
            break
        ids.append(chosen)
    text: str = tokenizer.decode(ids[start:])
    return text


def report(model: nn.Module, tokenizer: Tokenizer, corpus: Corpus, length: int) -> dict[str, Any]:
    """Loss on the held-out text and a few completions, both of the bf16-rounded weights."""
    rounded = rounded_copy(model)
    ids = encode(tokenizer, corpus.held_out)
    nats = held_out_loss(rounded, ids, length)
    return {
        "held_out_tokens": len(ids) - 1,
        "held_out_nats_per_token": round(nats, 4),
        "held_out_bits_per_byte": round(nats * (len(ids) - 1) / (corpus.held_out_bytes * math.log(2.0)), 4),
        "greedy_completions": {prompt: complete(rounded, tokenizer, prompt) for prompt in PROMPTS},
    }


def save(out: Path, model: nn.Module, tokenizer: Tokenizer, config: dict[str, Any], training: dict[str, Any]) -> None:
    """Write the folder `out` aside and put it in place by renaming, so that nobody sees half a model."""
    aside, former = out.with_name(out.name + ".part"), out.with_name(out.name + ".old")
    for left in (aside, former):
        shutil.rmtree(left, ignore_errors=True)
    aside.mkdir(parents=True)
    tensors = {name: weight.detach().to(torch.bfloat16).contiguous() for name, weight in model.named_parameters()}
    save_file(tensors, aside / "model.safetensors", metadata={"format": "pt"})
    (aside / "model.safetensors").chmod(0o644)  # it is written readable by its owner alone
    tokenizer.save(str(aside / "tokenizer.json"))
    for name, content in (("config.json", config), ("training.json", training)):
        (aside / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if out.exists():
        out.rename(former)
    aside.rename(out)
    shutil.rmtree(former, ignore_errors=True)
