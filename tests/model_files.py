"""Small sound models as files, for tests to load and to break: a Hugging Face directory, a GGUF file.

Names and metadata of the GGUF are gguf's own; its rows of q and k are permuted here, by index, as llama.cpp's
converter does for architecture llama.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from filling import fill, peaked

Arrays = dict[str, NDArray[Any]]
DATA = Path(__file__).parent / "data"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*BYTES, "he", "ll", "hell", "<end>"]  # 260
MERGES = [("h", "e"), ("l", "l"), ("he", "ll")]
END = 259


def config(model_type: str = "llama", **changes: Any) -> dict[str, Any]:
    """The config.json of a small model."""
    return {
        "model_type": model_type,
        "vocab_size": 260,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": END,
        **changes,
    }


def tensors(config: dict[str, Any]) -> Arrays:
    """Every tensor of the model by its Hugging Face name, f32, filled."""
    D, F, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], D), "model.norm.weight": (D,)}
    for i in range(config["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": (D,),
            "self_attn.q_proj.weight": (q, D),
            "self_attn.k_proj.weight": (kv, D),
            "self_attn.v_proj.weight": (kv, D),
            "self_attn.o_proj.weight": (D, q),
            "post_attention_layernorm.weight": (D,),
            "mlp.gate_proj.weight": (F, D),
            "mlp.up_proj.weight": (F, D),
            "mlp.down_proj.weight": (D, F),
        }
        if config["model_type"] == "qwen2":
            layer |= {f"self_attn.{x}_proj.bias": (n,) for x, n in (("q", q), ("k", kv), ("v", kv))}
        if config["model_type"] == "qwen3":
            layer |= {f"self_attn.{x}_norm.weight": (d,) for x in "qk"}
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], D)
    return {name: fill(name, shape) for name, shape in shapes.items()}


def stored_cases(*majors: int) -> list[dict[str, Any]]:
    """What make_hf_cases.py wrote with those versions of transformers."""
    return [case for major in majors for case in json.loads((DATA / f"hf_cases_{major}.json").read_text())]


def case_arrays(case: dict[str, Any]) -> Arrays:
    """The tensors of a stored case, made again."""
    return {name: peaked(name, tuple(shape)) for name, shape in case["tensors"].items()}


def write_directory(folder: Path, config: dict[str, Any], arrays: Arrays, tokenizer: bool = False) -> Path:
    """config.json, model.safetensors and, if wanted, a byte-level tokenizer.json."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(arrays, folder / "model.safetensors")
    if tokenizer:
        bpe = models.BPE({token: i for i, token in enumerate(TOKENS)}, MERGES)
        made = Tokenizer(bpe)
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([TOKENS[END]])
        made.save(str(folder / "tokenizer.json"))
    return folder


def write_as(path: Path, arrays: dict[str, Any], dtype: str) -> None:
    """A safetensors file of f32 arrays stored in another float type; NumPy has no bf16, so by hand."""
    header, data = {}, b""
    for name, array in arrays.items():
        bf16 = (array.view(np.uint32) >> 16).astype("<u2")
        part = {"F32": array, "F16": array.astype("<f2"), "BF16": bf16}[dtype].tobytes()
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def converted_rows(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows as llama.cpp's converter orders them: row i of half s of a head becomes its row 2 i + s."""
    d = len(array) // heads
    out = np.empty_like(array)
    for row in range(len(array)):
        head, s, i = row // d, row % d // (d // 2), row % (d // 2)
        out[head * d + 2 * i + s] = array[row]
    return out


def gguf_writer(path: Path, config: dict[str, Any], tokenizer: bool = False) -> gguf.GGUFWriter:
    """A writer that has the metadata of the model."""
    writer = gguf.GGUFWriter(path, config["model_type"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(TOKENS)
        writer.add_token_types([1] * END + [3])
        writer.add_token_merges([f"{a} {b}" for a, b in MERGES])
        writer.add_eos_token_id(END)
    return writer


def add_tensors(
    writer: gguf.GGUFWriter, config: dict[str, Any], arrays: Arrays, dtypes: dict[str, str] | None = None
) -> None:
    """The tensors under GGUF names, rows of q and k converted for a llama

    dtypes: Hugging Face name -> type, for arrays that hold blocks already, uint8 [rows, bytes per row]
    """
    arch = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}[config["model_type"]]
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    for name, array in arrays.items():
        if config["model_type"] == "llama" and (".q_proj." in name or ".k_proj." in name):
            key = "num_attention_heads" if ".q_proj." in name else "num_key_value_heads"
            array = converted_rows(array, config[key])
        dtype = gguf.GGMLQuantizationType[dtypes[name]] if dtypes and name in dtypes else None
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert theirs is not None
        writer.add_tensor(theirs, array, raw_dtype=dtype)


def finish(writer: gguf.GGUFWriter) -> None:
    """Write the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf(
    path: Path,
    config: dict[str, Any],
    arrays: Arrays,
    dtypes: dict[str, str] | None = None,
    tokenizer: bool = False,
) -> Path:
    """A GGUF file of the model."""
    writer = gguf_writer(path, config, tokenizer)
    add_tensors(writer, config, arrays, dtypes)
    finish(writer)
    return path
