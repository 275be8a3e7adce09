"""The command line: exit codes are verdicts, errors are one sentence, --json is one object."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from broken_files import CASES, Case
from gnomon.loading import load


def gnomon(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gnomon.cli import main; main()", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def test_demo_finds_the_planted_break_and_nothing_else() -> None:
    done = gnomon("demo", "--steps", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.split("a copy of the shadow")
    assert first.count("identical:") == 2
    assert "first divergence" not in first
    assert "blocks.3.mlp.gate: " in second
    for word in ("decimal", "hex float", "bits", "ulp", "all inputs are identical", "explained (linear"):
        assert word in second


def test_digest_prints_one_object_with_every_tensor() -> None:
    done = gnomon("digest", "micro", "--ids", "1,2,3", "--steps", "2", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert sorted(result) == ["config", "greedy", "last_logits_sha256", "logits_sha256", "model", "state", "taps",
                              "unwatched_logits_sha256"]  # fmt: skip
    assert result["taps"]["logits"] == result["logits_sha256"] == result["unwatched_logits_sha256"]
    assert len(result["greedy"]) == 2
    assert "blocks.2.rec.delta" in result["state"]


def test_digests_do_not_depend_on_the_engine() -> None:
    results = [gnomon("digest", "micro", "--ids", "5 6 7 8", "--engine", e, "--json").stdout for e in ("numpy", "mlx")]
    assert results[0].startswith("{")
    assert results[0] == results[1]


def test_diff_of_a_broken_engine_fails_and_names_the_tensor() -> None:
    done = gnomon("diff", "micro", "-e", "numpy", "-e", "gnomon.planted:reordered", "--ids", "1,2,3", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    card = next(record for record in report["records"] if record["type"] == "first_divergence")
    assert card["tap"] == "blocks.1.mlp.gate"


def test_run_without_a_tokenizer_prints_ids() -> None:
    done = gnomon("run", "micro", "--ids", "1,2,3", "-n", "4", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["ids"]) == 4


def test_run_streams_the_text_that_json_gives() -> None:
    text = gnomon("run", "tiny-dense", "-p", "import os", "-n", "6")
    whole = gnomon("run", "tiny-dense", "-p", "import os", "-n", "6", "--json")
    assert text.returncode == whole.returncode == 0
    assert text.stdout == "import os" + json.loads(whole.stdout)["text"] + "\n"


def test_selftest_passes_on_every_known_answer() -> None:
    done = gnomon("selftest", "--json")
    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout)
    assert (result["FAIL"], result["NOT RUN"]) == (0, 0)
    assert result["PASS"] >= 67


MISUSES = {
    "no such model": ("inspect", "model", "nothing-here"),
    "no such engine": ("run", "micro", "--ids", "1", "-e", "abacus"),
    "no such factory": ("run", "micro", "--ids", "1", "-e", "nowhere:engine"),
    "text without tokenizer": ("run", "micro", "-p", "hello"),
    "neither ids nor prompt": ("run", "micro"),
    "ids and prompt": ("run", "tiny-dense", "--ids", "1", "-p", "x"),
    "ids that are no numbers": ("digest", "micro", "--ids", "1,x"),
    "ids with a gap": ("digest", "micro", "--ids", "1,,2"),
    "an id beyond the vocabulary": ("digest", "micro", "--ids", "1,97"),
    "one engine to diff": ("diff", "micro", "-e", "numpy", "--ids", "1"),
    "an unknown arm": ("run", "micro", "--ids", "1", "--arm", "f64"),
    "an unknown verb": ("sundial",),
    "no vectors": ("selftest", "--vectors", "/nonexistent"),
    "too many positions": ("run", "tiny-dense", "--ids", ",".join(["1"] * 1025)),
}


@pytest.mark.parametrize("case", MISUSES)
def test_no_misuse_ends_in_a_traceback(case: str) -> None:
    args: Sequence[str] = MISUSES[case]
    done = gnomon(*args)
    assert done.returncode == (3 if case == "no such factory" else 2), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    if "Usage" not in done.stderr:
        assert len(done.stderr.strip().splitlines()) == 1


def test_an_empty_folder_of_vectors_does_not_pass(tmp_path: object) -> None:
    assert gnomon("selftest", "--vectors", str(tmp_path)).returncode == 2


WATCHED = """
import sys
from gnomon.cli import main
try:
    main()
finally:
    if sys.platform == "linux":
        print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 24], ids=str)
def test_a_broken_model_file_ends_in_one_sentence(tmp_path: Path, case: Case) -> None:
    path = case.sound(tmp_path)
    load(path)  # it was sound
    case.damage(path)
    command = [sys.executable, "-c", WATCHED, "inspect", "model", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert case.says in done.stderr
    if sys.platform == "linux":
        assert int(done.stdout.split()[-1]) < 200_000, "peak memory in KiB"
