"""The kits for machines of others: the same steps here on engine `host`, in a short form; what the scripts carry."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnomon.engines import engines
from gnomon.reference.chain import verify

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"
SCRIPTS = {"on_cuda": "cupy", "on_rocm": "cupy", "on_mac": "mlx-metal"}
CARRY = 60 << 20  # bytes
LEFT_OUT = {".venv", ".git", ".cache", "build", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCH))
    import kit

    yield kit
    sys.modules.pop("kit")


def run_kit(kit: Any, receipt: Path, engine: str = "host", **given: Any) -> tuple[int, list[dict[str, Any]]]:
    with pytest.raises(kit.typer.Exit) as ended:
        kit.main(**{"engine": engine, "receipt": receipt, "short": True, "digests": False, "limit": 200.0} | given)
    return int(ended.value.exit_code), verify(receipt.read_text("ascii").splitlines())


@pytest.mark.skipif(bool(engines()["host"]), reason=f"engine host: {engines()['host']}")
def test_no_step_is_left_out_of_the_receipt(kit: Any, tmp_path: Path) -> None:
    code, records = run_kit(kit, tmp_path / "receipt.jsonl")
    steps = {r["name"]: r["verdict"] for r in records if r["type"] == "step"}
    assert steps == dict.fromkeys(["probe", "vectors", "tests", "gates", "digests", "speed"], "PASS") | {
        "speed": steps["speed"]  # it judges nothing
    }
    assert (code, records[-1]["verdict"], records[0]["what"]) == (0, "PASS", "kit")
    assert records[1]["settings"]["engine"] == "host"


def planted(kit: Any, monkeypatch: pytest.MonkeyPatch, code: int, judges: bool = True) -> None:
    command = [sys.executable, "-c", f"print('told'); raise SystemExit({code})"]
    monkeypatch.setattr(kit, "steps", lambda engine, short: [kit.Step("one", command, judges)])


@pytest.mark.parametrize(
    ("exits", "judges", "expected"), [(1, True, 1), (2, True, 1), (3, True, 3), (-9, True, 1), (1, False, 0)]
)
def test_a_failed_step_is_no_pass(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exits: int, judges: bool, expected: int
) -> None:
    planted(kit, monkeypatch, exits, judges)
    code, records = run_kit(kit, tmp_path / "receipt.jsonl", "numpy")
    assert (code, records[-1]["exit_code"]) == (expected, expected)
    assert records[2]["output"] == "told"


def test_a_step_without_an_end_is_a_failure(kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(kit, "steps", lambda engine, short: [kit.Step("one", forever)])
    code, records = run_kit(kit, tmp_path / "receipt.jsonl", "numpy", limit=0.5)
    assert code == 1
    assert records[2]["output"].startswith("Expected an end within 0 s")


def test_an_engine_that_is_absent_is_told_as_such(kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = engines()["cupy"]
    if not reason:
        pytest.skip("there is a GPU here")
    planted(kit, monkeypatch, 3)
    code, records = run_kit(kit, tmp_path / "receipt.jsonl", "cupy")
    assert code == 3
    assert records[1] == {"type": "engine", "name": "cupy", "absent": f"Expected a GPU for engine cupy but {reason}"}


def test_other_logits_have_other_digests(kit: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(kit, "digest", lambda name, model: name)
    assert kit.compare_digests("numpy", True) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"


@pytest.mark.parametrize(("name", "engine"), SCRIPTS.items())
def test_a_script_is_one_command_for_its_engine(name: str, engine: str) -> None:
    script = BENCH / f"{name}.sh"
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    text = script.read_text("ascii")
    assert f"bench/kit.py --engine {engine} --receipt" in text
    assert not set(text.split()) & {"torch", "transformers", "gnomon[dev]"}


def test_nothing_large_is_carried() -> None:
    """What a checkout holds; the packages come from PyPI."""
    files = [f for f in ROOT.rglob("*") if f.is_file() and not LEFT_OUT & set(f.relative_to(ROOT).parts)]
    assert len(files) > 100
    assert sum(f.stat().st_size for f in files) < CARRY
