"""What GGUF files of much used models hold beyond the plain form: scaled rotations, other metadata."""

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from broken_gguf import key, rewritten
from gnomon.reference.config import RopeScaling
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
from model_files import DATA, add_tensors, config, finish, gguf_writer, tensors, write_directory, write_gguf

FREQS = "rope_freqs.weight"


def converter_factors(theta: float, dim: int, factor: float, original: int = 8192) -> NDArray[np.float32]:
    """As llama.cpp's convert_hf_to_gguf.py computes them for low_freq_factor 1 and high_freq_factor 4, in f32."""
    f = np.float32
    out = []
    for power in np.arange(0, dim, 2, dtype=f) / f(dim):
        wavelength = f(2 * math.pi) * f(f(theta) ** power)
        if wavelength < original / 4:
            out.append(f(1))
        elif wavelength > original:
            out.append(f(factor))
        else:
            smooth = (f(original) / wavelength - f(1)) / f(3)
            out.append(f(1) / ((f(1) - smooth) / f(factor) + smooth))
    return np.array(out, f)


def llama3(path: Path, given: dict[str, Any], factors: NDArray[np.float32]) -> Path:
    """A GGUF file of a Llama 3.1: the scaling stands in a tensor, and nowhere else."""
    writer = gguf_writer(path, given)
    writer.add_tensor(FREQS, factors)
    add_tensors(writer, given, tensors(given))
    finish(writer)
    return path


STORED = json.loads((DATA / "rope_freqs.json").read_text())["factors"]


@pytest.mark.parametrize(("width", "factor"), [(128, 8.0), (64, 32.0)], ids=["Llama-3.1-8B", "Llama-3.2-1B"])
def test_no_llama_3_of_a_gguf_is_another_model_than_that_of_its_directory(
    tmp_path: Path, width: int, factor: float
) -> None:
    """With the factors that torch computes in the converter; some wavelengths are kept, blended, stretched."""
    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    given = config(head_dim=width, rope_theta=500000.0, max_position_embeddings=131072)
    converted = load(llama3(tmp_path / "m.gguf", given, np.array(STORED[f"{width},{factor}"], np.float32)))
    given["rope_scaling"] = scaling | {"original_max_position_embeddings": 8192}
    directory = load(write_directory(tmp_path / "m", given, tensors(given)))

    assert converted.config.rope == directory.config.rope
    assert converted.digest == directory.digest


def test_factors_that_the_parameters_do_not_give_are_refused_by_place(tmp_path: Path) -> None:
    given = config(head_dim=64, rope_theta=500000.0)
    factors = converter_factors(500000.0, 64, 8.0, original=8000)

    with pytest.raises(
        ModelError, match=r"rope_freqs.weight to hold the factors of rope scaling llama3 .* entry \d+ is"
    ):
        load(llama3(tmp_path / "m.gguf", given, factors))


def test_factors_of_one_scale_nothing(tmp_path: Path) -> None:
    rope = load(llama3(tmp_path / "m.gguf", config(), np.ones(8, np.float32))).config.rope

    assert rope is not None
    assert rope.scaling is None


LINEAR = RopeScaling("linear", 4.0)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, LINEAR),
        ({"rope.scaling.factor": 4.0}, LINEAR),
        ({"rope.scale_linear": 4.0}, LINEAR),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "rope.scaling.finetuned": True}, LINEAR),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, None),
        ({"rope.scaling.type": "none", "rope.scaling.original_context_length": 4096}, None),
        ({"rope.scaling.factor": 1.0}, None),
    ],
)
def test_no_linear_scaling_is_read_otherwise_than_by_llama_cpp(
    tmp_path: Path, metadata: dict[str, Any], expected: RopeScaling | None
) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf_writer(path, config())
    for name, value in metadata.items():
        {str: writer.add_string, float: writer.add_float32, bool: writer.add_bool, int: writer.add_uint32}[type(value)](
            f"llama.{name}", value
        )
    add_tensors(writer, config(), tensors(config()))
    finish(writer)
    rope = load(path).config.rope

    assert rope is not None
    assert rope.scaling == expected


# architecture -> metadata that the files of much used models have beside the required ones, by the tool that made them
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "TheBloke/Llama-2-7B-Chat": (
        "llama",
        {"llama.rope.dimension_count": 16, "llama.tensor_data_layout": "Meta AI original pth", "general.file_type": 15},
    ),
    "TheBloke/Mistral-7B-Instruct-v0.2": ("llama", {"llama.rope.dimension_count": 16, "general.name": "m"}),
    "TheBloke/deepseek-coder-6.7B-instruct": (
        "llama",
        {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0, "llama.rope.dimension_count": 16},
    ),
    "bartowski/Meta-Llama-3.1-8B-Instruct": (
        "llama",
        {"llama.vocab_size": 260, "general.type": "model", "quantize.imatrix.entries_count": 224}
        | {"general.languages": ["en", "de"], "general.size_label": "8B", "llama.rope.dimension_count": 16},
    ),
    "unsloth/Qwen3-8B": (
        "qwen3",
        {"general.quantized_by": "Unsloth", "general.base_model.count": 1, "general.tags": ["unsloth"]},
    ),
    "Qwen/Qwen2.5-7B-Instruct": ("qwen2", {"general.finetune": "Instruct", "general.version": "v0.1"}),
    "bartowski/Llama-3.2-1B-Instruct": (
        "llama",
        {"llama.vocab_size": 260, "quantize.imatrix.file": "x.imatrix", "quantize.imatrix.dataset": "x.txt"}
        | {"quantize.imatrix.chunks_count": 125, "general.license": "llama3.2"},
    ),
    "MaziyarPanahi/Mistral-7B-Instruct-v0.3": ("llama", {"llama.vocab_size": 260, "general.source.url": "https://x"}),
    "bartowski/Mistral-Nemo-Instruct-2407": ("llama", {"llama.vocab_size": 260, "general.file_type": 15}),
    "TheBloke/Yi-34B-Chat": ("llama", {"llama.rope.dimension_count": 16, "general.source.huggingface.repository": "x"}),
    "TheBloke/OpenHermes-2.5-Mistral-7B": ("llama", {"llama.expert_count": 0, "llama.expert_used_count": 0}),
    "mradermacher/DeepSeek-R1-Distill-Llama-8B": (
        "llama",
        {"mradermacher.quantize_version": "2", "mradermacher.convert_type": "hf", "llama.vocab_size": 260},
    ),
    "unsloth/DeepSeek-R1-Distill-Qwen-7B": ("qwen2", {"qwen2.vocab_size": 260, "general.organization": "Deepseek Ai"}),
    "bartowski/QwQ-32B": ("qwen2", {"general.license.link": "https://x", "general.base_model.0.name": "Qwen2.5 32B"}),
    "lmstudio-community/Qwen3-4B-Instruct-2507": ("qwen3", {"general.architecture": "qwen3", "general.basename": "x"}),
    "bartowski/Falcon3-7B-Instruct": ("llama", {"llama.vocab_size": 260, "general.finetune": "Instruct"}),
    "NousResearch/Hermes-3-Llama-3.1-8B": ("llama", {"llama.rope.scaling.type": "none", "llama.vocab_size": 260}),
    "QuantFactory/SmolLM2-1.7B-Instruct": ("llama", {"llama.vocab_size": 260, "general.license": "apache-2.0"}),
}


@pytest.mark.parametrize("name", TOOLS)
def test_no_metadata_of_a_published_file_refuse_it(tmp_path: Path, name: str) -> None:
    family, metadata = TOOLS[name]
    given = config(family)
    writer = gguf_writer(tmp_path / "m.gguf", given)
    for entry, value in metadata.items():
        writer.kv_data[0].pop(entry, None)
        writer.add_key_value(entry, value, *kind(value))
    add_tensors(writer, given, tensors(given))
    finish(writer)
    directory = load(write_directory(tmp_path / "m", given, tensors(given)))

    assert load(tmp_path / "m.gguf").digest == directory.digest


def kind(value: Any) -> tuple[Any, ...]:
    types = gguf.GGUFValueType
    if isinstance(value, list):
        return types.ARRAY, types.STRING
    return ({str: types.STRING, int: types.UINT32, float: types.FLOAT32}[type(value)],)


@pytest.mark.parametrize("scaling", ["yarn", "longrope", "su"])
def test_a_scaling_that_the_contract_lacks_is_refused_by_name(tmp_path: Path, scaling: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", config(), tensors(config()))
    key("llama.rope.scaling.type", scaling)(path)

    with pytest.raises(ModelError, match=f"a rope scaling among none, linear .* llama.rope.scaling.type='{scaling}'"):
        load(path)


def test_two_scalings_of_one_rotation_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"

    def both(writer: gguf.GGUFWriter) -> None:
        writer.add_float32("llama.rope.scaling.factor", 4.0)
        writer.add_tensor(FREQS, converter_factors(10000.0, 16, 8.0))

    rewritten(both)(path)
    with pytest.raises(
        ModelError, match=r"one rope scaling but the file has rope_freqs.weight and asks for factor 4.0"
    ):
        load(path)
