"""The sampler draws the token that the oracle draws, with its own Philox and one logit at a time."""

import numpy as np
import pytest

from cases.values import scattered
from gnomon.reference.ops.sample import Sampling, sample
from oracle import sampler as oracle

LOGITS = {
    "plain": scattered("plain", "logits", 97),
    "tied": np.round(scattered("plain", "logits", 97)),  # many equal values
    "peaked": scattered("plain", "logits", 97) * np.float32(8),  # most weights are 0
    "tiny": scattered("tiny", "logits", 97),
    "one": np.ones(1, np.float32),
}
SETTINGS = [  # temperature, top_k, top_p
    (1.0, 0, 1.0),
    (0.7, 5, 1.0),
    (1.3, 0, 0.9),
    (1.7, 20, 0.95),
    (1.0, 1, 1.0),
    (1.0, 500, 0.5),
    (1.0, 0, 1e-12),
    (0.0, 0, 1.0),
    (1e-46, 0, 1.0),  # rounds to the f32 number 0
    (2.0**-20, 0, 1.0),
    (2.0**20, 0, 0.999),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", LOGITS)
def test_no_other_token_is_drawn(kind: str, setting: tuple[float, int, float]) -> None:
    logits, (T, top_k, top_p) = LOGITS[kind], setting
    for seed, position in [(0, 0), (1, 7), (2**64 - 1, 129), (123456789, 2**40), (5, 3), (6, 3), (7, 3)]:
        expected = oracle.sample(logits.tolist(), T, top_k, top_p, seed, position)
        assert sample(logits, Sampling(T, top_k, top_p, seed), position) == expected
