"""What the gate `sampler` relies on: its critical value, its own probabilities, faults that are faults and no more."""

import mpmath
import numpy as np
import pytest

from gnomon.gates import sampler as gate
from gnomon.gates.faults import samplers
from gnomon.reference.ops.sample import Sampling, sample
from test_sampler import LOGITS, SETTINGS

N = gate.HEADER.numbers
FREEDOM = N["kept"] - 1


def test_no_critical_value_is_made_up() -> None:
    """One in a thousand fair histograms lies above it: by the incomplete gamma function of mpmath."""
    above = mpmath.gammainc(mpmath.mpf(FREEDOM) / 2, mpmath.mpf(N["critical"]) / 2, regularized=True)
    assert float(above) == pytest.approx(0.001, rel=1e-4)


def test_scipy_gives_the_critical_value() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    assert stats.chi2.ppf(0.999, df=FREEDOM) == pytest.approx(N["critical"], abs=5e-5)


def test_the_expected_shares_are_those_of_the_integers_of_the_contract() -> None:
    """By the weights of the contract: section 6, with exp rounded as it says."""
    logits = gate.row().tolist()
    weights = [int(np.floor(np.float32(mpmath.exp((x - max(logits)) / np.float32(1.3))) * 2.0**40)) for x in logits]
    order = sorted(range(97), key=lambda i: (-weights[i], i))[: N["top_k"]]
    expected = gate.probabilities()
    assert sorted(expected) == sorted(order[: N["kept"]])
    total = sum(weights[i] for i in expected)
    assert total - weights[order[N["kept"] - 1]] < 0.95 * sum(weights[i] for i in order) <= total
    for i, share in expected.items():
        assert share == pytest.approx(weights[i] / total, rel=1e-5)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", LOGITS)
def test_no_fault_is_more_than_its_mistake(kind: str, setting: tuple[float, int, float]) -> None:
    """Without a mistake the broken sampler is the sampler."""
    for seed, position in [(0, 0), (2**64 - 1, 129), (5, 3)]:
        how = Sampling(*setting, seed)
        assert samplers.variant(LOGITS[kind], how, position) == sample(LOGITS[kind], how, position)
