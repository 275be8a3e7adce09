"""The model that trains `tiny-hybrid` and the weights it left, against transformers' Qwen3_5ForCausalLM in float32."""

import numpy as np
import pytest

import gnomon
from gnomon import models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from gnomon.models import delta  # noqa: E402 it needs torch
from gnomon.models.train_hybrid import Hybrid, Shape  # noqa: E402

pytestmark = pytest.mark.peers
CLOSE = 2e-5  # of the largest logit


def apart(got, expected):
    """The largest difference, as a share of the largest expected value."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    return np.abs(got - expected).max() / np.abs(expected).max()


def step_by_step(peer, ids):
    """Logits [T, V] of one id at a time: the recurrent form of transformers. Its versions name the cache variously."""
    cache, out = transformers.DynamicCache(config=peer.config), []
    for token in ids:
        out.append(peer(torch.tensor([[token]]), None, None, cache, use_cache=True).logits[0, 0])
    return torch.stack(out)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def peaked():
    """The training module with weights large enough to matter, its transformers twin, and ids [70]."""
    torch.manual_seed(0)
    model = Hybrid(Shape()).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight") or "layernorm" in name:
                weight.add_(0.3 * torch.randn_like(weight))
            elif weight.dim() == 2:
                weight.mul_(4.0)
    peer = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**Shape().config())).float().eval()
    assert peer.load_state_dict(model.state_dict(), strict=False).unexpected_keys == []
    peer.tie_weights()
    return model, peer, torch.randint(0, Shape().vocab_size, (70,)).tolist()


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_chunks_are_not_another_function(rows):
    torch.manual_seed(rows)
    q, k, v = (torch.randn(2, 3, rows, width, dtype=torch.float64) for width in (24, 24, 28))
    k = torch.nn.functional.normalize(k, dim=-1)
    beta = torch.rand(2, 3, rows, dtype=torch.float64)
    g = -torch.rand(2, 3, rows, dtype=torch.float64).pow(8) * 30.0  # from almost nothing to all forgotten
    args = (q, k, v, g, beta)
    assert apart(delta.chunk_delta_rule(*args), delta.rows_delta_rule(*args)) < 1e-12


def test_the_training_module_is_not_another_model(peaked):
    model, peer, ids = peaked
    ids = torch.tensor([ids])
    assert apart(model(ids), peer(ids).logits) < CLOSE


def test_its_rows_are_not_another_recurrence(peaked, monkeypatch):
    model, peer, ids = peaked
    monkeypatch.setattr(delta, "chunk_delta_rule", delta.rows_delta_rule)
    assert apart(model(torch.tensor([ids]))[0], step_by_step(peer, ids)) < CLOSE


@pytest.mark.parametrize("form", ["chunks", "rows"])
def test_the_trained_weights_load_as_transformers_loads_them(form):
    model = gnomon.load("tiny-hybrid")
    peer = transformers.Qwen3_5ForCausalLM.from_pretrained(models.folder("tiny-hybrid"), dtype=torch.float32).eval()
    ids = model.tokenizer.encode(
        "import os\nimport sys\n\ndef main(argv):\n    for name in argv:\n        print(name)\n"
    )
    got, _ = gnomon.engine("numpy", model).forward(ids, want="all")
    assert apart(got, peer(torch.tensor([ids])).logits[0] if form == "chunks" else step_by_step(peer, ids)) < CLOSE
