"""What every verb of the command line says alike: a path where nothing is, an engine that does not exist."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from gnomon import cli
from gnomon.reference.errors import GnomonError

ASK = ("--ids", "1")
MODEL = "an embedded model (micro, tiny-dense, tiny-hybrid), a Hugging Face directory or a GGUF file"
TABLES = "a table (hugging-face, transformer-lens, ggml) or a file"

# verb, parameter -> how to call it where nothing stands at "gone" (and something at "."), and what it expected there
READS = {
    ("run", "model"): (("gone", *ASK), MODEL),
    ("run", "draft"): (("micro", *ASK, "--draft", "model:gone"), MODEL),
    ("run", "batch"): (("micro", "--batch", "gone"), "a file of prompts"),
    ("digest", "model"): (("gone", *ASK), MODEL),
    ("diff", "model"): (("gone", "-e", "numpy", "-e", "numpy", *ASK), MODEL),
    ("bisect", "model"): (("gone", "-e", "numpy", "-e", "numpy", *ASK), MODEL),
    ("check-op", "kernel"): (("rms_norm", "gone.py:f"), "a Python file"),
    ("explain", "expected"): (("gone", "."), "a trace directory"),
    ("explain", "observed"): ((".", "gone"), "a trace directory"),
    ("selftest", "vectors"): (("--vectors", "gone"), "a folder of vector files"),
    ("bench", "model"): (("gone",), MODEL),
    ("trace", "model"): (("gone", *ASK, "-o", "made"), MODEL),
    ("compare", "expected"): (("gone", "."), "a trace directory or a dump"),
    ("compare", "observed"): ((".", "gone"), "a trace or a dump"),
    ("compare", "mapping"): ((".", ".", "--map", "gone"), TABLES),
    ("gate", "key_file"): (("chunk", "--receipt", "made", "--key", "gone"), "a key file of 64 hexadecimal digits"),
    ("serve", "model"): (("gone",), MODEL),
    ("receipts verify", "file"): (("gone",), "a receipt"),
    ("receipts compare", "first"): (("gone", "."), "a receipt"),
    ("receipts compare", "second"): ((".", "gone"), "a receipt"),
    ("transcript produce", "model"): (("gone", *ASK, "-o", "made"), MODEL),
    ("transcript produce", "key_file"): (
        ("micro", *ASK, "-o", "made", "--key", "gone"), "a key file of 64 hexadecimal digits",
    ),
    ("transcript verify", "model"): (("gone", "t.jsonl"), MODEL),
    ("transcript verify", "file"): (("micro", "gone"), "a transcript"),
    ("inspect model", "model"): (("gone",), MODEL),
    ("inspect trace", "folder"): (("gone",), "a trace directory"),
    ("inspect tensor", "folder"): (("gone", "embed"), "a trace directory"),
    ("inspect state", "file"): (("gone",), "a state file"),
    ("state export", "model"): (("gone", *ASK, "-o", "made"), MODEL),
    ("state import", "model"): (("gone", "."), MODEL),
    ("state import", "file"): (("micro", "gone"), "a state file"),
    ("state diff", "expected"): (("gone", "."), "a state file"),
    ("state diff", "observed"): ((".", "gone"), "a state file"),
    ("state swap", "file"): (("gone", "--fault", "kv", "-o", "made"), "a state file"),
    ("state swap", "other"): ((".", "--fault", "kv", "-o", "made", "--other", "gone"), "a state file"),
    ("ledger verify", "file"): (("gone",), "a ledger"),
}  # fmt: skip
FILES = {"ids_file", "prompt_file"}  # of one decorator for all verbs: tests/test_cli_files.py
WRITES = {"html", "log", "out", "receipt_file", "reexport", "ledger"}  # these need not be there
# not at once: looked for when two traces have been read
ELSEWHERE = {("explain", "model")}

# verb -> the rest of a call in which nothing but the engine is wrong
ENGINES = {
    "run": ("micro", *ASK),
    "digest": ("micro", *ASK),
    "diff": ("micro", "-e", "numpy", *ASK),
    "bisect": ("micro", "-e", "numpy", *ASK),
    "selftest": (),
    "probe": (),
    "bench": ("micro",),
    "trace": ("micro", *ASK, "-o", "made"),
    "gate": ("finite",),
    "serve": ("micro", "--port", "0"),
    "transcript produce": ("micro", *ASK, "-o", "made"),
    "transcript verify": ("micro", "t.jsonl"),
    "state export": ("micro", *ASK, "-o", "made"),
    "state import": ("micro", "a.state"),
}


def parameters(group: typer.Typer = cli.app, before: str = "") -> Iterator[tuple[str, str, Any, tuple[Any, ...]]]:
    """Of every verb: its name, such as "state diff"; name, type and notes of each parameter."""
    for command in group.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            yield f"{before}{command.name}", name, *unfolded(hint)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from parameters(inner.typer_instance, f"{inner.name} ")


def unfolded(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Type and notes of Annotated[type, *notes]."""
    return (hint.__origin__, hint.__metadata__) if hasattr(hint, "__metadata__") else (hint, ())


def flags(note: Any) -> tuple[Any, ...]:
    """Of typer.Option("--engine", "-e"): it holds the first as a default."""
    return (note.default, *(note.param_decls or ()))


def refused(verb: str, *words: str) -> str:
    """The sentence of a call that is refused with exit code 2."""
    error = CliRunner().invoke(cli.app, [*verb.split(), *words]).exception
    assert isinstance(error, GnomonError), repr(error)
    assert error.exit_code == 2
    return str(error)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one transcript and one state stand, and nothing else."""
    monkeypatch.chdir(tmp_path)
    for words in (("transcript", "produce", "micro", *ASK, "-o", "t.jsonl", "-n", "1"),
                  ("state", "export", "micro", *ASK, "-o", "a.state")):  # fmt: skip
        assert CliRunner().invoke(cli.app, words).exit_code == 0
    return tmp_path


@pytest.mark.parametrize(("verb", "parameter"), READS, ids=[f"{verb}: {name}" for verb, name in READS])
def test_no_verb_has_its_own_words_for_a_path_where_nothing_is(folder: Path, verb: str, parameter: str) -> None:
    words, what = READS[verb, parameter]
    gone = "gone.py" if "gone.py:f" in words else "gone"
    assert refused(verb, *words) == f"Expected {what} at {gone!r} but nothing is found there; check the path"
    assert sorted(path.name for path in folder.iterdir()) == ["a.state", "t.jsonl"]


def test_no_parameter_that_is_read_is_left_out() -> None:
    paths = {(verb, name) for verb, name, kind, _ in parameters() if kind in (Path, Path | None) or name == "model"}
    assert {("run", "batch"), ("state diff", "observed"), ("serve", "model"), ("explain", "model")} <= paths
    assert {pair for pair in paths if pair[1] not in WRITES | FILES} - ELSEWHERE <= READS.keys()


@pytest.mark.parametrize("verb", ENGINES)
def test_no_verb_has_its_own_words_for_an_engine_that_does_not_exist(folder: Path, verb: str) -> None:
    known = "numpy, host, mlx-array, mlx-metal, cupy, shadow, fast, mlx, or package.module:factory"
    sentence = refused(verb, *ENGINES[verb], "--engine", "nunpy")
    assert sentence == f"Expected an engine among {known}, but got 'nunpy'; did you mean numpy?"
    assert sorted(path.name for path in folder.iterdir()) == ["a.state", "t.jsonl"]


def test_no_verb_that_takes_an_engine_is_left_out() -> None:
    taking = {verb for verb, _, _, notes in parameters() if any("--engine" in flags(note) for note in notes)}
    assert taking == ENGINES.keys()


@pytest.mark.parametrize("name", ["zzzz", "", "x" * 500])
def test_no_engine_is_proposed_where_none_is_near(name: str) -> None:
    assert refused("run", "micro", *ASK, "-e", name).endswith(f"but got {name!r}")


def test_no_version_but_the_installed_one_is_told() -> None:
    done = CliRunner().invoke(cli.app, ["--version"])
    assert (done.exit_code, done.output) == (0, "gnomon 0.1.0\n")


HEAVY = ("cryptography", "jinja2", "uvicorn", "starlette", "mlx", "gnomon.gates.gate", "gnomon.gates.all")


def test_help_does_not_wait_for_what_only_some_verbs_need() -> None:
    look = f"import sys, gnomon.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


def test_no_engine_of_ones_own_needs_to_be_installed(folder: Path) -> None:
    """In the working directory, as a module and as a file."""
    (folder / "own_engine.py").write_text(
        "import gnomon\n\ndef make(model):\n    return gnomon.engine('numpy', model)\n"
    )
    for name in ("own_engine:make", "own_engine.py:make"):
        done = CliRunner().invoke(cli.app, ["digest", "micro", *ASK, "--engine", name])
        assert done.exit_code == 0, done.output


def test_no_factory_that_fails_is_a_fault_of_gnomon(folder: Path) -> None:
    (folder / "own_broken.py").write_text("def make():\n    return None\n")
    assert "own_broken.py:make raised TypeError: make() takes 0 positional arguments" in refused(
        "digest", "micro", *ASK, "--engine", "own_broken.py:make"
    )


@pytest.mark.parametrize("words", [("gate", "--list"), ("inspect", "model", "micro"), ("selftest",)], ids=" ".join)
def test_a_closed_pipe_is_no_verdict(words: tuple[str, ...]) -> None:
    """The reader leaves at once: not 1, which says that something differs."""
    command = [sys.executable, "-c", "from gnomon.cli import main; main()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) in (0, cli.CLOSED)
