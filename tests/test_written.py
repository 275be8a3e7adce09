"""Where verbs write: never in the place of something that is no file, and not without room."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.reference.aside import write_aside

GNOMON = (sys.executable, "-c", "from gnomon.cli import main; main()")
LOOK = (*GNOMON, "inspect", "model", "micro")


def test_no_pipe_becomes_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    export = (*GNOMON, "state", "export", "micro", "--ids", "1,2", "-o", str(pipe))
    done = subprocess.run(export, capture_output=True, text=True)
    assert done.returncode == 2
    assert "to be a file, or nothing yet, but it is a device or a pipe" in done.stderr
    assert pipe.is_fifo()


def test_no_link_is_cut(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    for text in (b"first", b"second"):
        write_aside(link, [text])
        assert link.is_symlink()
        assert target.read_bytes() == text
    assert {path.name for path in tmp_path.iterdir()} == {"link", "target"}


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full: Linux has one")
def test_a_full_disk_is_no_fault_of_the_tool() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(LOOK, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "gnomon: Expected room for the output but got: No space left on device\n"


def test_no_width_of_zero_hides_the_words() -> None:
    done = subprocess.run(LOOK, capture_output=True, text=True, env={**os.environ, "COLUMNS": "0"})
    assert "micro" in done.stdout
