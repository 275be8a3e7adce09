"""The files that gate `golden` loads: every stored type, every form that a kernel has for it, judged by the oracle."""

from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.gates import stored_files
from gnomon.gates.golden import golden
from gnomon.gpu.host_library import FORMATS, WEIGHT_FORMATS
from gnomon.gpu.host_pack import pack
from gnomon.reference.load.stored import DTYPES
from gnomon.reference.model import Model
from make_golden import of_files


def loaded(folder: Path, dtype: str) -> Model:
    return gnomon.load(stored_files.write(folder / f"{dtype}.gguf", dtype))


def test_no_stored_type_is_left_out() -> None:
    assert set(stored_files.FORMATS) == set(DTYPES)
    assert [case["name"] for case in golden("stored")["cases"]] == ["gpt2", "bf16", "int8", *stored_files.FORMATS]


def test_no_form_of_the_kernels_is_left_out(tmp_path: Path) -> None:
    seen = set()
    for dtype in stored_files.FORMATS:
        weights = loaded(tmp_path, dtype).weights.values()
        seen |= {FORMATS[pack(weight, "f32").format] for weight in weights if weight.role == "linear"}
    assert seen == set(WEIGHT_FORMATS)


def test_a_file_holds_the_bytes_that_the_oracle_was_given(tmp_path: Path) -> None:
    """In every type; rows of q and k come back from the order of the converter."""
    for dtype in stored_files.FORMATS:
        given, model = stored_files.tensors(dtype), loaded(tmp_path, dtype)
        assert {name: (w.dtype, w.data.tobytes()) for name, w in model.weights.items()} == {
            name: (tensor.dtype, tensor.data.tobytes()) for name, tensor in given.items()
        }


def test_no_integer_or_nibble_is_missing_from_the_blocks() -> None:
    integers = np.concatenate([t.data.reshape(-1, 34)[:, 2:].reshape(-1) for t in blocks_of("Q8_0")])
    assert len(np.unique(integers)) == 256
    nibbles = np.concatenate([t.data.reshape(-1, 18)[:, 2:].reshape(-1) for t in blocks_of("Q4_0")])
    assert len(np.unique(nibbles & 15)) == len(np.unique(nibbles >> 4)) == 16


def blocks_of(dtype: str) -> list[stored_files.Stored]:
    return [tensor for tensor in stored_files.tensors(dtype).values() if tensor.dtype == dtype]


@pytest.mark.parametrize("name", ["Q4_K"])
def test_the_stored_answers_are_those_of_the_oracle(name: str) -> None:
    """Made again: what is stored was not edited by hand."""
    (made,) = of_files([name])["cases"]
    (stored,) = [case for case in golden("stored")["cases"] if case["name"] == name]
    assert made == stored
