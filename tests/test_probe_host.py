"""The host operations as a compiler builds them: right with the flags of the engine, caught with each wrong one."""

import ctypes
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.compare.probe import on_device
from gnomon.compare.probe_short import short_probe
from gnomon.gpu.host_device import host_devices
from probing import build, compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "it can be tried")
FLAGS = {
    "right": ("-march=native", "-ffp-contract=off"),
    "contracting": ("-mfma", "-ffp-contract=fast"),
    "fast-math": ("-march=native", "-ffast-math"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    return {name: build(tmp_path_factory.mktemp(name), *flags) for name, flags in FLAGS.items()}


def test_the_flags_of_the_engine_deviate_nowhere(built: dict[str, ctypes.CDLL]) -> None:
    devices = host_devices(built["right"])
    assert short_probe(devices) == []
    found = {f.battery: f for f in on_device(devices[0], 4096)}
    assert {f.differ for f in found.values()} == {0}, found
    assert found["NaN operands"].word == "NaN wins"
    assert found["subnormal results"].word == "kept"


def test_no_contraction_by_a_real_compiler_passes(built: dict[str, ctypes.CDLL]) -> None:
    devices = host_devices(built["contracting"])
    assert [f.battery for f in short_probe(devices)] == ["contraction"]
    found = {f.battery: f for f in on_device(devices[0], 4096)}
    assert found["contraction"].differ == found["contraction"].cases
    assert found["contraction"].word.startswith("mul_add fused, cross fused ")
    assert [name for name, f in found.items() if f.verdict == "FAIL"] == ["contraction"]


def test_no_fast_math_passes(built: dict[str, ctypes.CDLL]) -> None:
    wrong = {f.battery for f in short_probe(host_devices(built["fast-math"]))}
    assert wrong >= {"contraction", "order of a written sum", "division"}


LEAKED = """
import ctypes, sys
from gnomon.compare.probe_told import leaked_mode
assert leaked_mode().verdict == "PASS"
ctypes.CDLL(sys.argv[1])
found = leaked_mode()
print(found.verdict, found.word)
"""


def test_no_mode_that_a_library_leaks_passes(tmp_path: Path) -> None:
    """g++ links a start-up object that sets flush-to-zero where -ffast-math is given as it links (up to version 12)."""
    (tmp_path / "empty.c").write_text("int nothing;\n")
    command = ["g++", "-ffast-math", "-shared", "-fPIC", "-x", "c", "empty.c", "-o", "leak.so"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    words = [sys.executable, "-c", LEAKED, str(tmp_path / "leak.so")]
    out = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    if out.startswith("PASS"):
        pytest.skip(f"{shutil.which('g++')} on {platform.machine()} leaks no mode")
    assert out.strip() == "FAIL in this thread and a new thread"
