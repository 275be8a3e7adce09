"""The digests that two machines hold against each other: every difference is seen, and the first tap is named."""

import importlib
import json
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from gnomon.engines import engine
from gnomon.gates.faults.breaking import on_call
from gnomon.gpu.host_build import march
from gnomon.loading import load

ROOT = Path(__file__).parents[1]
FORM = "numpy micro f32 f32"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """bench/digests.py, which is a script, with one model in one form"""
    monkeypatch.syspath_prepend(ROOT / "bench")
    module = importlib.import_module("digests")
    for name, few in {"MODELS": ("micro",), "ARMS": ("f32",), "STORAGES": ("f32",), "STEPS": 1}.items():
        monkeypatch.setattr(module, name, few)
    return module


@pytest.fixture
def digests(bench: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = bench.run(["numpy"])
    return found


def test_equal_digests_are_no_difference(bench: ModuleType, digests: dict[str, Any]) -> None:
    assert list(bench.differences(digests, deepcopy(digests))) == []


def test_one_character_of_one_state_array_is_seen(bench: ModuleType, digests: dict[str, Any]) -> None:
    other = deepcopy(digests)
    name, value = next(iter(other[FORM]["state"].items()))
    other[FORM]["state"][name] = value[:-1] + ("0" if value[-1] != "0" else "1")
    (line,) = bench.differences(digests, other)
    assert line.startswith(f"{FORM}: first difference: state {name}: ")
    assert "; 1 of " in line


def test_the_first_tap_of_a_fault_is_named(bench: ModuleType, digests: dict[str, Any]) -> None:
    broken = engine("numpy", load("micro"))
    on_call(broken, "rms_norm", lambda x, w, eps, *rest: (x, w, 10.0 * eps, *rest))
    (line,) = bench.differences(digests, {FORM: bench.digest(broken, bench.IDS, 1)})
    assert line.startswith(f"{FORM}: first difference: taps blocks.0.ln1: ")


def test_a_form_on_one_side_only_is_a_difference(bench: ModuleType, digests: dict[str, Any]) -> None:
    assert list(bench.differences(digests, {})) == [f"{FORM}: in one of the two files only"]


def test_another_run_on_this_machine_exits_with_the_verdict(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = bench.typer.Typer()
    app.command()(bench.main)
    first, second, again = (tmp_path / name for name in ("first", "second", "again"))
    runner = CliRunner()
    assert runner.invoke(app, ["--out", str(first), "-e", "numpy"]).exit_code == 0
    same = runner.invoke(app, ["--out", str(second), "--against", str(first), "-e", "numpy"])
    assert same.exit_code == 0
    assert json.loads(same.stdout.splitlines()[-1])["held_against"] == 1
    monkeypatch.setattr(bench, "IDS", [1, 2, 4])
    other = runner.invoke(app, ["--out", str(again), "--against", str(first), "-e", "numpy"])
    assert other.exit_code == 1
    assert json.loads(other.stdout.splitlines()[-1])["differ"] == 1
    assert runner.invoke(app, ["--out", str(again), "--against", str(tmp_path / "none")]).exit_code == 2


@pytest.mark.parametrize("option", ["-march=x86-64", "-mcpu=neoverse-n1"])
def test_a_named_target_is_not_replaced_by_this_cpu(option: str) -> None:
    assert march(("c++", option, "-g")) == (option,)
    assert march(("c++", "-g")) == ("-march=native",)
