"""Prefix checkpoints: what a prompt shares with an earlier one is not computed again, and no byte shows it.

A checkpoint is found by the SHA-256 of the identity of the engine and of every token id before it. Its position says
nothing: two prompts of the same length are two keys.
"""

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.decode.state_header import identity
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.protocol import F32
from gnomon.reference.state import State
from gnomon.reference.token_ids import token_ids


@dataclass
class Counts:
    """Since the start. restored: rows taken over from a checkpoint; recomputed: rows run through the model;
    hits, misses: prompts with and without a checkpoint; evicted: checkpoints dropped to make room"""

    restored: int = 0
    recomputed: int = 0
    hits: int = 0
    misses: int = 0
    evicted: int = 0


@dataclass(frozen=True)
class _Checkpoint:
    state: State
    logits: F32  # of the last position: [1, vocab]
    nbytes: int


class Checkpoints:
    """The checkpoints of one engine. One thread at a time.

    budget: bytes that they may take; the least recently used make room for new ones
    """

    def __init__(self, engine: Engine[Any], budget: int) -> None:
        if budget < 0:
            raise UsageError(f"Expected a budget of at least 0 bytes for checkpoints but got {budget}")
        self.engine = engine
        self.budget = budget
        self.nbytes = 0
        self.counts = Counts()
        self._identity = json.dumps(identity(engine), sort_keys=True).encode("ascii")
        self._kept: OrderedDict[str, _Checkpoint] = OrderedDict()  # the least recently used first
        self._lengths: Counter[int] = Counter()  # how many checkpoints there are of each length

    def __len__(self) -> int:
        return len(self._kept)

    def extend(self, ids: Sequence[int]) -> tuple[F32, State]:
        """The last row of logits [1, vocab] of a prompt, and its state, which is the caller's own.

        Starts from the longest checkpoint whose ids the prompt begins with, computes the rest, and keeps a checkpoint.
        """
        ids = token_ids(ids)
        if not ids:
            raise UsageError("Expected at least one token id but got none")
        state, logits = self._longest(ids)
        restored = state.length
        if logits is None or restored < len(ids):
            logits, state = self.engine.forward(ids[restored:], state)
            self.keep(state, logits)
        self.counts.restored += restored
        self.counts.recomputed += len(ids) - restored
        self.counts.hits += restored > 0
        self.counts.misses += restored == 0
        return logits.copy(), state

    def keep(self, state: State, logits: F32) -> None:
        """Keep a copy of a state for prompts to come. logits: of its last position, [1, vocab]"""
        key = next(self.keys(state.ids, [state.length]))
        if key in self._kept:
            self._kept.move_to_end(key)
            return
        copy = self.engine.fork(state)
        checkpoint = _Checkpoint(copy, logits.copy(), self.engine.nbytes(copy) + logits.nbytes)
        if checkpoint.nbytes > self.budget:
            return
        while self.nbytes + checkpoint.nbytes > self.budget:
            self._drop()
        self._kept[key] = checkpoint
        self._lengths[state.length] += 1
        self.nbytes += checkpoint.nbytes

    def keys(self, ids: Sequence[int], lengths: Sequence[int]) -> Iterator[str]:
        """The keys of the first `lengths` (ascending) of the ids."""
        digest, done = hashlib.sha256(self._identity), 0
        for length in lengths:
            digest.update(np.array(ids[done:length], "<i4").tobytes())
            done = length
            yield digest.hexdigest()

    def _longest(self, ids: Sequence[int]) -> tuple[State, F32 | None]:
        """A copy of the longest checkpoint that fits and its logits, or an empty state and None."""
        lengths = sorted(length for length in +self._lengths if length <= len(ids))
        for key in reversed(list(self.keys(ids, lengths))):
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return self.engine.fork(found.state), found.logits
        return self.engine.new(), None

    def _drop(self) -> None:
        _, oldest = self._kept.popitem(last=False)
        self.nbytes -= oldest.nbytes
        self._lengths[oldest.state.length] -= 1
        self.counts.evicted += 1
