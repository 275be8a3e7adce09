"""The pytest plugin: a failing test shows the text that the terminal shows, and no frame of gnomon's own."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SETUP = """
import numpy as np
import pytest
from broken_engines import MODEL, ReversedSum, reference
from gnomon import assert_same_bytes, diff
from gnomon.reference.engine import Engine

def compare(shadow):
    return diff(reference(), shadow, [5, 80, 13], steps=0)

def broken():
    return Engine("broken", MODEL, ReversedSum("blocks.1.mlp.gate"))
"""


@pytest.fixture(autouse=True)
def _no_installed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not gnomon is installed as a plugin: the inner sessions get it from their conftest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def outcome(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    """Run a test file in a session of its own."""
    pytester.makepyfile(SETUP + test)
    pytester.makeconftest("from gnomon.compare.pytest_plugin import pytest_runtest_makereport, same_bytes")
    pytester.makeini(f"[pytest]\npythonpath = {Path(__file__).parent}\nfilterwarnings = error")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


def test_the_fixture_names_the_test_and_shows_the_bits(pytester: pytest.Pytester) -> None:
    done = outcome(pytester, """
def test_norm(same_bytes):
    same_bytes(np.float32([1, 2, 3]), np.float32([1, 2, 3.0000002]))
""")  # fmt: skip
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([
        "E *AssertionError: test_norm: ulp<=1",
        "E *test_norm f32 [[]3] at [[]2]: 0x40400000 => expected 0x40400001 (-1 ulp)",
        "E *1 of 3 values differs, at most 1 ulp apart; the largest error is 2.38e-07",
    ])  # fmt: skip


@pytest.mark.parametrize("call", ["same_bytes", "assert_same_bytes"])
def test_the_traceback_ends_in_the_test(pytester: pytest.Pytester, call: str) -> None:
    done = outcome(pytester, f"def test_it(same_bytes):\n    {call}(np.float32([1]), np.float32([2]))\n")
    done.assert_outcomes(failed=1)
    frames = re.findall(r"^(\S+\.py):\d+: ", done.stdout.str(), re.MULTILINE)
    assert [Path(frame).name for frame in frames] == ["test_the_traceback_ends_in_the_test.py"]


def test_the_fixture_passes_equal_bytes_and_keeps_a_given_name(pytester: pytest.Pytester) -> None:
    done = outcome(pytester, """
def test_equal(same_bytes):
    same_bytes(np.float32([1, 2]), np.float32([1, 2]), "logits")
    same_bytes(np.zeros(9), np.zeros(9), sparse=True)
    same_bytes(np.uint16([1, 2]), np.uint16([1, 2]), uint16="bf16")
def test_named(same_bytes):
    same_bytes(np.float32([1, -0.0]), np.float32([1, 0.0]), "logits")
""")  # fmt: skip
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["E *logits: zero-sign"])


HELD = {
    "in a variable": "def test_it():\n    report = compare(broken())\n    assert report.exit_code == 0",
    "inside the assertion": "def test_it():\n    assert compare(broken()).verdict == 'identical'",
    "in a fixture": (
        "@pytest.fixture\ndef report():\n    return compare(broken())\n"
        "def test_it(report):\n    assert report.first_divergence is None"
    ),
    "in a helper": (
        "def check(report):\n    assert report.exit_code == 0\ndef test_it():\n    check(compare(broken()))"
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", HELD)
def test_a_report_that_a_failed_test_holds_is_shown_once(pytester: pytest.Pytester, where: str) -> None:
    done = outcome(pytester, HELD[where])
    done.assert_outcomes(failed=1)
    shown = done.stdout.str()
    assert len(re.findall("^-+ gnomon report -+$", shown, re.MULTILINE)) == 1
    section = re.split("^-+ gnomon report -+$", shown, flags=re.MULTILINE)[1]
    for told in (
        "blocks.1.mlp.gate: ",
        "all inputs are identical: this op made it",
        "to see it again: gnomon diff small",
    ):
        assert told in section


QUIET = {
    "of a passing test": ("report = compare(broken())\n    assert report.exit_code == 1", {"passed": 1}),
    "that is identical": ("report = compare(reference())\n    assert report.exit_code == 1", {"failed": 1}),
    "of a skipped test": ("report = compare(broken())\n    pytest.skip('no')", {"skipped": 1}),
}


@pytest.mark.parametrize("which", QUIET)
def test_no_report_is_shown(pytester: pytest.Pytester, which: str) -> None:
    body, expected = QUIET[which]
    done = outcome(pytester, f"def test_it():\n    {body}\n")
    done.assert_outcomes(**expected)
    assert "gnomon report" not in done.stdout.str()


def test_the_entry_point_is_declared_and_importable() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module = import_module(project["entry-points"]["pytest11"]["gnomon"])
    assert callable(module.pytest_runtest_makereport)
    assert hasattr(module, "same_bytes")
