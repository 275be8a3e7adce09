"""What mutated files and requests have brought up: each ends in one sentence that names what is wrong."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from starlette.testclient import TestClient

from gnomon.cli.options import read_ids
from gnomon.compare import op_cases
from gnomon.compare.bisect import read_log
from gnomon.compare.op_table import OPS
from gnomon.compare.schedule import lengths
from gnomon.compare.trace_import import tensors as dumped
from gnomon.compare.trace_look import look_at
from gnomon.compare.trace_map import read_map
from gnomon.compare.trace_read import Trace
from gnomon.compare.vectors import read_case, run_vectors
from gnomon.decode.transcript_file import TOKEN, TranscriptError, check
from gnomon.engines import engine
from gnomon.gates.receipt import read_key
from gnomon.loading import load as load_named
from gnomon.models import micro
from gnomon.reference.errors import GnomonError, ModelError, UsageError
from gnomon.reference.families import family
from gnomon.reference.load import load
from gnomon.reference.load.chat_template import chat_of_gguf
from gnomon.reference.load.hf_rope import rope
from gnomon.reference.load.options import Options
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.sample import Sampling
from gnomon.serve.app import app
from model_files import add_tensors, config, finish, gguf_writer, tensors, write_directory
from trace_edits import make

LONG = "x" * 70_000
VECTOR = (
    '{"op": "silu", "params": %s, "inputs": {"x": {"dtype": "f32", "shape": [1], "bits": ["3f800000"]}}, "outputs": %s}'
)
ONE = '{"y": {"dtype": "f32", "shape": [1], "bits": ["3f800000"]}}'


def pipe(path: Path) -> Path:
    """A named pipe in place of a file: to open it waits for a writer, who never comes."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "model.safetensors.index.json"])
def test_no_pipe_in_a_directory_of_a_model_is_waited_for(tmp_path: Path, name: str) -> None:
    path = write_directory(tmp_path / "m", config(), tensors(config()), tokenizer=True)
    pipe(path / name)
    with pytest.raises(ModelError, match=name):
        load(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["manifest.json", "tensors.jsonl", "shard-00000.safetensors"])
def test_no_pipe_in_a_trace_is_waited_for(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "trace")
    sound = Trace(folder)
    pipe(folder / name)
    for like in (None, sound):
        with pytest.raises(GnomonError, match=name):
            Trace(folder, like=like)


READERS: dict[str, Callable[[Path], Any]] = {
    "case.json": read_case,
    "search.log": lambda path: read_log(path, {"a": 1}),
    "key": read_key,
    "map": lambda path: read_map(str(path)),
    "dump.npz": lambda path: list(dumped(path)),
    "dump.npy": lambda path: list(dumped(path)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", READERS)
def test_no_pipe_in_place_of_a_file_is_waited_for(tmp_path: Path, name: str) -> None:
    with pytest.raises(GnomonError, match=r"^[^\n]*xpected [^\n]*$"):
        READERS[name](pipe(tmp_path / name))


@pytest.mark.parametrize("name", ["case.json", "search.log", "key"])
@pytest.mark.parametrize(
    "data", [b"\xff" * 9, b"[" * 5000, b"{}", b"", b"1e999", b"null\n", b'["' + b"x" * 70_000 + b'"]']
)
def test_no_content_of_a_file_beside_the_model_is_a_traceback(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(GnomonError) as told:
        READERS[name](path)
    assert len(str(told.value)) < 1000
    assert told.value.exit_code == 2


def test_no_size_of_a_key_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no room on the disk
    with pytest.raises(UsageError, match="at most 4194304 bytes"):
        read_key(path)


@pytest.mark.parametrize(
    "params",
    [
        '{"theta": 1e4, "dim": 1099511627776}',
        '{"theta": "x", "dim": 2}',
        '{"theta": 1e4, "dim": 1.5}',
        '{"theta": 0, "dim": 4}',
        "{}",
    ],
)
@pytest.mark.parametrize("op", ["rope_tables", "rope", "attention", "moe", "argmax", "sample", "silu"])
def test_no_known_answer_that_cannot_be_run_is_a_traceback(tmp_path: Path, op: str, params: str) -> None:
    """What it needs is missing or of another type: it has not passed."""
    (tmp_path / "case.json").write_text((VECTOR % (params, ONE)).replace("silu", op))
    (found,) = run_vectors(tmp_path, NumpyOps())
    assert found.verdict != "PASS"


@pytest.mark.parametrize("theta", [0.0, -0.0, -10000.0])
def test_no_base_of_a_rotation_is_refused_by_a_traceback(tmp_path: Path, theta: float) -> None:
    """Beside rope_freqs.weight, the base is computed with before the config is checked."""
    path, given = tmp_path / "m.gguf", config()
    writer = gguf_writer(path, given)
    writer.kv_data[0]["llama.rope.freq_base"] = gguf.gguf_writer.GGUFValue(theta, gguf.GGUFValueType.FLOAT32)
    writer.add_tensor("rope_freqs.weight", np.array([1, 1, 1, 1, 2, 4, 8, 8], np.float32))
    add_tensors(writer, given, tensors(given))
    finish(writer)
    with pytest.raises(ModelError, match=r"rope\.freq_base"):
        load(path)


@pytest.mark.parametrize("temperature", [1e39, 1e308, float("inf")])
def test_no_temperature_is_refused_with_a_warning_of_numpy(temperature: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UsageError, match="temperature of 0 or from"):
            Sampling(temperature)


def test_no_infinite_weight_is_packed_with_a_warning_of_numpy() -> None:
    """The engine reports it at the first step; packing comes before."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, scales = quant(np.array([[np.inf, 1.0], [np.nan, 1.0], [1.0, 2.0]], np.float32))
    assert np.isfinite(scales).tolist() == [False, False, True]


def test_no_folder_that_cannot_be_walked_is_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as /, where the files of other processes come and go."""

    def walked(*_: object) -> Any:
        raise OSError(22, "Invalid argument", "/proc/1/net")

    monkeypatch.setattr(Path, "rglob", walked)
    with pytest.raises(UsageError, match="Invalid argument"):
        list(dumped(tmp_path))


def test_no_half_of_a_surrogate_pair_in_a_request_is_a_failure_of_the_node() -> None:
    """It has no UTF-8. A refusal names the field, whatever it is called."""
    with TestClient(app(engine("numpy", micro())), base_url="http://127.0.0.1") as client:
        for body in (
            rb'{"prompt": [1], "\udcff": 1}',
            rb'{"prompt": [1], "model": "\ud800"}',
            rb'{"prompt": "\ud800"}',
        ):
            reply = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
            assert reply.status_code == 400, reply.text
            assert reply.json()["error"]["message"]


def test_no_name_in_a_file_makes_a_message_of_its_length(tmp_path: Path) -> None:
    trace = Trace(make(tmp_path / "trace"))
    taps = {record.name: record for record in trace.records}
    (tmp_path / "map").write_text(f"{LONG} = embed\n{LONG}2 = embed\n")
    (tmp_path / "lost").write_text(f"a = {LONG}\n")
    (tmp_path / "odd").write_text(f"{LONG}{{i}} = embed\n")
    tellers: list[Callable[[], object]] = [
        lambda: read_map(str(tmp_path / "map")).resolve([LONG, f"{LONG}2"], taps),
        lambda: read_map(str(tmp_path / "lost")).resolve(["a"], taps),
        lambda: read_map(str(tmp_path / "odd")),
        lambda: look_at(trace, LONG, "tap", None, 1),
        lambda: family(LONG),
        lambda: lengths(LONG, 1),
        lambda: read_ids(LONG),
        lambda: load_named(LONG),
        lambda: check({LONG: 1}, 1, TOKEN),
    ]
    for tell in tellers:
        with pytest.raises((UsageError, ModelError, TranscriptError)) as told:
            tell()
        assert len(str(told.value)) < 600


def test_no_list_of_tokens_that_is_a_number_ends_in_a_traceback() -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.ggml\.tokens in the GGUF metadata to be a list but got 7"):
        chat_of_gguf({"tokenizer.chat_template": "x", "tokenizer.ggml.tokens": 7})


def test_no_width_of_a_head_is_beyond_a_float() -> None:
    with pytest.raises(ModelError, match=r"head_dim=1000"):
        rope(Options({}, "config.json"), 10**400, 0.25)


def test_no_long_case_of_check_op_is_matched_for_ever() -> None:
    with pytest.raises(UsageError, match="at most 1000 characters but got 70,000"):
        op_cases.read_case("x" * 70_000, OPS["linear"].sizes)
