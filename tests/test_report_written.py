"""Where an HTML report is written: aside and renamed, or not at all; and by which commands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broken_engines import IDS, MODEL, ReversedSum, reference
from gnomon.cli import app
from gnomon.compare.diff import diff
from gnomon.compare.report import Report
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from report_page import HOSTILE, Page


@pytest.fixture(scope="module")
def report() -> Report:
    return diff(reference(), Engine(HOSTILE, MODEL, ReversedSum("blocks.1.mlp.gate")), IDS, steps=1)


def test_a_report_is_written_whole_and_replaces_the_old(report: Report, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    report.write_html(out)
    assert out.read_text(encoding="utf-8") == report.to_html()
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_write_that_fails_leaves_the_old_report(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match=r"report.html' but got: No space left"):
        report.write_html(out)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert out.read_text() == "old"


def test_a_directory_that_is_not_there_is_a_usage_error(report: Report, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        report.write_html(tmp_path / "none" / "report.html")


def run(*args: str) -> Any:
    return CliRunner().invoke(app, list(args))


def test_diff_writes_the_report_that_it_prints(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = run("diff", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1,2", "--steps", "0", "--html", str(out))
    assert done.exit_code == 0, done.output
    assert f"report: {out}" in done.stdout.replace("\n", "")
    words = Page(out.read_text(encoding="utf-8")).words
    assert re.search(r"identical: a(ll \d+ tensors have the same bytes)", done.stdout)[1] in words  # type: ignore[index]


def test_json_stays_one_object_beside_the_report(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    args = ("diff", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1,2", "--steps", "0", "--json")
    done = run(*args, "--html", str(out))
    assert json.loads(done.stdout)["verdict"] == "identical"
    assert out.exists()


def test_demo_writes_the_planted_break_only_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo", "--steps", "1").exit_code == 0
    assert list(tmp_path.iterdir()) == []
    assert run("demo", "--steps", "1", "--html", "report.html").exit_code == 0
    words = Page(Path("report.html").read_text(encoding="utf-8")).words
    assert "First divergence blocks.3.mlp.gate" in words


@pytest.mark.parametrize("verb", [("diff", "nothing-here", "-e", "a", "-e", "b"), ("compare", "a", "b"), ("demo",)])
@pytest.mark.parametrize(("where", "told"), [("none/report.html", "there is no 'none'"), (".", "is a directory")])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    verb: tuple[str, ...], where: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*verb, "--html", where)
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)
