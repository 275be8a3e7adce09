"""A GGUF file loads as the model that was converted into it: same values, same logits, for each block type."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from blocks_oracle import FORMATS, read_blocks
from gnomon.reference.engine import Engine
from gnomon.reference.load import load
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.widen import widen
from model_files import (
    END,
    TOKENS,
    Arrays,
    add_tensors,
    config,
    finish,
    gguf_writer,
    tensors,
    write_directory,
    write_gguf,
)
from oracle.f32 import settle

FAMILIES = ["llama", "qwen2", "qwen3"]
SMOLLM2 = Path(__file__).parents[1] / ".cache" / "SmolLM2-135M-Instruct.Q4_1.gguf"
BLOCKED = [dtype for dtype, (_, values, _, _) in FORMATS.items() if values > 1]


def logits(model: Model) -> np.ndarray[Any, Any]:
    return Engine("numpy", model, NumpyOps()).forward([7, 5, 9, 10, 0], want="all")[0]


def both(tmp_path: Path, given: dict[str, Any], **options: Any) -> tuple[Model, Model]:
    """The same model from a directory and from a GGUF file."""
    arrays = tensors(given)
    return (
        load(write_directory(tmp_path / "directory", given, arrays)),
        load(write_gguf(tmp_path / "model.gguf", given, arrays, **options)),
    )


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gguf_gives_no_other_logits_than_the_directory(tmp_path: Path, family: str, tied: bool) -> None:
    directory, converted = both(tmp_path, config(family, tie_word_embeddings=tied))

    assert converted.config.tied == tied
    assert converted.weights.keys() == directory.weights.keys()
    np.testing.assert_array_equal(logits(converted).view(np.uint32), logits(directory).view(np.uint32))
    assert converted.digest == directory.digest


@pytest.mark.parametrize("family", FAMILIES)
def test_metadata_say_what_config_json_says(tmp_path: Path, family: str) -> None:
    """But for eps: the file holds an f32, and that is the number the config must round to."""
    directory, converted = both(tmp_path, config(family))

    assert np.float32(converted.config.eps) == np.float32(directory.config.eps) == np.float32(1e-5)
    assert vars(converted.config) | {"eps": 0} == vars(directory.config) | {"eps": 0}


def quantised(arrays: Arrays, dtype: str) -> tuple[Arrays, dict[str, str]]:
    """Every matrix as random blocks [rows, bytes per row] with scales near 2^-6, and their types by name."""
    size, per_block, places, _ = FORMATS[dtype]
    rng = np.random.default_rng(7)
    out, dtypes = dict(arrays), {}
    for name, array in arrays.items():
        if array.ndim == 2:
            blocks = rng.integers(0, 256, (len(array), array.shape[1] // per_block, size), np.uint8)
            for at in places:
                blocks[..., at + 1] = blocks[..., at + 1] & 0x83 | 0x24
            if dtype == "MXFP4":
                blocks[..., 0] = blocks[..., 0] & 3 | 0x78
            out[name], dtypes[name] = blocks.reshape(len(array), -1), dtype
    return out, dtypes


@pytest.mark.parametrize("dtype", BLOCKED)
def test_no_block_type_gives_other_logits_than_its_values(tmp_path: Path, dtype: str) -> None:
    """Blocks, rows permuted and all, against a directory with the oracle's values of the same blocks."""
    given = config(
        vocab_size=12,
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=1,
        num_key_value_heads=1,
        head_dim=64,
    )
    blocks, dtypes = quantised(tensors(given), dtype)
    values = {
        name: np.array(read_blocks(dtype, array.tobytes()), np.float32).reshape(len(array), -1)
        if name in dtypes
        else array
        for name, array in blocks.items()
    }
    converted = load(write_gguf(tmp_path / "model.gguf", given, blocks, dtypes))
    directory = load(write_directory(tmp_path / "directory", given, values))

    assert {weight.dtype for weight in converted.weights.values()} == {dtype, "F32"}
    np.testing.assert_array_equal(logits(converted).view(np.uint32), logits(directory).view(np.uint32))


@pytest.mark.parametrize("dtype", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_what_ggufs_quantiser_wrote_is_read_as_the_oracle_reads_it(tmp_path: Path, dtype: str) -> None:
    given = config("qwen3", num_hidden_layers=1)
    arrays, dtypes = tensors(given), {}
    for name, array in tensors(given).items():
        if array.ndim == 2:
            arrays[name] = gguf.quants.quantize(array, gguf.GGMLQuantizationType[dtype])
            dtypes[name] = dtype
    weight = load(write_gguf(tmp_path / "model.gguf", given, arrays, dtypes)).weights["blocks.0.mlp.up.weight"]
    expected = read_blocks(dtype, arrays["model.layers.0.mlp.up_proj.weight"].tobytes())

    assert widen(weight).ravel().tolist() == [settle(value) for value in expected]


def test_only_a_llama_has_its_rows_permuted(tmp_path: Path) -> None:
    given = {family: config(family) for family in FAMILIES}
    for family in FAMILIES:
        arrays = tensors(given[family])
        stored = load(write_gguf(tmp_path / f"{family}.gguf", given[family], arrays))
        reader = gguf.GGUFReader(tmp_path / f"{family}.gguf")
        in_file = next(t.data for t in reader.tensors if t.name == "blk.0.attn_q.weight")
        same = np.array_equal(in_file, widen(stored.weights["blocks.0.attn.q.weight"]))

        assert same == (family != "llama")


def test_version_2_is_no_other_format(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", config(), tensors(config()))
    digest = load(path).digest
    data = bytearray(path.read_bytes())
    data[4] = 2
    path.write_bytes(data)

    assert load(path).digest == digest


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_alignment_is_read_from_the_file(tmp_path: Path, alignment: int) -> None:
    writer = gguf_writer(tmp_path / "model.gguf", config())
    writer.add_custom_alignment(alignment)
    add_tensors(writer, config(), tensors(config()))
    finish(writer)

    assert load(tmp_path / "model.gguf").config.layers == 2


def test_a_file_is_known_by_its_magic(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", config(), tensors(config()))

    assert load(path.rename(tmp_path / "blob")).config.layers == 2


def test_the_tokenizer_in_a_gguf_gives_no_other_ids_than_tokenizer_json(tmp_path: Path) -> None:
    directory = load(write_directory(tmp_path / "d", config(), tensors(config()), tokenizer=True)).tokenizer
    converted = load(write_gguf(tmp_path / "m.gguf", config(), tensors(config()), tokenizer=True)).tokenizer

    assert directory is not None
    assert converted is not None
    for text in ("hello hell", "a<end>b", "naïve 123"):
        assert converted.encode(text) == directory.encode(text)
    assert converted.encode("hell") == [TOKENS.index("hell")]
    assert converted.eos_ids == (END,)


def test_a_file_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    assert load(write_gguf(tmp_path / "model.gguf", config(), tensors(config()))).tokenizer is None


def test_the_digest_stays_and_one_bit_changes_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", config(), tensors(config()))
    first = load(path).digest
    assert load(path).digest == first
    data = bytearray(path.read_bytes())
    data[-64] ^= 1
    path.write_bytes(data)

    assert load(path).digest != first


@pytest.mark.real
def test_smollm2_loads_with_its_tokenizer() -> None:
    model = load(SMOLLM2)

    assert (model.config.layers, model.config.heads, model.config.kv_heads, model.config.tied) == (
        30,
        9,
        3,
        True,
    )
    assert {weight.dtype for weight in model.weights.values()} == {"F32", "Q8_0", "Q4_1"}
    assert model.tokenizer is not None
    assert model.tokenizer.eos_ids == (2,)
