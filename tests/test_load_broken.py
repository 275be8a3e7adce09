"""A broken model file ends in one sentence that names what is wrong, and costs next to no memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broken_files import CASES, Case
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
from model_files import config, tensors, write_directory, write_gguf


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_broken_file_loads(tmp_path: Path, case: Case) -> None:
    path = case.sound(tmp_path)
    assert load(path).config.layers > 1  # it was sound

    case.damage(path)
    with pytest.raises(ModelError) as caught:
        load(path)

    message = str(caught.value)
    assert case.says in message
    assert "\n" not in message
    assert len(message) < 400
    assert "xpected " in message
    assert caught.value.exit_code == 2


FILES = ["m.gguf", "m/model.safetensors", "m/config.json", "m/tokenizer.json"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the GGUF file m.gguf and the directory m."""
    folder = tmp_path_factory.mktemp("sound")
    write_gguf(folder / "m.gguf", config(), tensors(config()), tokenizer=True)
    write_directory(folder / "m", config(), tensors(config()), tokenizer=True)
    return folder


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 11_999), st.integers(0, 255)), min_size=1, max_size=3))
def test_no_changed_byte_of_a_header_is_a_crash(sound: Path, name: str, changes: list[tuple[int, int]]) -> None:
    """Any few bytes: the file loads or is refused in one sentence. The headers end before byte 12,000."""
    file = sound / name
    former = file.read_bytes()
    data = bytearray(former)
    for at, byte in changes:
        data[at % len(data)] = byte
    file.write_bytes(data)
    message = ""
    try:
        load(sound / name.split("/")[0])
    except ModelError as error:
        message = str(error)
    finally:
        file.write_bytes(former)

    assert "\n" not in message


MEASURE = """
import json, sys
from pathlib import Path
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load

def peak():  # bytes; getrusage would count the process that started this one
    if sys.platform == "linux":
        line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

for path in json.loads(sys.stdin.read()):
    try:
        load(Path(path))
        print("loaded", path)
    except ModelError:
        pass
    print(peak())
"""


def test_no_broken_file_costs_memory(tmp_path: Path) -> None:
    """One process tries them all; whatever they claim, it stays below 200 MB."""
    paths = []
    for i, case in enumerate(CASES):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = case.sound(folder)
        case.damage(path)
        paths.append(str(path))
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], input=json.dumps(paths), capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    peaks = dict(zip(map(str, CASES), run.stdout.split("\n"), strict=False))
    assert max(map(int, peaks.values())) < 200_000_000, peaks


@pytest.mark.parametrize("name", ["nothing", "notes.txt", "model.safetensors"])
def test_no_other_path_is_taken_for_a_model(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name != "nothing":
        path.write_bytes(b"some bytes")

    with pytest.raises(ModelError, match="Expected a Hugging Face directory or a GGUF file"):
        load(path)
