"""The sampler of the contract: integers after the exponential, so that a token is a function of its inputs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import UsageError
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle
from gnomon.reference.token_ids import whole_number

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Sampling:
    """temperature: 0 (greedy, nothing is drawn) or 2^-20 to 2^20, rounded to f32; top_k: 0 means all; 0 < top_p <= 1;
    seed: below 2^64"""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("top_k", self.top_k)
        whole_number("seed", self.seed)
        for name, value in (("temperature", self.temperature), ("top_p", self.top_p)):
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise UsageError(f"Expected {name} to be a number but got {name}={value!r}")
        with np.errstate(over="ignore"):  # to infinity, which is refused
            t = float(np.float32(self.temperature))
        if t != 0.0 and not 2.0**-20 <= t <= 2.0**20:
            raise UsageError(f"Expected a temperature of 0 or from 2^-20 to 2^20 but got {self.temperature!r}")
        if self.top_k < 0:
            raise UsageError(f"Expected top_k of at least 0 but got {self.top_k!r}")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"Expected 0 < top_p <= 1 but got {self.top_p!r}")
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"Expected a seed from 0 to 2^64 - 1 but got {self.seed!r}")


def sample(logits: F32, sampling: Sampling, position: int) -> int:
    """The token that follows a row of logits.

    Shapes:   logits [vocab]; position: absolute position of the row that gave them, below 2^64
    Order:    w = exp_neg(settle(settle(l - max) / T));  W = floor(w * 2^40);  the rest is exact integers
    Source:   contract, section 6; Salmon et al. 2011 (Philox)
    """
    if np.float32(sampling.temperature) == 0.0:
        return int(np.argmax(logits))
    w = exp_neg(settle(settle(logits - np.max(logits)) / np.float32(sampling.temperature)))
    W = np.floor(w.astype(np.float64) * 2.0**40).astype(np.int64)  # exact: w is f32 and at most 1
    order = np.argsort(-W, kind="stable")  # W descending, id ascending
    if 0 < sampling.top_k < len(order):
        order = order[: sampling.top_k]
    mass = np.cumsum(W[order])
    share = round(sampling.top_p * 2.0**32) * int(mass[-1])  # the prefix must reach share / 2^32
    kept = np.sort(order[: int(np.searchsorted(mass, -(-share >> 32))) + 1])  # by id, ascending
    running = np.cumsum(W[kept])
    t = (philox(sampling.seed, position) * int(running[-1])) >> 64
    return int(kept[np.searchsorted(running, t, side="right")])


def philox(seed: int, position: int) -> int:
    """The first 64-bit word of Philox4x64-10 under key `seed` at counter `position`."""
    counter = np.array([position, 0, 0, 0], np.uint64)
    return int(np.random.Philox(key=seed, counter=counter).random_raw())
