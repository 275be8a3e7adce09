"""No mutated file and no mutated request ends in anything but a verdict; tests/fuzz/ has the cases.

cd tests && python -m fuzz --case 1234      one case again
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory of a case is read from Linux")

SEEN = {
    "misses_a_field": "a traceback",
    "misses_a_field_of_a_request": "raised KeyError",
    "never_ends": "no end within 3 seconds",
    "never_ends_in_native_code": "no end within 3 seconds",
    "takes_8_gib": "a traceback",
    "takes_more_than_it_may": "MiB of memory",
    "leaves_a_partial_file": "left out/.written.1.partial",
    "leaves_half_a_file": "left out/written",
    "crashes": "ended by SIGSEGV",
    "leaves_the_process": "ended by exit code 0",
    "gives_no_number": "no JSON on its own",
    "answers_at_length": "characters on stderr",
}


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process that has no threads yet, since it forks."""
    return subprocess.run([sys.executable, "-m", *words], cwd=HERE, stdout=subprocess.PIPE, text=True, check=False)


def test_no_mutated_input_ends_in_a_traceback_a_hang_or_half_a_file() -> None:
    run = fuzz("fuzz", "--cases", "0:2000")
    assert run.returncode == 0, run.stdout[-8000:]
    assert "2,000 cases, 0 findings" in run.stdout


@pytest.mark.wide
@pytest.mark.timeout(3600)
def test_none_of_20_000_mutated_inputs_ends_badly(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():  # its progress is shown
        run = fuzz("fuzz", "--cases", "0:20000", "--jobs", str(os.cpu_count() or 1))
    assert run.returncode == 0, run.stdout[-20_000:]
    assert "20,000 cases, 0 findings" in run.stdout


def test_no_planted_fault_escapes_the_fuzzer() -> None:
    """Each in a process of its own, and none where nothing is planted."""
    run = fuzz("fuzz.plants")
    assert run.returncode == 0
    found = json.loads(run.stdout)
    assert found.pop("nothing") == []
    assert found.pop("refused") == []
    assert found.keys() == SEEN.keys()
    for fault, words in SEEN.items():
        assert len(found[fault]) == 1, (fault, found[fault])
        assert words in found[fault][0], (fault, found[fault])
