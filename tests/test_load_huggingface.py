"""A Hugging Face directory loads as transformers means it.

data/hf_cases_4.json and hf_cases_5.json hold configs and names that transformers 4 and 5 wrote, what attention saw
there and the logits that came out (make_hf_cases.py).
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from gnomon.reference.config import Rope
from gnomon.reference.engine import Engine
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
from gnomon.reference.load.hf_sources import decoder_sources
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.weights import Weight, digest
from gnomon.reference.widen import widen
from model_files import END, TOKENS, case_arrays, config, stored_cases, tensors, write_as, write_directory

CASES = stored_cases(4, 5)


def case_id(case: dict[str, Any]) -> str:
    return f"{case['name']}-{case['transformers']}"


def from_case(tmp_path: Path, case: dict[str, Any]) -> Model:
    return load(write_directory(tmp_path / "model", case["config"], case_arrays(case)))


def logits(model: Model, ids: range = range(9)) -> np.ndarray[Any, Any]:
    return Engine("numpy", model, NumpyOps()).forward(ids, want="all")[0]


def assert_close(got: np.ndarray[Any, Any], expected: Any) -> None:
    """A bound, since both round: 5e-6 of the largest logit. The hybrids come to 3.8e-6, the others to 5e-7."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_logits_do_not_leave_those_of_transformers(tmp_path: Path, case: dict[str, Any]) -> None:
    assert_close(logits(from_case(tmp_path, case))[-1], case["logits"])


@pytest.mark.parametrize("case", [case for case in CASES if "steps" in case], ids=case_id)
def test_no_row_of_a_hybrid_leaves_the_recurrent_path_of_transformers(tmp_path: Path, case: dict[str, Any]) -> None:
    """Each row there is a call of its own."""
    assert_close(logits(from_case(tmp_path, case)), case["steps"])


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_no_layer_sees_other_positions_than_in_transformers(tmp_path: Path, case: dict[str, Any]) -> None:
    config = from_case(tmp_path, case).config
    windows = [window for window, kind in zip(config.windows, config.kinds, strict=True) if kind == "attention"]

    assert [[min(p + 1, window or p + 1) for p in range(9)] for window in windows] == case["seen"]


@pytest.mark.parametrize(
    ("options", "windows"),
    [
        ({"sliding_window": 7, "use_sliding_window": False, "max_window_layers": 0}, (None, None)),
        ({"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 1}, (None, 7)),
        ({"sliding_window": None, "use_sliding_window": True, "max_window_layers": 0}, (None, None)),
        ({"use_sliding_window": True, "max_window_layers": 1}, (None, 4096)),
        ({"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]}, (4096, None)),
        ({}, (None, None)),
    ],
    ids=["unused", "from-layer-1", "null", "default-width", "named-layers", "none"],
)
def test_windows_of_an_older_qwen2_follow_the_same_rule(
    tmp_path: Path, options: dict[str, Any], windows: tuple[int | None, ...]
) -> None:
    """Configs from before `layer_types` was written out."""
    given = config("qwen2", **options)

    assert load(write_directory(tmp_path / "m", given, tensors(given))).config.windows == windows


@pytest.mark.parametrize(
    ("options", "theta"),
    [
        ({"rope_theta": 500000}, 500000.0),
        ({"rope_theta": None}, 10000.0),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": 2e4, "rope_type": "default"}}, 20000.0),
        ({"rope_theta": 2e4, "rope_parameters": {"rope_theta": 2e4, "rope_type": "default"}}, 20000.0),
        ({"rope_theta": 2e4, "rope_parameters": {"rope_type": "default"}}, 20000.0),
        ({"rope_theta": 3e4, "rope_scaling": {"type": "default"}}, 30000.0),
        ({"rope_theta": 3e4, "rope_scaling": None, "partial_rotary_factor": 1.0}, 30000.0),
    ],
    ids=["4", "absent", "5", "both", "5-without-theta", "4-default", "4-null"],
)
def test_rope_theta_is_found_wherever_a_version_puts_it(tmp_path: Path, options: dict[str, Any], theta: float) -> None:
    given = config(**options)

    assert load(write_directory(tmp_path / "m", given, tensors(given))).config.rope == Rope(theta, 16)


@pytest.mark.parametrize(
    ("family", "left_out", "stored"),
    [
        ("llama", "head_dim", {"head_dim": 16}),
        ("llama", "num_key_value_heads", {"num_key_value_heads": 4}),
        ("mistral", "num_key_value_heads", {"num_attention_heads": 8, "num_key_value_heads": 8}),
        ("qwen2", "num_key_value_heads", {"num_attention_heads": 32, "num_key_value_heads": 32}),
        ("qwen3", "num_key_value_heads", {"num_attention_heads": 32, "num_key_value_heads": 32}),
        ("qwen3", "head_dim", {"head_dim": 128}),
    ],
    ids=str,
)
def test_what_config_json_leaves_out_has_the_default_of_transformers(
    tmp_path: Path, family: str, left_out: str, stored: dict[str, int]
) -> None:
    """Defaults of LlamaConfig, MistralConfig, Qwen2Config and Qwen3Config, transformers 5.24."""
    given = config(family, **stored)
    written = {key: value for key, value in given.items() if key != left_out}
    loaded = load(write_directory(tmp_path / "m", written, tensors(given))).config

    assert {"head_dim": loaded.head_dim, "num_key_value_heads": loaded.kv_heads}[left_out] == stored[left_out]


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_no_stored_value_changes(tmp_path: Path, dtype: str) -> None:
    """Values that each of the types can hold come back as they were stored."""
    values = tensors(config())
    folder = write_directory(tmp_path / "m", config(), values)
    write_as(folder / "model.safetensors", values, dtype)
    model = load(folder)
    source = decoder_sources(model.config, values)
    theirs = {name: source(name, weight.shape).tensor for name, weight in model.weights.items()}

    assert set(theirs.values()) == values.keys()
    for name, weight in model.weights.items():
        assert weight.dtype == dtype
        np.testing.assert_array_equal(widen(weight), values[theirs[name]], name)


def test_shards_are_no_other_model(tmp_path: Path) -> None:
    given = config()
    arrays = tensors(given)
    whole = load(write_directory(tmp_path / "whole", given, arrays))
    folder = write_directory(tmp_path / "sharded", given, arrays)
    shard(folder, arrays)

    assert load(folder).digest == whole.digest


def shard(folder: Path, arrays: dict[str, Any]) -> None:
    """Replace model.safetensors by two shards and their index."""
    (folder / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for k in range(2):
        name = f"model-0000{k + 1}-of-00002.safetensors"
        part = {key: arrays[key] for key in sorted(arrays)[k::2]}
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_an_index_of_a_single_file_is_followed(tmp_path: Path) -> None:
    given = config()
    arrays = tensors(given)
    folder = write_directory(tmp_path / "m", given, arrays)
    index = {"weight_map": dict.fromkeys(arrays, "model.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert load(folder).config.layers == 2


@pytest.mark.parametrize("stored_twice", [False, True], ids=["once", "twice"])
def test_a_tied_head_is_the_embedding(tmp_path: Path, stored_twice: bool) -> None:
    given = config(tie_word_embeddings=True)
    arrays = tensors(given)
    if stored_twice:
        arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()
    weights = load(write_directory(tmp_path / "m", given, arrays)).weights

    assert weights["head.weight"].role == "linear"
    assert np.shares_memory(weights["head.weight"].data, weights["embed.weight"].data)


def test_the_frequencies_of_an_old_checkpoint_are_ignored(tmp_path: Path) -> None:
    given = config()
    arrays = tensors(given)
    whole = load(write_directory(tmp_path / "new", given, arrays))
    for i in range(2):
        arrays[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)

    assert load(write_directory(tmp_path / "old", given, arrays)).digest == whole.digest


def test_weights_are_read_only_views_of_the_file(tmp_path: Path) -> None:
    given = config()
    for weight in load(write_directory(tmp_path / "m", given, tensors(given))).weights.values():
        assert not weight.data.flags.writeable
        assert not weight.data.flags.owndata


def test_book_keeping_refuses_no_model(tmp_path: Path) -> None:
    """Options seen in published configs (SmolLM2, Qwen2.5, TinyLlama) that change nothing."""
    given = config() | {
        "_name_or_path": "x",
        "architectures": ["LlamaForCausalLM"],
        "attention_dropout": 0.0,
        "is_llama_config": True,
        "pretraining_tp": 1,
        "rope_interleaved": False,
        "some_option_of_tomorrow": None,
        "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
        "transformers_version": "4.42.3",
        "use_cache": True,
    }

    assert load(write_directory(tmp_path / "m", given, tensors(given))).config.vocab == 260


def test_a_tokenizer_comes_with_the_ids_of_the_config(tmp_path: Path) -> None:
    given = config(bos_token_id=0, eos_token_id=[END, 1])
    folder = write_directory(tmp_path / "m", given, tensors(given), tokenizer=True)
    tokenizer = load(folder).tokenizer

    assert tokenizer is not None
    assert tokenizer.encode("hello") == [TOKENS.index("hell"), TOKENS.index("o")]
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (0, (END, 1))


def test_no_end_of_a_text_is_missed_that_stands_beside_the_config(tmp_path: Path) -> None:
    """Chat models name the end of a turn in generation_config.json, or only as the tokenizer's eos_token."""
    given = config(eos_token_id=END)
    folder = write_directory(tmp_path / "m", given, tensors(given), tokenizer=True)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, END], "temperature": 0.6}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "hell"}, "model_max_length": 9}))
    tokenizer = load(folder).tokenizer
    assert tokenizer is not None
    assert tokenizer.eos_ids == (END, 1, TOKENS.index("hell"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "no such token"}')
    (folder / "generation_config.json").write_text('{"eos_token_id": 1}')
    tokenizer = load(folder).tokenizer
    assert tokenizer is not None
    assert tokenizer.eos_ids == (END, 1)
    (folder / "generation_config.json").write_text('{"eos_token_id": 260}')
    with pytest.raises(ModelError, match=r"below 260 in generation_config\.json but got eos_token_id=260"):
        load(folder)


def test_a_directory_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    given = config()

    assert load(write_directory(tmp_path / "m", given, tensors(given))).tokenizer is None


def test_the_digest_stays_and_one_bit_changes_it(tmp_path: Path) -> None:
    given = config()
    folder = write_directory(tmp_path / "m", given, tensors(given))
    first = load(folder).digest
    assert load(folder).digest == first
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    assert load(folder).digest != first


def test_a_weight_under_another_name_is_another_digest() -> None:
    weight = Weight("a.weight", "F32", (2,), np.zeros((1, 8), np.uint8), "vector")

    assert digest([weight]) != digest([replace(weight, name="b.weight")])
