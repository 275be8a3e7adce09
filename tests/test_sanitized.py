"""The host kernels under sanitizers: no read or write outside, no undefined behaviour, no data race."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = {"address": "libasan.so", "thread": "libtsan.so"}
# What must be seen: a write past an array, instructions that do not wait for each other.
PLANTED = {"address": "outside", "thread": "race"}

pytestmark = pytest.mark.sanitized


def run(sanitizer: str, *planted: str) -> "subprocess.CompletedProcess[str]":
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++, whose sanitizer runtimes are preloaded")
    found = subprocess.run(
        [compiler, f"-print-file-name={RUNTIME[sanitizer]}"], capture_output=True, text=True, check=True
    )
    library = Path(found.stdout.strip())
    if not library.is_absolute():
        pytest.skip(f"g++ has no {RUNTIME[sanitizer]}")
    env = os.environ | {
        "LD_PRELOAD": str(library),
        "GNOMON_CXX": compiler,
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter never frees all it has
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    script = Path(__file__).with_name("sanitized.py")
    return subprocess.run(
        [sys.executable, str(script), sanitizer, *planted], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("sanitizer", RUNTIME)
def test_no_kernel_leaves_its_memory_or_races(sanitizer: str) -> None:
    done = run(sanitizer)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "48306", "")


@pytest.mark.parametrize("sanitizer", RUNTIME)
def test_a_planted_fault_is_seen(sanitizer: str) -> None:
    done = run(sanitizer, PLANTED[sanitizer])
    assert done.returncode != 0
    assert "Sanitizer" in done.stderr
