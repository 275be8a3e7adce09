"""The sampler draws what the contract says, and what it draws is distributed as the numbers ask."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from unittest import mock

import numpy as np

from gnomon.gates.faults import samplers as broken
from gnomon.gates.gate import Array, FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.reference.ops import sample as module
from gnomon.reference.ops.sample import Sampling

HEADER = Header(
    name="sampler",
    question="Does the sampler draw the contract's token, and are its draws distributed as the logits ask?",
    instrument="the known answers in the vectors; words of the generator that lie on a border between two tokens; a "
    "histogram of draws from one row, over many seeds and positions, against float64 arithmetic of this gate alone",
    threshold="every known answer; each border belongs to the token above it; no token outside the kept ones; "
    "chi-square below the critical value, after the first draws and after all",
    disproof="a row, parameters, seed and position for which two implementations of the contract draw other tokens",
    void="no vector of a sampler, a histogram with a bin of fewer than five expected draws",
    numbers={
        "temperature": 1.3,
        "top_k": 60,
        "top_p": 0.95,
        "positions": 100,
        "seeds": [20, 1000],  # 2,000 draws, then 100,000: what is grossly wrong is seen soon
        "kept": 48,
        "critical": 82.7204,  # scipy.stats.chi2.ppf(0.999, df=47) of scipy 1.17.1; df = kept - 1
    },
)


def run(subject: Subject) -> Outcome:
    known = sum(answers(subject))
    borders = sum(on_borders(subject))
    drawn, statistic = distribution(subject)
    return Outcome("PASS", "", {"known": known, "borders": borders, "draws": drawn, "chi_square": round(statistic, 2)})


def answers(subject: Subject) -> Iterator[int]:
    """1 for each known answer. Raises FailedError at the first that is another one."""
    files = sorted(subject.vectors.glob("sample*.json"))
    if not files:
        raise VoidError(f"no vector of a sampler in {subject.vectors.name}")
    for file in files:
        case = json.loads(file.read_text("utf-8"))
        logits = np.array([int(word, 16) for word in case["inputs"]["logits"]["bits"]], np.uint32).view(np.float32)
        draws = zip(case["params"]["draws"], case["outputs"]["ids"]["values"], strict=True)
        for (temperature, top_k, top_p, seed, position), expected in draws:
            got = subject.sample(logits, Sampling(temperature, top_k, top_p, seed), position)
            if got != expected:
                how = f"T={temperature}, top_k={top_k}, top_p={top_p}, seed={seed}, position={position}"
                raise FailedError(f"{file.stem}, {how}: token {got}, expected {expected}")
            yield 1


def on_borders(subject: Subject) -> Iterator[int]:
    """Four equal logits share the words of the generator into four quarters; the first of each belongs to its token."""
    for token in range(4):
        for word, expected in ((token << 62, token), ((token + 1 << 62) - 1, token)):
            with mock.patch.object(module, "philox", lambda seed, position, word=word: word):
                got = subject.sample(np.ones(4, np.float32), Sampling(), 0)
            if got != expected:
                raise FailedError(f"word {word:#018x} of four equal tokens: token {got}, expected {expected}")
            yield 1


def distribution(subject: Subject) -> tuple[int, float]:
    """How many draws there were, and chi-square of all of them. Raises FailedError where they do not fit."""
    n, logits, expected = HEADER.numbers, row(), probabilities()
    if len(expected) != n["kept"] or min(expected.values()) * n["positions"] * n["seeds"][0] < 5:
        raise VoidError(f"the histogram has {len(expected)} bins, some of them too rare")
    counts: Counter[int] = Counter()
    statistic, first = math.inf, 0
    for seeds in n["seeds"]:
        for seed in range(first, seeds):
            how = Sampling(n["temperature"], n["top_k"], n["top_p"], seed)
            counts.update(subject.sample(logits, how, position) for position in range(n["positions"]))
        first, total = seeds, counts.total()
        if stray := counts.keys() - expected.keys():
            raise FailedError(f"token {min(stray)} is drawn, which is not among the kept ones")
        statistic = sum((counts[i] - p * total) ** 2 / (p * total) for i, p in expected.items())
        if not statistic < n["critical"]:
            raise FailedError(f"chi-square {statistic:.2f} of {total} draws, critical is {n['critical']}")
    return counts.total(), statistic


def row() -> Array:
    """97 different logits, in no order, all exact in f32."""
    return np.array([(45 * i + 11) % 97 for i in range(97)], np.float32) / np.float32(16.0)


def probabilities() -> dict[int, float]:
    """Of each token that top_k and top_p keep: exp in float64, the sums exact."""
    n, logits = HEADER.numbers, row().tolist()
    weights = {i: Fraction(math.exp((x - max(logits)) / n["temperature"])) for i, x in enumerate(logits)}
    order = sorted(weights, key=lambda i: (-weights[i], i))[: n["top_k"]]
    share = Fraction(n["top_p"]) * sum(weights[i] for i in order)
    kept: list[int] = []
    while sum(weights[i] for i in kept) < share:
        kept.append(order[len(kept)])
    return {i: float(weights[i] / sum(weights[j] for j in kept)) for i in kept}


GATE = Gate(
    HEADER,
    run,
    {
        "of equal weights the highest id comes first": (broken.highest_id_first, "sample_tied"),
        "T is multiplied": (broken.multiplies, "sample, T=1.3"),
        "the prefix is one short": (broken.prefix_one_short, "expected"),
        "top_p is taken before top_k": (broken.top_p_first, "expected"),
        "the seed is ignored": (broken.ignores_seed, "seed=123456789"),
        "the position is the next one": (broken.next_position, "position=0: token"),
        "the walk ends where the sum is reached": (broken.reached, "of four equal tokens"),
        "the walk is over 64 ids at most": (broken.of_64_ids, "not among the kept ones"),
        "eight positions share a word": (broken.repeats_words, "of 2000 draws, critical is"),
    },
    per_engine=False,
)
