"""One model in the forms that files give it: none is another model than the plain one.

The plain form is a stored case of transformers 5, whose logits test_load_huggingface.py compares.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.reference.config import Config, RopeScaling
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.load import load
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.widen import widen
from model_files import Arrays, case_arrays, config, stored_cases, tensors, write_as, write_directory

STORED = {case["name"]: case for case in stored_cases(5)}
GPT2_BUFFERS = {"attn.bias": np.ones((1, 1, 16, 16), np.uint8), "attn.masked_bias": np.array(-1e4, np.float32)}


def changed(
    tmp_path: Path,
    name: str,
    options: dict[str, Any] | None = None,
    change: Callable[[Arrays], Arrays] = lambda held: held,
) -> tuple[Model, Model]:
    """The stored case, and the same with other options and tensors."""
    case = STORED[name]
    plain = load(write_directory(tmp_path / "plain", case["config"], case_arrays(case)))
    other = write_directory(tmp_path / "other", case["config"] | (options or {}), change(case_arrays(case)))
    return plain, load(other)


def renamed(pattern: str, name: str) -> Callable[[Arrays], Arrays]:
    return lambda held: {re.sub(pattern, name, key): array for key, array in held.items()}


def fused(held: Arrays) -> Arrays:
    """All experts of a layer side by side, as transformers 5 has them in memory."""
    out = {key: array for key, array in held.items() if ".experts." not in key}
    for i in range(4):
        at, parts = f"model.layers.{i}.mlp.experts", {}
        for part in ("gate", "up", "down"):
            if f"{at}.0.{part}_proj.weight" in held:
                parts[part] = np.stack([held[f"{at}.{e}.{part}_proj.weight"] for e in range(5)])
        if parts:
            out[f"{at}.gate_up_proj"] = np.concatenate([parts["gate"], parts["up"]], axis=1)
            out[f"{at}.down_proj"] = parts["down"]
    return out


def with_buffers(held: Arrays) -> Arrays:
    return held | {f"transformer.h.{i}.{name}": array for i in range(3) for name, array in GPT2_BUFFERS.items()}


def with_drafts(held: Arrays) -> Arrays:
    return held | {
        "mtp.fc.weight": np.ones((8, 16), np.float32),
        "mtp.layers.0.mlp.gate.weight": np.ones((5, 8), np.float32),
    }


def with_head(held: Arrays) -> Arrays:
    return held | {"lm_head.weight": held["transformer.wte.weight"].copy()}


FORMS: dict[str, tuple[str, dict[str, Any], Callable[[Arrays], Arrays]]] = {
    "qwen3_moe-fused": ("qwen3_moe", {}, fused),
    "qwen3_moe-fused-in-some-layers": ("qwen3_moe_with_plain_layers", {}, fused),
    "qwen3_moe-count-of-version-4": ("qwen3_moe", {"num_experts": 5, "num_local_experts": None}, lambda held: held),
    "qwen3_moe-published-options": (
        "qwen3_moe",
        {"max_window_layers": 48, "sliding_window": 4096, "use_sliding_window": False, "output_router_logits": True},
        lambda held: held,
    ),
    "qwen3_next-fused": ("qwen3_next", {}, fused),
    "qwen3_next-interval": ("qwen3_next", {"layer_types": None, "full_attention_interval": 4}, lambda held: held),
    "qwen3_next-default-interval": ("qwen3_next", {"layer_types": None}, lambda held: held),
    "qwen3_next-default-rotation": ("qwen3_next", {"rope_parameters": None}, lambda held: held),
    "qwen3_next-drafts": ("qwen3_next", {}, with_drafts),
    "qwen3_5_text-published-options": (
        "qwen3_5_text",
        {"attn_output_gate": True, "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "mtp_num_hidden_layers": 1}
        | {"mtp_use_dedicated_embeddings": False},
        with_drafts,
    ),
    "qwen3_5_text-multimodal-names": ("qwen3_5_text", {}, renamed(r"^model\.", "model.language_model.")),
    "qwen3_5_text-rotation-cut-off": (  # 0.37 of a head of 8 is 2.96
        "qwen3_5_text",
        {"rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.37}},
        lambda held: held,
    ),
    "qwen3_5-text-names": ("qwen3_5", {}, renamed(r"^model\.language_model\.", "model.")),
    "qwen3_5-drafts": ("qwen3_5", {}, with_drafts),
    "gpt2-names-without-prefix": ("gpt2", {}, renamed(r"^transformer\.", "")),
    "gpt2-buffers": ("gpt2", {}, with_buffers),
    "gpt2-buffers-without-prefix": ("gpt2", {}, lambda held: renamed(r"^transformer\.", "")(with_buffers(held))),
    "gpt2-head-stored-too": ("gpt2", {}, with_head),
    "gpt2-published-options": (
        "gpt2",
        {"n_ctx": 1024, "task_specific_params": {"text-generation": {"max_length": 50}}, "n_inner": 32},
        lambda held: held,
    ),
    "gpt2-another-name-of-gelu": ("gpt2", {"activation_function": "gelu_pytorch_tanh"}, lambda held: held),
    "gpt2-default-gelu": ("gpt2", {"activation_function": None}, lambda held: held),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_file_is_another_model(tmp_path: Path, form: str) -> None:
    plain, other = changed(tmp_path, *FORMS[form])

    assert other.config == plain.config
    assert other.digest == plain.digest
    assert {name: w.plus_one for name, w in other.weights.items()} == {
        name: w.plus_one for name, w in plain.weights.items()
    }


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
@pytest.mark.parametrize("name", ["qwen3_next", "qwen3_5", "gpt2"])
def test_no_value_changes_where_bytes_move(tmp_path: Path, name: str, dtype: str) -> None:
    """Transposed, split and permuted in another type: values that each type holds come back the same."""
    case = STORED[name]
    plain = load(write_directory(tmp_path / "plain", case["config"], case_arrays(case)))
    folder = write_directory(tmp_path / "other", case["config"], case_arrays(case))
    write_as(folder / "model.safetensors", case_arrays(case), dtype)
    other = load(folder)

    assert {weight.dtype for weight in other.weights.values()} == {dtype}
    for key, weight in other.weights.items():
        np.testing.assert_array_equal(widen(weight), widen(plain.weights[key]), key)


@pytest.mark.parametrize("name", ["qwen3_next", "qwen3_5"])
def test_no_norm_of_a_hybrid_but_the_gated_one_lacks_its_one(tmp_path: Path, name: str) -> None:
    case = STORED[name]
    weights = load(write_directory(tmp_path / "m", case["config"], case_arrays(case))).weights
    norms = {key for key, weight in weights.items() if "norm" in key or key.endswith(("ln1.weight", "ln2.weight"))} - {
        key for key in weights if ".delta." in key
    }

    assert {key for key, weight in weights.items() if weight.plus_one} == norms | {"ln_final.weight"}
    assert len(norms) >= 10


def test_experts_are_views_of_the_file(tmp_path: Path) -> None:
    _, model = changed(tmp_path, "qwen3_moe", {}, fused)

    assert not any(weight.data.flags.owndata or weight.data.flags.writeable for weight in model.weights.values())


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({"type": "linear", "factor": 2.5}, RopeScaling("linear", 2.5)),
        (
            {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1, "high_freq_factor": 4}
            | {"original_max_position_embeddings": 8192},
            RopeScaling("llama3", 32.0, 1.0, 4.0, 8192),
        ),
    ],
    ids=["linear", "llama3"],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaling_is_found_wherever_a_version_puts_it(
    tmp_path: Path, key: str, scaling: dict[str, Any], expected: RopeScaling
) -> None:
    given = config(**{key: scaling})
    loaded: Config = load(write_directory(tmp_path / "m", given, tensors(given))).config

    assert loaded.rope is not None
    assert loaded.rope.scaling == expected


def test_no_row_of_a_gpt2_stands_above_its_table(tmp_path: Path) -> None:
    case = STORED["gpt2"]
    model = load(write_directory(tmp_path / "m", case["config"], case_arrays(case)))
    engine = Engine("numpy", model, NumpyOps())
    _, state = engine.forward([1] * 16)

    with pytest.raises(UsageError, match="16"):
        engine.forward([1], state)


def test_a_multimodal_tokenizer_comes_with_the_ids_of_its_text_config(tmp_path: Path) -> None:
    case = STORED["qwen3_5"]
    given = case["config"] | {"eos_token_id": None}  # null outside counts as left out
    folder = write_directory(tmp_path / "m", given, case_arrays(case), tokenizer=True)
    tokenizer = load(folder).tokenizer

    assert tokenizer is not None
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (1, (2,))
