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


# One logit is 0, of weight 2^40; e^-22.1745 is 257.5 times 2^-40, so its weight is 257, and so is the next one's.
FAINT, FAINTER = -22.1745, -22.1750
LAST = 2**64 - 1
BOUNDARIES = {  # logits, top_k, top_p, the 64 random bits, the token: by hand from section 6 of the contract
    "the running sum is reached, not exceeded": ([0.0, 0.0], 0, 1.0, 2**63, 1),
    "one below the running sum": ([0.0, 0.0], 0, 1.0, 2**63 - 1, 0),
    "the first half is enough for one half": ([0.0, 0.0], 0, 0.5, LAST, 0),
    "top_p is rounded up to its 32 bits": ([0.0, 0.0], 0, 0.5 + 0.75 * 2.0**-32, LAST, 1),
    "top_p is rounded down to its 32 bits": ([0.0, 0.0], 0, 0.5 + 0.25 * 2.0**-32, LAST, 0),
    "a share between two integers": ([FAINT, 0.0], 0, 1 - 2.0**-32, 0, 0),
    "a weight is cut off, not rounded": ([FAINT, 0.0], 0, 1.0, -(-(257 << 64) // (2**40 + 257)), 1),
    "one below that weight": ([FAINT, 0.0], 0, 1.0, (256 << 64) // (2**40 + 257) + 1, 0),
    "equal integers go by id": ([FAINTER, FAINT, 0.0], 2, 1.0, 0, 0),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_no_boundary_of_the_integers_is_crossed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, top_k, top_p, random, token = BOUNDARIES[name]
    monkeypatch.setattr("gnomon.reference.ops.sample.philox", lambda seed, position: random)
    monkeypatch.setattr(oracle, "philox", lambda seed, position: random)
    assert oracle.sample(list(map(float, np.array(logits, np.float32))), 1.0, top_k, top_p, 0, 0) == token
    assert sample(np.array(logits, np.float32), Sampling(1.0, top_k, top_p), 0) == token
