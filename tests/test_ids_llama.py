"""The experiment `ids` on llama.cpp: its saved state is read byte by byte, and no answer of it passes for another."""

import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from click.testing import Result
from numpy.typing import NDArray
from typer.testing import CliRunner

from gnomon.gates.ids import experiment, judged
from gnomon.gates.ids_subject import Counters, RefusedError
from gnomon.reference.errors import NotRunError
from model_files import config, tensors, write_gguf

pytest.importorskip("llama_cpp", reason="needs llama-cpp-python, of the extra `peers`")
sys.path.append(str(Path(__file__).parents[1] / "bench"))

import ids_llama
import llama_states

pytestmark = pytest.mark.peers
CELLS, LAYERS, WIDTH = 3, 2, 4
KEYS, VALUES = np.arange(2 * LAYERS * CELLS * WIDTH, dtype="<u2").reshape(2, LAYERS, CELLS, WIDTH)
TEXTS = ("hello hell", "hello", "the cell is a hell of a place")
IDS = [72, 101, 108, 108, 111]


def written(keys: NDArray[Any], values: NDArray[Any], transposed: bool) -> bytes:
    """A state as llama.cpp's source has it, of f16 rows of 4 elements."""
    out = struct.pack("<IiII", 0xAF143CD8, 0, 1, CELLS)
    for position in range(CELLS):
        out += struct.pack("<iIi", position, 1, 0)
    out += struct.pack("<II", transposed, LAYERS)
    for layer in keys:
        out += struct.pack("<iQ", 1, 2 * WIDTH) + layer.tobytes()
    for layer in values:
        form = struct.pack("<iII", 1, 2, WIDTH) if transposed else struct.pack("<iQ", 1, 2 * WIDTH)
        out += form + (layer.T if transposed else layer).tobytes()
    return out


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = config()
    return write_gguf(tmp_path_factory.mktemp("llama") / "small.gguf", model, tensors(model), tokenizer=True)


@pytest.fixture(scope="module", params=["auto", "off"])
def subject(request: pytest.FixtureRequest, path: Path) -> Iterator[llama_states.LlamaSubject]:
    made = llama_states.LlamaSubject(path, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("transposed", [False, True])
def test_exchanging_moves_keys_and_values_alone(transposed: bool) -> None:
    sound = written(KEYS, VALUES, transposed)

    assert llama_states.exchanged(sound) == written(VALUES, KEYS, transposed)


@pytest.mark.parametrize("transposed", [False, True])
def test_flipping_changes_one_bit_of_a_key(transposed: bool) -> None:
    keys = KEYS.copy()
    keys[1, 1, 2] ^= 1  # the middle of the middle layer

    assert llama_states.flipped(written(KEYS, VALUES, transposed)) == written(keys, VALUES, transposed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "but got"),
        (lambda data: data + b"\0", "but got"),
        (lambda data: data[:40], "end before"),
        (lambda data: b"GGSQ" + data[4:], "'magic'"),
        (lambda data: data[:8] + struct.pack("<I", 2) + data[12:], "'streams'"),
        (lambda data: data[:12] + struct.pack("<I", 2) + data[16:], "of llama.cpp"),
    ],
    ids=["cut", "longer", "cut early", "of another kind", "two streams", "a cell less"],
)
def test_no_other_layout_is_read(change: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(NotRunError, match=message):
        llama_states.layout(change(written(KEYS, VALUES, False)))


def test_values_are_transposed_without_flash_attention_only(subject: llama_states.LlamaSubject) -> None:
    subject.prefill(IDS)
    found = llama_states.layout(subject.save())

    assert found.transposed == subject.name.endswith("off")
    assert (found.cells, len(found.keys), len(found.values), found.row) == (5, 2, 2, 64)  # f16, 2 heads of 16


def test_an_honest_state_changes_no_bit(subject: llama_states.LlamaSubject) -> None:
    honest = [trial for trial in experiment(subject, TEXTS, 6) if trial.state == "honest"]

    assert [(t.refused, t.verified, t.kept, t.counters, t.ids) for t in honest] == [("", True, True, True, True)] * 3


def test_logits_are_compared_with_the_same_conversation(subject: llama_states.LlamaSubject) -> None:
    subject.continuations.clear()
    rows = ids_llama.with_logits(experiment(subject, TEXTS, 6), subject)

    assert [row["logits"] for row in rows if row["state"] == "honest"] == [True, True, True]
    assert [row["logits"] for row in rows if row["state"] == "exchanged"] == [False, False, False]


def test_an_exchange_that_exchanges_nothing_is_seen(
    subject: llama_states.LlamaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_states, "exchanged", lambda data: data)
    outcome = judged([t for t in experiment(subject, TEXTS, 6) if t.state != "flipped"])

    assert outcome.verdict == "FAIL"
    assert "exchanged state: verified True" in outcome.detail


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_no_row_is_counted_that_was_not_computed(subject: llama_states.LlamaSubject, rows: int) -> None:
    subject.prefill(IDS[:rows])
    assert subject.counters() == Counters(0, rows)
    saved = subject.save()
    subject.generate([32], 3)
    assert subject.counters() == Counters(0, rows + 3)
    subject.load(saved)
    assert subject.counters() == Counters(rows, 0)
    subject.generate([32], 1)
    assert subject.counters() == Counters(rows, 1)


def test_a_refused_state_is_none_that_was_taken(subject: llama_states.LlamaSubject) -> None:
    subject.prefill(IDS)
    saved = subject.save()
    with pytest.raises(RefusedError, match="magic"):
        subject.load(b"GGSQ" + saved[4:])
    subject.load(saved)
    assert subject.save() == saved


def run(*words: str) -> Result:
    app = typer.Typer()
    app.command()(ids_llama.main)
    return CliRunner().invoke(app, list(words))


def test_the_command_leaves_no_conversation_out(path: Path) -> None:
    result = run(str(path), "--flash-attention", "off")
    record = json.loads(result.stdout.splitlines()[-1])

    assert result.exit_code == {"PASS": 0, "FAIL": 1}[record["verdict"]]
    assert [(t["conversation"], t["state"]) for t in record["trials"]] == [
        (n, state) for n in range(1, 6) for state in ids_llama.STATES
    ]
    (bits,) = record["single_bits"].values()
    assert (bits["key"], bits["value"]) == ("", "")
    assert bits["magic"]
    assert bits["layers"]


def test_no_file_that_is_no_model_is_run(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    result = run(str(tmp_path / "broken.gguf"))

    assert result.exit_code == 2
    assert "Expected a GGUF file that llama.cpp loads but broken.gguf fails" in result.stderr


def test_without_llama_cpp_nothing_is_said_to_have_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_llama.importlib.util, "find_spec", lambda name: None)
    result = run(str(path))

    assert result.exit_code == 3
    assert "Expected llama-cpp-python but it is not installed" in result.stderr
    assert result.stdout == ""
