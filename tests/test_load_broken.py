"""A broken model file ends in one sentence that names what is wrong, and costs next to no memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broken_files import CASES, Case
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_broken_file_loads(tmp_path: Path, case: Case) -> None:
    path = case.sound(tmp_path)
    assert load(path).config.layers == 2  # it was sound

    case.damage(path)
    with pytest.raises(ModelError) as caught:
        load(path)

    message = str(caught.value)
    assert case.says in message
    assert "\n" not in message
    assert len(message) < 400
    assert "xpected " in message
    assert caught.value.exit_code == 2


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
