"""Files that are no files, streams that are closed, signals at the start: one sentence and a verdict, no traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gnomon import cli
from gnomon.compare.trace_write import TraceWriter
from gnomon.decode.state_file import open_state, signed
from gnomon.engines import fallen_back
from gnomon.gpu import host_build
from gnomon.reference.aside import hold, write_aside
from gnomon.reference.chain import Chain
from gnomon.reference.errors import GnomonError, NotRunError

MAIN = [sys.executable, "-c", "from gnomon.cli import main; main()"]
ASK = ("--ids", "1,2,3")

# a call with @ where a file is read
READS = [
    "run @ --ids 1", "run micro --batch @", "run micro --ids-file @", "run tiny-dense --prompt-file @ -n 1",
    "run micro --ids 1 -n 1 -e @:f", "digest @ --ids 1", "bisect @ -e numpy -e numpy --ids 1", "explain @ @",
    "compare @ @", "receipts verify @", "receipts compare @ @", "transcript verify micro @", "ledger verify @",
    "transcript produce micro --ids 1 -n 1 -o made --key @", "inspect model @", "inspect trace @", "inspect state @",
    "inspect tensor @ x", "state import micro @", "state diff @ @", "state swap @ --fault kv -o made",
    "check-op rms_norm @:f", "selftest --vectors @",
]  # fmt: skip
JUNK: dict[str, bytes] = {
    "empty": b"",
    "junk": bytes(range(256)) * 8,
    "byte ff": b"\xff" * 50 + b"\n",
    "nan": b'{"type":"run","prev":NaN,"a":1e999}\n',
    "deep": b"[" * 100_000 + b"\n",
    "deep object": b'{"type":"run","hash":1,"a":' + b"[" * 500 + b"]" * 500 + b"}\n",
    "surrogate": b'{"type":"\\ud800","format":"\\ud800"}\n',
    "markup": b'{"type":"[/red]"}\n',
}
ODD = [*JUNK, "missing", "folder", "pipe", "/dev/null", "x" * 300, "half\udc80", "[bold]x[/nope]"]


def run(*words: str, **given: object) -> Result:
    return CliRunner().invoke(cli.app, list(words), **given)  # type: ignore[arg-type]


def told(result: Result) -> str:
    """The sentence of a call that is refused."""
    assert isinstance(result.exception, GnomonError), result.exception
    return str(result.exception)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", READS)
def test_no_odd_file_is_a_fault_of_gnomon(folder: Path, words: str) -> None:
    for name, data in JUNK.items():
        (folder / name).write_bytes(data)
    os.mkfifo("pipe")
    (folder / "folder").mkdir()
    for odd in ODD:
        result = run(*(word.replace("@", odd) for word in words.split()))
        if isinstance(result.exception, GnomonError):
            assert result.exception.exit_code in (1, 2, 3), odd
        else:
            assert result.exception is None or isinstance(result.exception, SystemExit), (odd, result.exception)
            sound = {"run": JUNK, "ledger": ("empty", "/dev/null")}.get(words.split()[0], ())  # a line is a prompt
            assert result.exit_code in (1, 2, 3) or odd in sound, odd
    assert not (folder / "made").exists()


def test_no_output_of_a_name_too_long_is_a_traceback(folder: Path) -> None:
    for words in (("trace", "micro", *ASK, "-o"), ("state", "export", "micro", *ASK, "-o"),
                  ("transcript", "produce", "micro", *ASK, "-n", "1", "-o")):  # fmt: skip
        done = subprocess.run([*MAIN, *words, "x" * 300], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2, done.stderr
        assert "too long" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
def test_a_closed_stream_changes_no_verdict(closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    words = [*MAIN, "digest", "micro", *ASK]
    assert subprocess.run(words, preexec_fn=close, timeout=60, check=False).returncode == 0


def test_help_for_a_reader_that_has_left_is_no_failure() -> None:
    with subprocess.Popen([*MAIN, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) in (0, cli.CLOSED, -signal.SIGPIPE)


def test_ctrl_c_while_modules_are_imported_shows_no_traceback() -> None:
    slow = (
        "import os, signal, gnomon_start, importlib.abc, sys\n"
        "class Slow(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, *_):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "gnomon_start.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", slow], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_ids_and_prompts_from_files_are_those_of_the_command_line(folder: Path) -> None:
    (folder / "ids").write_text("1, 2\n3\n")
    (folder / "text").write_text("import os\n")
    for verb in (("run", "-n", "2", "--json"), ("digest",)):
        given = run(verb[0], "micro", *ASK, *verb[1:]).stdout
        assert run(verb[0], "micro", "--ids-file", "ids", *verb[1:]).stdout == given
        assert run(verb[0], "micro", "--ids-file", "-", *verb[1:], input="1 2 3").stdout == given
    asked = run("run", "tiny-dense", "-p", "import os", "-n", "2", "--json").stdout
    assert run("run", "tiny-dense", "--prompt-file", "text", "-n", "2", "--json").stdout == asked
    assert "both" in told(run("run", "micro", *ASK, "--ids-file", "ids"))


def test_a_batch_comes_through_a_pipe() -> None:
    lines = '{"ids": [1, 2], "max_tokens": 2}\n\n{"ids": [3], "max_tokens": 1}\n'
    made = json.loads(run("run", "micro", "--batch", "-", "--json", "--stats", input=lines).stdout)
    assert [(text["line"], len(text["ids"])) for text in made["texts"]] == [(1, 2), (3, 1)]
    assert made["statistics"]["prefill_tokens"] == 3
    assert made["statistics"]["decode_tokens"] == 1
    assert "that is a directory" in told(run("run", "micro", "--batch", "."))
    assert "in stdin" in told(run("run", "micro", "--batch", "-", input="\n"))


def test_stats_tell_prefill_from_decode() -> None:
    figures = json.loads(run("run", "micro", *ASK, "-n", "5", "--json", "--stats").stdout)["statistics"]
    assert (figures["prefill_tokens"], figures["decode_tokens"], figures["tokens"]) == (3, 4, 5)
    assert figures["prefill_tokens_per_second"] > 0 < figures["decode_tokens_per_second"]


def test_an_id_beyond_the_vocabulary_is_refused() -> None:
    for verb in (("run", "micro"), ("digest", "micro"), ("state", "export", "micro", "-o", "made")):
        assert told(run(*verb, "--ids", "9999999999")) == "Expected token ids from 0 to 96 but got 9999999999"


@pytest.mark.parametrize("text", ["raise SystemExit(0)\n", "def f(:\n", "1 / 0\n", None], ids=str)
def test_no_broken_factory_file_ends_the_process(folder: Path, text: str | None) -> None:
    if text is not None:
        (folder / "own_odd.py").write_text(text)
    for name in ("own_odd.py:f", ":", "own_odd.py:", ":f"):
        said = told(run("run", "micro", *ASK, "-e", name))
        own = name == "own_odd.py:f" and text is not None  # it was found, and is to blame itself
        assert said.startswith("own_odd.py:f raised " if own else f"Expected a factory at {name!r}")


def test_two_dumps_are_compared_byte_by_byte(folder: Path) -> None:
    x = np.arange(6, dtype=np.float32)
    np.savez("a.npz", x=x, y=np.ones((2, 3), np.float32))
    np.savez("b.npz", x=x, y=np.ones((2, 3), np.float32))
    np.savez("c.npz", x=-x, y=np.ones((2, 3), np.float32))  # -0.0 is another byte
    np.savez("d.npz", x=x)
    assert run("compare", "a.npz", "b.npz").exit_code == 0
    other = run("compare", "a.npz", "c.npz")
    assert other.exit_code == 1
    assert "x: differs" in other.stdout
    assert run("compare", "a.npz", "d.npz").exit_code != 0
    assert "--digests" in told(run("compare", "a.npz", "b.npz", "--digests"))


@pytest.mark.parametrize("name", ["micro", "tiny-hybrid", "tiny-dense"])
def test_inspect_writes_json_of_every_embedded_model(name: str) -> None:
    config = json.loads(run("inspect", "model", name, "--json").stdout)["config"]
    assert "theta" in config["rope"]


def test_a_signed_state_with_one_tensor_more_is_not_identical(folder: Path) -> None:
    assert run("state", "export", "micro", *ASK, "-o", "a.state").exit_code == 0
    sound = open_state(Path("a.state"))
    kept = {name: array for name, array in sound.arrays.items() if name != "blocks.0.kv.v"}
    more = {**sound.arrays, "extra": np.ones(3, np.float32)}
    for name, arrays in (("more.state", more), ("less.state", kept)):
        Path(name).write_bytes(b"".join(signed(sound.header.identity, sound.header.ids, arrays).pieces()))
    assert run("state", "diff", "a.state", "a.state").exit_code == 0
    for pair in (("a.state", "more.state"), ("more.state", "a.state")):
        result = run("state", "diff", *pair)
        assert result.exit_code in (1, 3)
        assert "extra" in result.stdout
    assert "values for all its keys" in told(run("state", "swap", "less.state", "--fault", "kv", "-o", "made"))


def test_no_receipt_means_that_it_says_so(folder: Path) -> None:
    (folder / "text").write_text("hello\n")
    assert "as `gnomon gate --receipt` writes it, but 'text' is none" in told(run("receipts", "verify", "text"))
    chain = Chain()
    chain.append({"type": "other"})
    chain.close("end")
    (folder / "other").write_text(chain.text())
    assert "a chain of other records" in told(run("receipts", "compare", "other", "other"))


def test_what_a_killed_writer_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    (tmp_path / ".made.dead.partial").mkdir()
    (tmp_path / ".made.dead.partial" / "tensors.jsonl").touch()
    with TraceWriter(tmp_path / "made") as first, TraceWriter(tmp_path / "made"):
        assert not (tmp_path / ".made.dead.partial").exists()
        assert first.aside.is_dir()
    (tmp_path / ".file.1.partial").touch()
    with (tmp_path / ".file.2.partial").open("wb") as held:
        hold(held)
        write_aside(tmp_path / "file", [b"x"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".file.2.partial", "file"]


def test_an_unusable_cache_is_told_and_fast_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path / "file" / "cache"))
    assert "GNOMON_CACHE" in fallen_back("fast")
    result = run("run", "micro", *ASK, "-n", "1", "--json")
    assert json.loads(result.stdout)["engine"] == "numpy"
    assert "gnomon: fast is numpy here, since host cannot run: " in result.stderr


def test_a_library_whose_digest_cannot_be_kept_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path))
    monkeypatch.setattr(host_build, "compile_aside", refused)
    with pytest.raises(NotRunError, match="No space left"):
        host_build.build("int x;", {})
