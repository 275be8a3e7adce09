"""Ways to break a Hugging Face directory: name -> (damage, a part of what the message must say)."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

Damage = Callable[[Path], None]

Q = "model.layers.0.self_attn.q_proj.weight"
HUGE = 1 << 60


def options(**changes: Any) -> Damage:
    """Other values in config.json."""

    def damage(path: Path) -> None:
        given = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(given | changes))

    return damage


def option_text(old: str, new: str) -> Damage:
    """Other text in config.json, which need not be JSON afterwards."""

    def damage(path: Path) -> None:
        text = (path / "config.json").read_text()
        assert old in text
        (path / "config.json").write_text(text.replace(old, new))

    return damage


def content(name: str, data: bytes) -> Damage:
    """Another content of a file."""

    def damage(path: Path) -> None:
        (path / name).write_bytes(data)

    return damage


def without(name: str) -> Damage:
    """One file less."""
    return lambda path: (path / name).unlink()


def arrays(change: Callable[[dict[str, Any]], Any]) -> Damage:
    """Other tensors, in a sound file."""

    def damage(path: Path) -> None:
        held = load_file(path / "model.safetensors")
        change(held)
        save_file(held, path / "model.safetensors")

    return damage


def header(change: Callable[[dict[str, Any]], Any], tail: bytes = b"") -> Damage:
    """Another header over the same bytes."""

    def damage(path: Path) -> None:
        data = (path / "model.safetensors").read_bytes()
        end = 8 + struct.unpack("<Q", data[:8])[0]
        entries = json.loads(data[8:end])
        change(entries)
        text = json.dumps(entries).encode()
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[end:] + tail)

    return damage


def raw(change: Callable[[bytes], bytes]) -> Damage:
    """Other bytes in model.safetensors."""

    def damage(path: Path) -> None:
        file = path / "model.safetensors"
        file.write_bytes(change(file.read_bytes()))

    return damage


def twice(data: bytes) -> bytes:
    """The same entry for a tensor again, which the safetensors library lets pass."""
    end = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.dumps({Q: json.loads(data[8:end])[Q]})[1:-1]
    text = b"{" + entry.encode() + b"," + data[8:end].lstrip()[1:]
    return struct.pack("<Q", len(text)) + text + data[end:]


def index(change: Callable[[Path, dict[str, Any]], Any]) -> Damage:
    """Two shards and their index, `change` applied to folder and weight_map."""

    def damage(path: Path) -> None:
        held = load_file(path / "model.safetensors")
        (path / "model.safetensors").unlink()
        weight_map: dict[str, Any] = {}
        for k in range(2):
            part = {name: held[name] for name in sorted(held)[k::2]}
            save_file(part, path / f"part{k}.safetensors")
            weight_map |= dict.fromkeys(part, f"part{k}.safetensors")
        change(path, weight_map)
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return damage


LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    **{"original_max_position_embeddings": 64},
}
UNSIGNED = np.zeros((64, 64), np.uint32)

DAMAGES: dict[str, tuple[Damage, str]] = {
    "no_config": (without("config.json"), "config.json"),
    "config_is_no_json": (option_text("{", "{{"), "config.json to be JSON"),
    "config_is_a_list": (content("config.json", b"[1]"), "JSON object"),
    "config_is_not_utf8": (content("config.json", b'{"\xff": 1}'), "config.json to be JSON"),
    "config_is_too_large": (content("config.json", b" " * (5 << 20)), "at most 4194304 bytes"),
    "config_nests_without_end": (content("config.json", b'{"a":' * 90000), "nested too deeply"),
    "config_holds_a_key_twice": (
        option_text("{", '{"hidden_size": 64, '),
        "'hidden_size' stands there twice",
    ),
    "config_holds_nan": (options(rms_norm_eps=float("nan")), "NaN"),
    "config_holds_infinity": (option_text("1e-05", "1e999"), "finite numbers"),
    "config_holds_a_number_of_9000_digits": (option_text("1e-05", "9" * 9000), "config.json"),
    "unknown_model_type": (options(model_type="mamba"), "model_type among"),
    "model_type_not_read_here": (options(model_type="gemma3"), "model_type among"),
    "model_type_is_a_list": (options(model_type=["llama"]), "model_type"),
    "option_missing": (
        option_text('"num_hidden_layers": 2, ', ""),
        "num_hidden_layers in config.json but it is missing",
    ),
    "option_is_text": (options(hidden_size="64"), "hidden_size='64'"),
    "option_is_true": (options(num_key_value_heads=True), "num_key_value_heads=True"),
    "vocabulary_of_2_60": (options(vocab_size=HUGE), f"vocab={HUGE}"),
    "layers_of_2_60": (options(num_hidden_layers=HUGE), f"num_hidden_layers={HUGE}"),
    "layers_of_2_30": (options(num_hidden_layers=1 << 30), "num_hidden_layers="),
    "one_layer_more_than_stored": (options(num_hidden_layers=3), "model.layers.2.input_layernorm.weight"),
    "one_layer_less_than_stored": (options(num_hidden_layers=1), "model.layers.1."),
    "heads_do_not_divide": (options(num_key_value_heads=3), "n_kv_heads=3"),
    "odd_head_width": (options(head_dim=15), "even rotary width"),
    "width_of_heads_unknown": (options(head_dim=None, num_attention_heads=3), "heads=3"),
    "eps_of_zero": (options(rms_norm_eps=0.0), "eps=0.0"),
    "theta_of_zero": (options(rope_theta=0.0), "rope_theta"),
    "theta_that_makes_frequencies_infinite": (options(rope_theta=1e-300), "frequencies of at most 2^64"),
    "factor_that_makes_frequencies_infinite": (
        options(rope_scaling={"type": "linear", "factor": 1e-300}),
        "frequencies of at most 2^64",
    ),
    "theta_twice": (options(rope_parameters={"rope_theta": 5.0}), "one rope_theta"),
    "rope_scaling_dynamic": (options(rope_scaling={"type": "dynamic", "factor": 2.0}), "'dynamic'"),
    "linear_scaling_without_factor": (options(rope_scaling={"type": "linear"}), "factor in the rope parameters"),
    "linear_scaling_by_zero": (options(rope_scaling={"type": "linear", "factor": 0.0}), "factor=0.0"),
    "linear_scaling_by_text": (options(rope_scaling={"type": "linear", "factor": "2"}), "factor='2'"),
    "linear_scaling_with_more": (
        options(rope_scaling={"type": "linear", "factor": 2.0, "attention_factor": 1.5}),
        "attention_factor=1.5",
    ),
    "llama3_without_low": (options(rope_scaling=LLAMA3 | {"low_freq_factor": None}), "low_freq_factor"),
    "llama3_low_above_high": (options(rope_scaling=LLAMA3 | {"low_freq_factor": 4.0}), "above low_freq_factor=4.0"),
    "llama3_without_length": (
        options(rope_scaling=LLAMA3 | {"original_max_position_embeddings": None}),
        "original_max_position_embeddings",
    ),
    "llama3_of_no_length": (
        options(rope_scaling=LLAMA3 | {"original_max_position_embeddings": 0}),
        "original_max_position_embeddings=0",
    ),
    "positions_in_three_dimensions": (options(rope_parameters={"mrope_section": [2, 3, 3]}), "mrope_section"),
    "rope_parameters_yarn": (options(rope_parameters={"rope_type": "yarn"}), "'yarn'"),
    "rope_parameters_by_layer": (options(rope_parameters={"full_attention": {}}), "full_attention"),
    "rope_parameters_are_text": (options(rope_parameters="default"), "rope_parameters='default'"),
    "partial_rotation": (options(partial_rotary_factor=0.5), "partial_rotary_factor=0.5"),
    "partial_rotation_inside": (
        options(rope_parameters={"partial_rotary_factor": 0.5}),
        "partial_rotary_factor=0.5",
    ),
    "another_activation": (options(hidden_act="gelu"), "hidden_act='gelu'"),
    "attention_bias": (options(attention_bias=True), "attention_bias=True"),
    "mlp_bias": (options(mlp_bias=True), "mlp_bias=True"),
    "tensor_parallel_pretraining": (options(pretraining_tp=2), "pretraining_tp=2"),
    "quantisation": (options(quantization_config={"bits": 4}), "quantization_config"),
    "window_in_a_llama": (options(sliding_window=5), "sliding_window=5"),
    "unknown_option": (options(logit_softcap=30.0), "logit_softcap=30.0"),
    "unknown_option_set_to_false": (options(scale_by_depth=False), "scale_by_depth=False"),
    "window_of_zero": (options(model_type="mistral", sliding_window=0), "window=0"),
    "window_that_32_bits_cut_to_1": (options(model_type="mistral", sliding_window=4294967297), "window=4294967297"),
    "window_of_2_63": (options(model_type="mistral", sliding_window=1 << 63), f"window={1 << 63}"),
    "mistral_window_not_used": (
        options(model_type="mistral", sliding_window=4096, use_sliding_window=False),
        "use_sliding_window=False",
    ),
    "layer_of_a_llama_slides": (
        options(layer_types=["full_attention", "sliding_attention"]),
        "full_attention in every entry",
    ),
    "windows_in_a_llama": (options(use_sliding_window=True), "use_sliding_window=True"),
    "biased_qkv": (options(qkv_bias=True), "qkv_bias=True"),
    "qk_norm_in_a_llama": (options(use_qk_norm=True), "use_qk_norm=True"),
    "layer_types_too_short": (
        options(model_type="qwen3", layer_types=["full_attention"]),
        "each of 2 layers",
    ),
    "layer_types_unknown": (options(model_type="qwen3", layer_types=["full_attention", "mamba"]), "'mamba'"),
    "sliding_layers_without_window": (
        options(model_type="qwen3", layer_types=["sliding_attention"] * 2),
        "sliding_window",
    ),
    "no_weights": (without("model.safetensors"), "model.safetensors"),
    "weights_empty": (content("model.safetensors", b""), "model.safetensors"),
    "weights_of_seven_bytes": (content("model.safetensors", b"\1\0\0\0\0\0\0"), "model.safetensors"),
    "weights_truncated": (raw(lambda data: data[:-1]), "not fully covered"),
    "weights_with_bytes_after_them": (raw(lambda data: data + b"\0"), "not fully covered"),
    "header_of_2_60": (raw(lambda data: struct.pack("<Q", HUGE) + data[8:]), f"announces {HUGE}"),
    "header_longer_than_file": (raw(lambda data: struct.pack("<Q", len(data)) + data[8:]), "announces"),
    "header_cut_short": (raw(lambda data: struct.pack("<Q", 100) + data[8:]), "invalid JSON"),
    "header_lists_a_tensor_twice": (raw(twice), "stands there twice"),
    "tensor_of_2_60": (header(lambda h: h[Q].update(shape=[HUGE, 64])), "overflow"),
    "tensor_of_2_40": (header(lambda h: h[Q].update(shape=[1 << 34, 64])), "shape"),
    "tensor_beyond_the_file": (header(lambda h: h[Q].update(data_offsets=[HUGE, HUGE + 16384])), "offset"),
    "tensors_overlap": (
        header(lambda h: h[Q].update(data_offsets=h["lm_head.weight"]["data_offsets"])),
        "model.safetensors",
    ),
    "tensor_of_negative_shape": (header(lambda h: h[Q].update(shape=[-64, -64])), "invalid value"),
    "entry_is_a_list": (
        header(lambda h: h.update({Q: [h[Q]["dtype"], h[Q]["shape"], h[Q]["data_offsets"]]})),
        "an object",
    ),
    "tensor_missing": (arrays(lambda held: held.pop(Q)), f"a tensor {Q}"),
    "tensor_extra": (arrays(lambda held: held.update({"score.weight": held[Q]})), "'score.weight'"),
    "tensor_with_a_line_break_in_its_name": (arrays(lambda held: held.update({"a\nb": held[Q]})), r"'a\nb'"),
    "tensor_renamed": (arrays(lambda held: held.update({"q.weight": held.pop(Q)})), f"a tensor {Q}"),
    "tensor_transposed": (
        arrays(lambda held: held.update({"lm_head.weight": held["lm_head.weight"].T.copy()})),
        "shape",
    ),
    "tensor_of_integers": (arrays(lambda held: held.update({Q: UNSIGNED})), "U32"),
    "bias_in_a_llama": (arrays(lambda held: held.update({Q[:-6] + "bias": held[Q][0]})), "q_proj.bias"),
    "tied_head_differs": (
        arrays(lambda held: held.update({"lm_head.weight": held["model.embed_tokens.weight"] + 1})),
        "lm_head.weight",
    ),
    "head_missing": (arrays(lambda held: held.pop("lm_head.weight")), "lm_head.weight"),
    "shard_missing": (index(lambda path, _: (path / "part1.safetensors").unlink()), "part1.safetensors"),
    "shard_lacks_a_tensor": (index(lambda _, m: m.update({"x.weight": "part0.safetensors"})), "'x.weight'"),
    "shard_has_a_tensor_more": (index(lambda _, m: m.pop(Q)), Q),
    "shard_outside_the_directory": (
        index(lambda _, m: m.update({Q: "../part0.safetensors"})),
        "plain names",
    ),
    "shard_is_a_number": (index(lambda _, m: m.update({Q: 1})), "weight_map"),
    "index_without_a_map": (content("model.safetensors.index.json", b"{}"), "weight_map"),
    "index_beside_another_model": (
        content("model.safetensors.index.json", b'{"weight_map": {"a": "part0.safetensors"}}'),
        "has both",
    ),
    "tokenizer_is_no_json": (content("tokenizer.json", b"{"), "JSON"),
    "end_id_beyond_the_vocabulary": (options(eos_token_id=260), "260"),
}
