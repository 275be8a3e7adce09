"""The numpy engine against transformers as it is installed: random models of every family, and the trained ones.

test_load_huggingface.py does the same from stored values. Here the models are wider than a chunk and the texts longer
than the chunks of both sides, and all runs in float64 there.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from gnomon import models
from gnomon.reference.engine import Engine
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Rows
from model_files import stored_cases

torch = pytest.importorskip("torch", reason="needs torch, which `make test-peers` installs")
transformers = pytest.importorskip("transformers", reason="needs transformers, which `make test-peers` installs")

import hf_models  # noqa: E402 it needs torch
import make_hf_cases  # noqa: E402

pytestmark = pytest.mark.peers
CLOSE = 2e-5  # of the largest logit
WIDE = {"vocab_size": 97, "initializer_range": 0.06}
SIZES = WIDE | {"hidden_size": 136, "intermediate_size": 140, "max_position_embeddings": 512}
GPT2 = WIDE | {"n_embd": 136, "n_positions": 256}
DELTA = {"linear_key_head_dim": 12, "linear_value_head_dim": 20, "linear_conv_kernel_dim": 4}
CASES = [name for name in hf_models.CASES if hf_models.available(name)]
HYBRIDS = [name for name in CASES if "next" in name or "qwen3_5" in name]
IDS = np.random.Generator(np.random.PCG64(7)).integers(0, 97, 300).tolist()
STORED = [case for case in stored_cases(4, 5) if case["transformers"] == transformers.__version__]


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> (engine, transformers' model) of a case made wide, its weights random; each made once"""
    made: dict[str, tuple[Engine[Any], Any]] = {}

    def get(name: str) -> tuple[Engine[Any], Any]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            torch.manual_seed(0)
            sizes = GPT2 if name.startswith("gpt2") else SIZES | (DELTA if name in HYBRIDS else {})
            model = hf_models.build(name, sizes)
            with torch.no_grad():
                for weight in model.parameters():
                    if weight.dim() == 1:  # norms, biases and decays, which begin at one value
                        weight.add_(0.2 * torch.randn_like(weight))
            model.save_pretrained(folder)
            save_file(hf_models.text_weights(folder), folder / "model.safetensors", metadata={"format": "pt"})
            made[name] = Engine("numpy", load(folder), NumpyOps()), hf_models.load(name, folder)
        return made[name]

    return get


def assert_close(got: Any, expected: Any) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.ptp(expected, axis=-1).max() > 2.0, "the logits are flat"
    assert np.abs(got - expected).max() <= CLOSE * np.abs(expected).max()


@pytest.mark.parametrize("name", CASES)
def test_no_family_leaves_transformers(pair: Any, name: str) -> None:
    """150 positions: more than two chunks of a delta layer there, and than one chunk of attention here."""
    engine, peer = pair(name)
    with torch.no_grad():
        expected = peer(torch.tensor([IDS[:150]])).logits[0]

    assert_close(engine.forward(IDS[:150], want="all")[0], expected)


@pytest.mark.parametrize("name", HYBRIDS)
def test_no_step_leaves_the_recurrent_path(pair: Any, name: str) -> None:
    engine, peer = pair(name)
    rows, state = [], None
    for token in IDS[:40]:
        row, state = engine.forward([token], state)
        rows.append(row[0])

    assert_close(rows, hf_models.step_by_step(peer, IDS[:40]))


@pytest.mark.parametrize("name", HYBRIDS)
def test_no_ragged_batch_leaves_a_prefill_and_its_steps(pair: Any, name: str) -> None:
    """Two texts: one prefilled to 5, the other to 70 positions, there alone and here in steps that both share."""
    engine, peer = pair(name)
    a, b = IDS[:12], IDS[150:223]
    one, two = engine.new(), engine.new()
    got: tuple[list[Any], list[Any]] = ([], [])
    for i, j, k, n in ((0, 5, 0, 70), (5, 6, 70, 72), (6, 12, 72, 73)):
        out = engine.step(Rows.of([(one, a[i:j]), (two, b[k:n])]), want="all")
        got[0].extend(out[: j - i])
        got[1].extend(out[j - i :])

    assert_close(got[0], hf_models.step_by_step(peer, a, prefill=5))
    assert_close(got[1], hf_models.step_by_step(peer, b, prefill=70))


def test_no_text_model_needs_more_than_the_recipe_of_docs_models_md(tmp_path: Path) -> None:
    """Refused with its vision weights, loaded once transformers has saved its text model by itself."""
    if "qwen3_5" not in CASES:
        pytest.skip(f"transformers {transformers.__version__} has no qwen3_5")
    whole, text = tmp_path / "whole", tmp_path / "text"
    hf_models.build("qwen3_5", SIZES | DELTA).save_pretrained(whole)
    with pytest.raises(ModelError, match=r"model\.visual\."):
        load(whole)
    peer = transformers.Qwen3_5ForCausalLM.from_pretrained(whole)
    peer.save_pretrained(text)
    with torch.no_grad():
        expected = peer.double()(torch.tensor([IDS[:20]])).logits[0]

    assert_close(Engine("numpy", load(text), NumpyOps()).forward(IDS[:20], want="all")[0], expected)


TRAINED = sorted(path.parent.name for path in Path(models.__file__).parent.glob("tiny_*/model.safetensors"))


@pytest.mark.parametrize("folder", TRAINED)
def test_no_trained_model_leaves_transformers(folder: str) -> None:
    path = Path(models.__file__).parent / folder
    family = json.loads((path / "config.json").read_text())["model_type"]
    if family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    prompts = json.loads((Path(__file__).parent / "prompts.json").read_text())
    engine = Engine("numpy", load(path), NumpyOps())
    peer = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).double().eval()
    tokenizer = engine.model.tokenizer
    assert tokenizer is not None
    for prompt in prompts["prompts"][:3]:
        ids = tokenizer.encode(prompt["text"])
        with torch.no_grad():
            expected = peer(torch.tensor([ids])).logits[0]

        assert_close(engine.forward(ids, want="all")[0], expected)


@pytest.mark.parametrize("case", STORED, ids=lambda case: case["name"])
def test_stored_values_are_none_but_those_of_transformers(case: dict[str, Any]) -> None:
    """Only for a version that they were written by; round figures of float64 leave nothing to tolerate but its sums."""
    again = make_hf_cases.case(case["name"])

    assert {key: again[key] for key in ("config", "tensors", "seen")} == {
        key: case[key] for key in ("config", "tensors", "seen")
    }
    np.testing.assert_allclose(again["logits"], case["logits"], rtol=0, atol=1e-6)
