"""SmolLM2-135M, a public model, from its quantised GGUF file: `make test-real` fetches it."""

import os
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.cli.digest import digest

PROMPT = "The first law of thermodynamics states that"
PROMPT_IDS = [504, 808, 1525, 282, 39361, 2496, 338]
CONTINUATION = [1439, 2526, 325, 2312, 355, 7652, 28, 805]  # llama.cpp's greedy continuation of the same file

ENGINES = ("numpy", "host", "mlx-array")

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def model() -> gnomon.Model:
    path = Path(os.environ.get("GNOMON_SMOLLM2", ".cache/SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.is_file():
        pytest.skip(f"no SmolLM2 at {path}: make test-real fetches it")
    return gnomon.load(path)


@pytest.fixture(scope="module")
def digests(model: gnomon.Model) -> dict[str, Any]:
    return {name: digest(gnomon.engine(name, model), PROMPT_IDS, 8) for name in ENGINES}


def test_the_prompt_has_no_other_ids(model: gnomon.Model) -> None:
    assert model.tokenizer is not None
    assert model.tokenizer.encode(PROMPT) == PROMPT_IDS


@pytest.mark.parametrize("name", ENGINES)
def test_no_engine_continues_otherwise_than_llama_cpp(digests: dict[str, Any], name: str) -> None:
    assert digests[name]["greedy"] == CONTINUATION


@pytest.mark.parametrize("name", ENGINES[1:])
def test_no_tensor_differs_between_engines(digests: dict[str, Any], name: str) -> None:
    numpy, other = digests["numpy"], digests[name]
    assert len(numpy["taps"]) == 3 + 30 * 18  # embed, ln_final, logits; 18 names a layer
    assert len(numpy["state"]) == 2 * 30
    assert [tap for tap in numpy["taps"] if numpy["taps"][tap] != other["taps"].get(tap)] == []
    assert numpy == other


@pytest.mark.parametrize("name", ENGINES[:2])
def test_decoding_row_by_row_changes_no_bit(model: gnomon.Model, name: str) -> None:
    whole, one = gnomon.engine(name, model), gnomon.engine(name, model)
    logits, state = whole.forward(PROMPT_IDS, want="all")
    other = one.new()
    for row, token in enumerate(PROMPT_IDS):
        gnomon.assert_same_bytes(one.forward([token], other)[0][0], logits[row], f"logits of row {row}")
    expected = whole.export(state)
    for name, array in one.export(other).items():
        gnomon.assert_same_bytes(array, expected[name], name)
