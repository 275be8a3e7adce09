"""A state file: the same bytes whatever the engine, and on a disk all of them or none.

Moves run from each engine to each, in each kv storage.
"""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load

from gnomon.compare.same import assert_same_bytes
from gnomon.decode import state_header
from gnomon.decode.state_file import (
    PIECE,
    StateFileError,
    identity,
    open_state,
    pack,
    read_state,
    receive,
    signed,
    state_stream,
    write_state,
)
from gnomon.engines import engine as engine_of
from gnomon.gates.faults import states
from gnomon.loading import load as load_model
from gnomon.models import micro
from gnomon.reference.aside import write_aside
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from running import LONG, SHORT, STORAGES, assert_same_state
from state_edits import parsed

NewEngine = Callable[..., Engine[Any]]
FORMS = [("f32", kv) for kv in STORAGES] + [("int8", "bf16")]


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def file(numpy: Engine[Any]) -> bytes:
    return b"".join(state_stream(numpy, numpy.forward(SHORT)[1]))


# The bytes.


@pytest.mark.parametrize(("arm", "kv"), FORMS, ids=["-".join(forms) for forms in FORMS])
def test_no_byte_of_a_file_depends_on_the_engine(new_engine: NewEngine, other_name: str, arm: str, kv: str) -> None:
    """Written, restored by another engine, written again; what follows is what follows the unmoved state."""
    source, target = engine_of(other_name, micro(), arm, kv), new_engine(micro(), arm, kv)
    _, state = source.forward(SHORT)
    sent = b"".join(state_stream(source, state))
    moved = receive(target, [sent], len(sent))
    assert (moved.length, moved.ids) == (len(SHORT), SHORT)
    assert b"".join(state_stream(target, moved)) == sent
    assert b"".join(state_stream(target, target.forward(SHORT)[1])) == sent
    expected, after = source.forward([3, 1], state, want="all")
    assert_same_bytes(target.forward([3, 1], moved, want="all")[0], expected, "logits")
    assert_same_state(target.export(moved), source.export(after))


@pytest.mark.parametrize("fault", ["kv", "conv", "delta", "shift"])
def test_a_signed_corruption_is_kept_as_it_was_sent(new_engine: NewEngine, fault: str) -> None:
    """Nothing in the file tells; only one who knows the right bytes does."""
    engine = new_engine(micro())
    honest, other = (pack(engine, engine.forward(ids)[1]) for ids in (SHORT, LONG[:14]))
    sent = states.FAULTS[fault](honest, other)
    assert sent != b"".join(honest.pieces())
    assert b"".join(state_stream(engine, receive(engine, [sent]))) == sent


@pytest.mark.parametrize("kv", STORAGES)
def test_another_library_reads_the_same(kv: str, tmp_path: Path) -> None:
    """The `safetensors` library; it has no NumPy type for bf16, so these bytes are looked at as they are."""
    engine = engine_of("numpy", micro(), kv=kv)
    _, state = engine.forward(SHORT)
    path = tmp_path / "state.safetensors"
    header = write_state(engine, state, path)
    with safe_open(path, "numpy") as opened:
        assert set(opened.keys()) == set(engine.export(state))
        assert opened.metadata()["ids"] == ",".join(map(str, SHORT))
    data = path.read_bytes()
    if kv != "bf16":
        for name, array in load(data).items():
            assert_same_bytes(array, engine.export(state)[name], name)
    start = 8 + int.from_bytes(data[:8], "little")
    assert hashlib.sha256(data[start:]).hexdigest() == header.payload
    assert data[start:] == b"".join(array.tobytes() for array in engine.export(state).values())


def test_a_file_names_no_engine_host_or_time(file: bytes) -> None:
    metadata = {name: value for name, value in parsed(file)["__metadata__"].items() if not name.endswith(".sha256")}
    assert metadata == {
        "format": "gnomon state",
        "schema": "2",
        "contract": "1",
        "arm": "f32",
        "kv": "f32",
        "model": micro().digest,
        "config": '{"delta":{"conv":4,"dk":6,"dv":9,"key_heads":2,"value_heads":4},"eps":1e-05,"family":"decoder",'
        '"ffn":72,"gated":false,"head_dim":10,"heads":4,"kinds":["attention","attention","delta"],"kv_heads":2,"layers":3,'
        '"moe":null,"plus_one":[],"qk_norm":false,"qkv_bias":false,"rope":{"dim":10,"scaling":null,"theta":10000.0},'
        '"vocab":97,"width":40,"windows":[5,null,null]}',
        "tokenizer": "none",
        "position": "14",
        "ids": ",".join(map(str, SHORT)),
        "payload_sha256": metadata["payload_sha256"],
    }


def test_an_empty_state_is_a_file_too(numpy: Engine[Any]) -> None:
    sent = b"".join(state_stream(numpy, numpy.new()))
    assert receive(numpy, [sent]).length == 0


def test_a_tokenizer_is_part_of_whose_state_it_is() -> None:
    model = load_model("tiny-dense")
    assert model.tokenizer is not None
    assert identity(engine_of("numpy", model))["tokenizer"] == model.tokenizer.digest


@pytest.mark.parametrize("length", [1, 7, 1000, 1 << 20])
def test_no_length_of_a_chunk_matters(numpy: Engine[Any], file: bytes, length: int) -> None:
    chunks = [file[start : start + length] for start in range(0, len(file), length)]
    taken = receive(numpy, [b"", *chunks, b""])
    assert b"".join(state_stream(numpy, taken)) == file


# Files.


def test_nothing_is_left_of_an_export_that_fails(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        raise RuntimeError("lost")

    (tmp_path / "state").write_bytes(b"an earlier one")
    with pytest.raises(RuntimeError):
        write_aside(tmp_path / "state", pieces())
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").read_bytes() == b"an earlier one"


@pytest.mark.parametrize("pieces", [1, 3])
def test_no_part_of_a_file_stands_in_its_place_when_killed(tmp_path: Path, pieces: int) -> None:
    """Killed between pieces, when nothing can be cleaned up any more."""
    path = tmp_path / "state"
    path.write_bytes(b"an earlier one")
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom gnomon.reference.aside import write_aside\n"
        "def pieces():\n"
        f"    for _ in range({pieces}):\n        yield b'x' * (1 << 20)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n    yield b''\n"
        "write_aside(Path(sys.argv[1]), pieces())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"an earlier one"


def test_no_missing_file_is_read(numpy: Engine[Any], tmp_path: Path) -> None:
    for read in (lambda path: read_state(numpy, path), open_state):
        with pytest.raises(UsageError, match=r"a state file at .* but got: No such file"):
            read(tmp_path / "none")
    with pytest.raises(UsageError, match=r"to write .* but got: No such file"):
        write_state(numpy, numpy.new(), tmp_path / "no" / "folder")


def test_a_file_is_what_was_streamed(numpy: Engine[Any], file: bytes, tmp_path: Path) -> None:
    write_state(numpy, numpy.forward(SHORT)[1], tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == file
    assert b"".join(open_state(tmp_path / "state").pieces()) == file
    assert read_state(numpy, tmp_path / "state").ids == SHORT
    assert os.listdir(tmp_path) == ["state"]


def test_no_piece_is_larger_than_it_may_be(numpy: Engine[Any]) -> None:
    big = signed(identity(numpy), [], {"x": np.arange(5 * PIECE // 8, dtype=np.float32)})
    pieces = list(big.pieces())
    assert [len(piece) for piece in pieces[1:]] == [PIECE, PIECE, PIECE // 2]
    assert len(b"".join(pieces)) == big.size


def test_no_header_outgrows_what_a_reader_takes(numpy: Engine[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_header, "LIMIT", 1000)
    with pytest.raises(StateFileError, match="a header of at most 1000 bytes but 14 ids need"):
        list(state_stream(numpy, numpy.forward(SHORT)[1]))
