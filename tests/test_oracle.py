"""The judge is judged: the oracle reproduces every vector file, and its f32 steps are those of the machine.

41 vector files come from an independent implementation of the contract (api/vectors/README.md).
"""

import ast
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from make_vectors import made
from oracle import arms, experts, f32, recurrent, rope, rowwise, sampler
from oracle_run import RUN, each, words

ORACLE = Path(__file__).parent / "oracle"
VECTORS = Path(__file__).parents[1] / "api" / "vectors"
FILES = sorted(path.stem for path in VECTORS.glob("*.json"))


def read(spec: dict[str, Any]) -> Any:
    """An array of a vector file as nested lists of Python numbers."""
    if spec["dtype"] == "i64":
        return np.array(spec["values"], np.int64).reshape(spec["shape"]).tolist()
    words = [f32.from_bits(int(word, 16)) for word in spec["bits"]]
    return np.array(words).reshape(spec["shape"]).tolist()


def test_no_vector_file_is_missing() -> None:
    assert len(FILES) == 67


def test_no_vector_file_of_this_project_is_changed_by_hand() -> None:
    """Those that `make_vectors.py` makes are what the oracle says; it can make none of the others."""
    texts = made()
    assert len(texts) == 26
    for name, text in texts.items():
        assert (VECTORS / f"{name}.json").read_text() == text, name


def test_half_a_place_is_told() -> None:
    """By integers: 1 + exp_neg(-x) is 2 - 2^-23 there, and 2^24 / (2^24 - 1) is above 1 + 2^-24, half a place."""
    assert 2**24 * 2**24 > (2**24 + 1) * (2**24 - 1)
    case = json.loads((VECTORS / "sigmoid_ones.json").read_text())
    for x, y in zip(read(case["inputs"]["x"]), case["outputs"]["y"]["bits"], strict=True):
        if 1.5 * 2.0**-24 < x < 2.5 * 2.0**-24:
            assert y == "3f000001"


@pytest.mark.parametrize("file", FILES)
def test_no_vector_differs(file: str) -> None:
    case = json.loads((VECTORS / f"{file}.json").read_text())
    op = max((name for name in RUN if file == name or file.startswith(f"{name}_")), key=len)
    inputs = {name: read(spec) for name, spec in case["inputs"].items()}
    got = RUN[op](inputs, case["params"])
    for name, spec in case["outputs"].items():
        expected = words(read(spec))
        assert expected
        assert words(got[name]) == expected, f"{file}, output {name}"


@pytest.mark.parametrize("path", sorted(ORACLE.glob("*.py")), ids=lambda path: path.stem)
def test_the_oracle_imports_neither_the_package_nor_numpy(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    allowed = {"math", "struct", "collections.abc", "typing", "mpmath"}
    assert {name for name in imported if not name.startswith("oracle.")} <= allowed


@pytest.mark.parametrize("step", ["add", "sub", "mul", "div", "sqrt"])
def test_no_step_is_rounded_twice(step: str) -> None:
    """Against the f32 arithmetic of the machine: finite numbers of all kinds, subnormals and overflow too."""
    rng = np.random.default_rng(1)
    a_bits, b_bits = rng.integers(0, 1 << 32, (2, 20_000), dtype=np.uint32)
    a_bits[:5000] = b_bits[:5000] ^ rng.integers(0, 4, 5000, dtype=np.uint32)  # neighbours
    a_bits[:2500] ^= np.uint32(1 << 31)
    a_bits[5000:9000] &= np.uint32(0x807FFFFF)  # subnormal
    a, b = a_bits.view(np.float32), b_bits.view(np.float32)
    fine = np.isfinite(a) & np.isfinite(b) & (b != 0)
    a, b = a[fine], b[fine]
    with np.errstate(all="ignore"):
        name = {"sub": "subtract", "mul": "multiply", "div": "divide"}.get(step, step)
        expected = np.sqrt(np.abs(a)) if step == "sqrt" else getattr(np, name)(a, b)
    function = getattr(f32, step)
    got = [function(abs(x)) for x in a.tolist()] if step == "sqrt" else each(function, a.tolist(), b.tolist())
    assert words(got) == expected.view(np.uint32).tolist()


def test_overflow_gives_infinity() -> None:
    largest = f32.from_bits(0x7F7FFFFF)
    assert f32.add(largest, largest) == math.inf
    assert f32.mul(-largest, 2.0) == -math.inf
    assert f32.f32(largest + 2.0**102) == largest  # less than half an ulp above


@pytest.mark.parametrize("seed", [0, 1, 123456789, (1 << 64) - 1])
@pytest.mark.parametrize("position", [0, 1, 1 << 40, (1 << 64) - 1])
def test_no_other_philox(seed: int, position: int) -> None:
    """The contract names NumPy's generator."""
    counter = np.array([position, 0, 0, 0], np.uint64)
    assert sampler.philox(seed, position) == np.random.Philox(key=seed, counter=counter).random_raw()


@pytest.mark.parametrize(
    ("T", "top_p"),
    [(-1.0, 1.0), (2.0**-21, 1.0), (2.0**21, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, 1.5), (1.0, math.nan)],
)
def test_the_sampler_refuses(T: float, top_p: float) -> None:
    with pytest.raises(ValueError, match="Expected"):
        sampler.sample([0.0, 1.0], T, 0, top_p, 0, 0)


def always(value: float) -> experts.Expert:
    return lambda a: [value] * len(a)


def test_a_tie_of_experts_goes_to_the_lower_id() -> None:
    """By hand: four equal probabilities of 1/4, two chosen, normalised to 1/2 each."""
    constant = [always(value) for value in (2.0, 4.0, 100.0, 100.0)]
    assert experts.mixture([0.0, 0.0], [1.0] * 4, constant, top_k=2, normalise=True) == [3.0, 3.0]
    assert experts.mixture([0.0, 0.0], [1.0] * 4, constant, top_k=2, normalise=False) == [1.5, 1.5]


def test_a_shared_expert_joins_last() -> None:
    """By hand: 2^-24 + 2^-24 + 1 is exact in this order; with the 1 first, each 2^-24 would be lost."""
    small, one = [lambda a: [2.0**-23]] * 2, lambda a: [2.0]
    assert experts.mixture([0.0], [1.0] * 2, small, 2, False, (0.0, one)) == [1.0 + 2.0**-23]


def test_the_highest_probability_comes_first_whatever_its_id() -> None:
    constant = [lambda a: [8.0], lambda a: [2.0]]
    assert experts.mixture([0.0], [0.0, 1.0], constant, top_k=1, normalise=True) == [2.0]


def test_embedding_and_argmax() -> None:
    table = [[1.0, -2.0, 0.0, 2.0**-50], [0.5, 0.0, 3.0, 4.0]]
    assert rowwise.embed([1, 0], table) == [table[1], table[0]]
    assert rowwise.embed([0], table, scaled=True) == [[2.0, -4.0, 0.0, 2.0**-49]]
    assert rowwise.argmax([1.0, 3.0, 3.0, 2.0]) == 1


def test_linear_scaling_divides_every_frequency() -> None:
    plain = rope.inverse_frequencies(10000.0, 8)
    half = rope.inverse_frequencies(10000.0, 8, {"rope_type": "linear", "factor": 2.0})
    assert half == [f / 2 for f in plain]


def test_llama3_scaling_is_that_of_transformers() -> None:
    """Frequencies of Llama 3.2 1B in transformers 5.24.0, which computes them in f32: equal to a few ulp."""
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    known = {
        0: 1.0,
        14: 0.0032114461064338684,  # the last that stays as it is
        15: 0.0012905480107292533,  # between the bounds
        16: 0.000429556705057621,
        17: 9.708286233944818e-05,
        18: 1.9461638657958247e-05,  # divided by the factor
        31: 9.418306490260875e-08,
    }
    got = rope.inverse_frequencies(500000.0, 64, scaling)
    for i, frequency in known.items():
        assert got[i] == pytest.approx(frequency, rel=1e-6)


# What the vector files leave open, by hand.


def test_a_bf16_tie_goes_to_even() -> None:
    assert arms.bf16(1.0 + 2.0**-8) == 1.0
    assert arms.bf16(1.0 + 3 * 2.0**-8) == 1.0 + 2.0**-6
    assert arms.bf16(-(1.0 + 2.0**-8 + 2.0**-23)) == -(1.0 + 2.0**-7)


def test_an_int8_tie_goes_to_even() -> None:
    assert arms.quant([127.0, 0.5, 1.5, -2.5, -126.5]) == ([127, 0, 2, -2, -126], 1.0)
    assert arms.quant([0.0, 2.0**-50]) == ([0, 0], 1.0)


def test_experts_are_added_by_id() -> None:
    """The third expert is the likeliest, and would be lost between the two that cancel."""
    constant = [always(value) for value in (2.0**40, -(2.0**40), 1.0)]
    p = rowwise.softmax([0.0, 0.0, 1.0])
    assert p[2] > p[0] == p[1]
    assert experts.mixture([0.0], [0.0, 0.0, 1.0], constant, top_k=3, normalise=False) == [p[2]]


def test_a_decayed_state_is_settled() -> None:
    """One value at the floor decays to zero; what is written then stays below the floor, and is zero too."""
    floor = 2.0**-50
    _, state = recurrent.delta_rule([[[1.0]]], [[[1.0]]], [[[floor]]], [[-0.1]], [[1.0]], [[[floor]]])
    assert state == [[[0.0]]]


def test_top_p_is_rounded_to_its_32_bits() -> None:
    """Two equal logits: one is kept up to 1/2 and half a unit (a tie, to even), both beyond."""
    for units, kept in ((0.0, {0}), (0.5, {0}), (0.75, {0, 1})):
        top_p = 0.5 + units * 2.0**-32
        assert {sampler.sample([0.0, 0.0], 1.0, 0, top_p, 7, position) for position in range(40)} == kept
