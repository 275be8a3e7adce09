"""Samplers with one mistake each, as they are easily written."""

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.gate import Fault, Subject
from gnomon.reference.ops import sample as module
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.ops.settle import settle
from gnomon.reference.protocol import F32


def variant(
    logits: F32,
    how: Sampling,
    position: int,
    *,
    sign: int = 1,
    divide: bool = True,
    short: int = 0,
    top_p_first: bool = False,
    seed: int | None = None,
    shift: int = 0,
    ends: Callable[[int, int], bool] = operator.gt,
    ids: int | None = None,
) -> int:
    """Section 6 of the contract in integers of Python; each keyword is a place for a mistake, its default is none."""
    T = np.float32(how.temperature)
    if T == 0.0:
        return int(np.argmax(logits))
    below = settle(logits - np.max(logits))
    weights = [int(float(w) * 2**40) for w in exp_neg(settle(below / T if divide else below * T))]
    order = sorted(range(len(weights))[:ids], key=lambda i: (-weights[i], sign * i))
    top_k = how.top_k or len(order)
    kept = order if top_p_first else order[:top_k]
    share, prefix = round(how.top_p * 2**32) * sum(weights[i] for i in kept), 0
    while sum(weights[i] for i in kept[:prefix]) << 32 < share or not prefix:
        prefix += 1
    kept = sorted(kept[: max(1, prefix - short)][:top_k])
    word = module.philox(how.seed if seed is None else seed, position + shift)
    t, running = (word * sum(weights[i] for i in kept)) >> 64, 0
    for i in kept:
        running += weights[i]
        if ends(running, t):
            return i
    return kept[-1]


def mistaken(**mistake: Any) -> Fault:
    """The subject samples with this mistake."""
    return lambda subject: replace(subject, sample=lambda row, how, position: variant(row, how, position, **mistake))


highest_id_first = mistaken(sign=-1)
multiplies = mistaken(divide=False)
prefix_one_short = mistaken(short=1)
top_p_first = mistaken(top_p_first=True)
ignores_seed = mistaken(seed=7)  # the one of the first known answers
next_position = mistaken(shift=1)
reached = mistaken(ends=operator.ge)
of_64_ids = mistaken(ids=64)


def repeats_words(subject: Subject) -> Subject:
    """Right on short rows; on others eight positions share a word of the generator."""

    def sample(row: F32, how: Sampling, position: int) -> int:
        return variant(row, how, position if len(row) < 64 else position & ~7)

    return replace(subject, sample=sample)
