"""How wide the command line prints: as wide as a terminal or COLUMNS says, and in a file as wide as it needs to be."""

import io
import sys
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner

from gnomon import cli
from gnomon.cli.show import Output

IDS = ("--ids", "1,2,3")
BOTH = ("-e", "numpy", "-e", "gnomon.planted:reordered")
WIDE = "1000"

# a verb that prints a table -> the words, and how the header of the table begins; above it, text may be wrapped
TABLES = {
    "selftest": (("selftest", "--verbose"), "case "),
    "probe": (("probe",), "way "),
    "inspect model": (("inspect", "model", "micro"), "weight "),
    "inspect trace": (("inspect", "trace", "a"), "tensor "),
    "inspect tensor": (("inspect", "tensor", "a", "blocks.0.attn.q"), "index "),
    "inspect state": (("inspect", "state", "a.state"), "tensor "),
    "state diff": (("state", "diff", "a.state", "b.state"), "section "),
    "diff": (("diff", "micro", *BOTH, *IDS), "tensor "),
    "diff, wrong ops": (("diff", "micro", *BOTH, *IDS, "--isolate"), "wrong op "),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace and two states."""
    out = tmp_path_factory.mktemp("shown")
    for words in (
        ("trace", "micro", *IDS, "--out", out / "a"),
        ("state", "export", "micro", *IDS, "--out", out / "a.state"),
        ("state", "export", "micro", "--ids", "1,2,4", "--out", out / "b.state"),
    ):
        assert CliRunner().invoke(cli.app, [str(word) for word in words]).exit_code == 0
    return out


def printed(words: tuple[str, ...], columns: str | None) -> list[str]:
    """The lines of a verb whose stdout is no terminal."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("COLUMNS", raising=False)
        if columns is not None:
            patched.setenv("COLUMNS", columns)
        done = CliRunner().invoke(cli.app, words)
    assert done.exit_code in (0, 1), done.output
    return [line.rstrip() for line in done.stdout.splitlines()]


def table(lines: list[str], header: str) -> list[str]:
    """From the header on."""
    return lines[next(i for i, line in enumerate(lines) if line.startswith(header)) :]


@pytest.mark.parametrize("case", TABLES)
def test_no_row_is_wrapped_in_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(folder)
    words, header = TABLES[case]
    found = table(printed(words, None), header)
    assert found == table(printed(words, WIDE), header)
    assert not set(found) <= set(printed(words, "30"))  # there is something to wrap


def test_no_line_exceeds_what_columns_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert max(map(len, printed(TABLES["inspect trace"][0], "60"))) <= 60
    assert max(map(len, printed(TABLES["inspect trace"][0], None))) > 80


def test_no_table_exceeds_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("COLUMNS", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    rows = Table("one", "other")
    rows.add_row("a " * 60, "b " * 60)
    Output(width=50, color_system=None).print(rows)
    assert max(map(len, screen.getvalue().splitlines())) <= 50


def test_no_box_is_as_wide_as_the_longest_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(("diff", "micro", *BOTH, *IDS), None)
    assert any("first divergence" in line for line in lines)
    assert max(map(len, lines)) < 160  # the compiler flags of the engine alone are longer
