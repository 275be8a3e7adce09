"""Ways to break a GGUF file: name -> (damage, a part of what the message must say)."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.gguf_writer import GGUFValue

from model_files import Arrays, add_tensors, config, finish, gguf_writer, tensors

Damage = Callable[[Path], None]

HUGE = 1 << 60
NUMBERS = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}
NORM, Q = "blk.0.attn_norm.weight", "blk.0.attn_q.weight"  # [64], [64, 64]
HF_Q = "model.layers.0.self_attn.q_proj.weight"


def raw(change: Callable[[bytearray], Any]) -> Damage:
    """Other bytes: `change` works in place, or gives the new content."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        changed = change(data)
        path.write_bytes(data if changed is None else changed)

    return damage


def put(at: int, form: str, value: int) -> Damage:
    """A number of the fixed part of the header."""
    return raw(lambda data: struct.pack_into("<" + form, data, at, value))


def after(text: str, skip: int, form: str, value: int) -> Damage:
    """The number `skip` bytes after the end of the string `text`, which stands in the header as a name."""

    def change(data: bytearray) -> None:
        name = struct.pack("<Q", len(text)) + text.encode()
        assert data.count(name) == 1
        struct.pack_into("<" + form, data, data.index(name) + len(name) + skip, value)

    return raw(change)


def swap(old: str, new: str) -> Damage:
    """A string of the same length in place of another."""

    def change(data: bytearray) -> None:
        at = data.index(struct.pack("<Q", len(old)) + old.encode())
        data[at + 8 : at + 8 + len(old)] = new.encode("latin-1")

    assert len(old) == len(new)
    return raw(change)


def rewritten(
    metadata: Callable[[gguf.GGUFWriter], Any] = lambda writer: None,
    arrays: Callable[[Arrays], Any] = lambda held: None,
) -> Damage:
    """The file again, with other metadata or other tensors."""

    def damage(path: Path) -> None:
        held = tensors(config())
        arrays(held)
        writer = gguf_writer(path, config(), tokenizer=True)
        metadata(writer)
        add_tensors(writer, config(), held)
        finish(writer)

    return damage


def key(name: str, value: Any) -> Damage:
    """One more metadata entry, or another value of any type in place of the one it has."""

    def kind(value: Any) -> gguf.GGUFValueType:
        if type(value) is int and value >= 1 << 32:
            return gguf.GGUFValueType.UINT64
        return NUMBERS.get(type(value)) or gguf.GGUFValueType.get_type(value)

    def change(writer: gguf.GGUFWriter) -> None:
        element = kind(value[0]) if isinstance(value, list) else None
        writer.kv_data[0][name] = GGUFValue(value, kind(value), element)

    return rewritten(change)


def without(name: str) -> Damage:
    """One metadata entry less."""
    return rewritten(lambda writer: writer.kv_data[0].pop(name))


def one_more_tensor(name: str, values: Sequence[float] = (1.0,) * 8) -> Damage:
    """A tensor more, f32."""
    return rewritten(lambda writer: writer.add_tensor(name, np.array(values, np.float32)))


def count(at: int, difference: int) -> Damage:
    """Another number of tensors (at 8) or of metadata entries (at 16)."""
    return raw(lambda data: struct.pack_into("<Q", data, at, data[at] + difference))


# A tensor entry: name, u32 dimensions, u64 each, u32 type, u64 offset. After the name of a tensor of one
# dimension the type stands at 12 and the offset at 16; of two dimensions, at 20 and 24.
DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (raw(lambda data: b""), "at least 24 bytes"),
    "magic_only": (raw(lambda data: data[:4]), "at least 24 bytes"),
    "another_magic": (put(0, "I", 0x46554748), "the magic GGUF"),
    "version_1": (put(4, "I", 1), "version 1"),
    "version_4": (put(4, "I", 4), "version 4"),
    "big_endian": (put(4, "I", 3 << 24), "big-endian"),
    "tensors_2_60": (put(8, "Q", HUGE), f"{HUGE} tensors"),
    "entries_2_60": (put(16, "Q", HUGE), f"{HUGE} metadata entries"),
    "one_tensor_too_many": (count(8, 1), "GGUF"),
    "one_tensor_too_few": (count(8, -1), "end with its last tensor"),
    "one_entry_too_many": (count(16, 1), "GGUF"),
    "key_of_2_60_bytes": (put(24, "Q", HUGE), f"{HUGE} bytes of a metadata key"),
    "array_of_2_60_strings": (after("tokenizer.ggml.tokens", 8, "Q", HUGE), f"{HUGE} values of"),
    "array_of_2_60_numbers": (after("tokenizer.ggml.token_type", 8, "Q", HUGE), "token_type"),
    "array_of_arrays": (after("tokenizer.ggml.token_type", 4, "I", 9), "GGUF type is 9"),
    "unknown_value_type": (after("llama.block_count", 0, "I", 13), "GGUF type is 13"),
    "boolean_of_two": (after("llama.block_count", 0, "I", 7), "0 or 1 for a boolean"),
    "key_not_utf8": (swap("llama.block_count", "llama.block_coun\xff"), "UTF-8"),
    "key_twice": (swap("llama.attention.key_length", "llama.attention.head_count"), "stands there twice"),
    "dimensions_2_31": (after(NORM, 0, "I", 1 << 31), "1 to 4 dimensions"),
    "no_dimension": (after(NORM, 0, "I", 0), "1 to 4 dimensions"),
    "row_of_2_60": (after(NORM, 4, "Q", HUGE), NORM),
    "row_of_zero": (after(NORM, 4, "Q", 0), "1 to 2^63 values"),
    "product_beyond_2_64": (after(Q, 12, "Q", 1 << 58), "1 to 2^63 values"),
    "unknown_tensor_type": (after(NORM, 12, "I", 999), "number 999"),
    "type_iq2_xs": (after(NORM, 12, "I", int(gguf.GGMLQuantizationType.IQ2_XS)), "IQ2_XS"),
    "type_of_other_size": (after(NORM, 12, "I", int(gguf.GGMLQuantizationType.F16)), "at offset"),
    "row_no_multiple_of_a_block": (
        after(NORM, 12, "I", int(gguf.GGMLQuantizationType.Q4_K)),
        "whole Q4_K blocks of 256",
    ),
    "offset_not_aligned": (after(Q, 24, "Q", 4), "at offset"),
    "offset_over_another_tensor": (after(Q, 24, "Q", 0), "at offset"),
    "offset_beyond_the_file": (after(Q, 24, "Q", HUGE), "at offset"),
    "header_truncated": (raw(lambda data: data[:500]), "GGUF header"),
    "data_truncated": (raw(lambda data: data[:-100]), "end within the file"),
    "bytes_after_the_data": (raw(lambda data: data + b"\0" * 64), "end with its last tensor"),
    "tensor_twice": (swap("blk.1.attn_norm.weight", NORM), "stands there twice"),
    "tensor_missing": (rewritten(arrays=lambda held: held.pop(HF_Q)), Q),
    "tensor_extra": (one_more_tensor("blk.1.attn_q_norm.weight"), "attn_q_norm"),
    "embedding_missing": (
        rewritten(arrays=lambda held: held.pop("model.embed_tokens.weight")),
        "token_embd.weight",
    ),
    "tensor_transposed": (
        rewritten(arrays=lambda held: held.update({"lm_head.weight": held["lm_head.weight"].T.copy()})),
        "output.weight",
    ),
    "rope_freqs_that_no_llama_3_has": (
        one_more_tensor("rope_freqs.weight", [1, 1, 1, 2, 3, 8, 8, 8]),
        "entry 3 is 2.0",
    ),
    "rope_freqs_below_one": (one_more_tensor("rope_freqs.weight", [0.5] * 8), "its largest is 0.5"),
    "rope_freqs_with_nan": (one_more_tensor("rope_freqs.weight", [1.0] * 7 + [float("nan")]), "its largest is nan"),
    "rope_base_below_zero": (key("llama.rope.freq_base", -2.0), "rope.freq_base=-2.0"),
    "rope_freqs_with_signalling_nan": (
        rewritten(lambda w: w.add_tensor("rope_freqs.weight", np.full(8, 0x7F800001, np.uint32).view(np.float32))),
        "its largest is nan",
    ),
    "rope_freqs_of_other_length": (one_more_tensor("rope_freqs.weight", [1.0] * 7), "shape [8]"),
    "unknown_architecture": (key("general.architecture", "mamba"), "general.architecture"),
    "no_architecture": (without("general.architecture"), "general.architecture"),
    "architecture_is_a_number": (key("general.architecture", 7), "general.architecture"),
    "an_adapter": (key("general.type", "adapter"), "general.type"),
    "one_of_two_files": (key("split.count", 2), "first of 2 files"),
    "positions_that_32_bits_cut_to_1": (key("llama.context_length", (1 << 32) + 1), f"max_positions={(1 << 32) + 1}"),
    "split_count_is_text": (key("split.count", "2"), "split.count"),
    "older_blocks": (key("general.quantization_version", 1), "quantization_version"),
    "alignment_of_zero": (key("general.alignment", 0), "general.alignment"),
    "alignment_of_24": (key("general.alignment", 24), "general.alignment"),
    "alignment_is_text": (key("general.alignment", "32"), "general.alignment"),
    "option_missing": (without("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon"),
    "option_is_text": (key("llama.block_count", "2"), "llama.block_count='2'"),
    "option_is_a_list": (key("llama.attention.head_count", [4, 4]), "head_count=[4, 4]"),
    "layers_2_31": (key("llama.block_count", 1 << 31), "llama.block_count"),
    "eps_is_nan": (key("llama.attention.layer_norm_rms_epsilon", float("nan")), "layer_norm_rms_epsilon"),
    "heads_do_not_divide": (key("llama.attention.head_count_kv", 3), "n_kv_heads=3"),
    "values_of_other_width": (key("llama.attention.value_length", 8), "value_length"),
    "partial_rotation": (key("llama.rope.dimension_count", 8), "rope.dimension_count"),
    "vocabulary_of_other_size": (key("llama.vocab_size", 261), "vocab_size"),
    "rope_scaling": (key("llama.rope.scaling.type", "yarn"), "rope.scaling.type"),
    "rope_scaling_factor_of_zero": (key("llama.rope.scaling.factor", 0.0), "rope.scaling.factor=0.0"),
    "sliding_window": (key("llama.attention.sliding_window", 5), "sliding_window"),
    "experts": (key("llama.expert_count", 8), "expert_count"),
    "unknown_option": (key("llama.logit_scale", 0.5), "llama.logit_scale=0.5"),
    "too_few_tokens": (key("tokenizer.ggml.tokens", ["a", "b"]), "260 rows"),
    "tokens_are_numbers": (key("tokenizer.ggml.tokens", [1, 2]), "a list of str"),
    "end_id_beyond_the_vocabulary": (key("tokenizer.ggml.eos_token_id", 260), "260"),
}
