"""Measuring: what counts as a sample, what a ratio is made of, `gnomon bench` as a user calls it. Nothing is timed."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from gnomon.cli import app
from gnomon.engines import engine
from gnomon.loading import load
from gnomon.measure import EngineRunner, Sample, Way, position_bytes, ratio, rounds, speed, timed, token_bytes, ways
from gnomon.reference.config import Config, Rope
from gnomon.reference.errors import UsageError
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.weights import Role, Weight

ROOT = Path(__file__).parents[1]
OURS = {"median": 190.0, "best": 210.0, "p90": 205.0, "samples": 7, "discarded": 1}
THEIRS = {"median": 100.0, "best": 110.0, "p90": 108.0, "samples": 7, "discarded": 0}
RATIO = {"median": 1.9, "least": 1.8, "most": 2.0, "pairs": 7, "discarded": 1}
SHARE = {"median": 0.5, "least": 0.4, "most": 0.6, "pairs": 7, "discarded": 0}
WAY = {
    "tokens_per_second": {"host": OURS, "llama.cpp": THEIRS}, "ratio": {"llama.cpp": RATIO}, "bytes": 100_000_000,
    "share_of_stream": SHARE,
}  # fmt: skip
RECORD = {
    "run": {"gnomon": "0", "environment": {"processor": "a CPU", "build": "a system", "python": "3"}},
    "engine": {"kernels": "0" * 64, "compiler": "c++", "flags": "-O3", "threads": "2", "arm": "f32", "kv": "f32"},
    "peers": {"llama.cpp": {"commit": "abc", "system": "AVX = 1 | AVX2 = 1"}},
    "last_level_cache": 1 << 20, "others_share": 0.01, "least_share": 0.95, "products_per_second": 9e10,
    "ops": {"format": "Q4_1", "at": [], "dispatch": {"empty_plan": 1.0, "barrier": 0.5}},
    "formats": {
        "Q4_1": {
            "file_bytes": 9, "token_bytes": 9, "products": {"decode": 100, "prefill": 90},
            "stream_bytes_per_second": {"median": 3e10, "best": 3.5e10}, "ways": {"decode@0": WAY},
        },
    },
}  # fmt: skip
GOOD, BAD = 1.0, 0.5
DONE = [
    {"a": Sample(1.0, GOOD), "b": Sample(2.0, GOOD)},
    {"a": Sample(2.0, GOOD), "b": Sample(10.0, GOOD)},
    {"a": Sample(4.0, GOOD), "b": Sample(4.0, GOOD)},
    {"a": Sample(0.001, BAD), "b": Sample(1.0, GOOD)},  # a did not get its share of the CPUs
    {"b": Sample(5.0, GOOD)},
]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """bench/speed_page.py, which is a script"""
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("speed_page")


def test_no_sample_counts_without_its_share_of_cpu_time() -> None:
    assert speed(DONE, "a", 8) == {"median": 4.0, "best": 8.0, "p90": 7.2, "samples": 3, "discarded": 1}


def test_no_ratio_mixes_rounds() -> None:
    """2, 5 and 1 in three rounds: their median is 2; the medians' ratio would be 2 of other rounds, 4 / 2"""
    assert ratio(DONE, "a", "b") == {"median": 2.0, "least": 1.0, "most": 5.0, "pairs": 3, "discarded": 1}
    assert ratio(DONE, "b", "a", scale=2.0)["most"] == 2.0


def test_no_figure_is_made_up_where_no_sample_is_left() -> None:
    assert speed(DONE[3:4], "a", 8) == {"median": None, "best": None, "p90": None, "samples": 0, "discarded": 1}
    assert ratio(DONE[3:], "a", "b")["median"] is None


def test_no_round_leaves_a_way_out() -> None:
    """One after the other, each prepared right before its turn; the rare one in the first round only"""
    seen: list[str] = []
    made = {
        "a": Way(lambda: seen.append("a"), 1, lambda: seen.append("for a")),
        "b": Way(lambda: seen.append("b"), 1, every=2),
        "c": Way(lambda: seen.append("c"), 1, times=2),
    }

    done = list(rounds(made, seconds=0.0, least=2))

    assert seen == ["for a", "a", "b", "c", "c", "for a", "a", "c", "c"]
    assert [sorted(r) for r in done] == [["a", "b", "c"], ["a", "c"]]


def test_no_share_of_cpu_time_is_outside_of_0_to_1() -> None:
    assert 0.0 <= timed(lambda: sum(range(1000))).share <= 1.0


@pytest.mark.parametrize("name", ["micro", "tiny-hybrid"])
def test_no_decode_starts_at_another_position(name: str) -> None:
    """A recurrent state cannot be taken back, so every sample starts from a copy."""
    model = load(name)
    runner = EngineRunner(engine("numpy", model), list(range(1, 9)))
    for _ in range(2):
        for way in ways(runner, [0, 4], [8]).values():
            way.prepare()

    runner.stand(4)
    assert runner.at.ids == [1, 2, 3, 4, 1]
    runner.decode(2)
    assert runner.at.ids == [1, 2, 3, 4, 1, 1, 2]
    runner.stand(0)
    assert runner.at.ids == [1]


def test_no_byte_of_a_token_is_counted_twice_or_forgotten() -> None:
    """A small SmolLM2, sizes counted by hand: 2 layers of width 8, 2 heads and 1 of keys, 4 wide, ffn 12, vocab 16"""
    square, narrow, wide, head = 8 * 8, 8 * 4, 8 * 12, 16 * 8
    config = Config("llama", 16, 8, 2, 2, 1, 4, 12, 1e-5, Rope(10000.0, 4), 64, windows=(None, None), tied=True)
    specs = family("llama").specs(config)
    weights = {name: weight(name, spec.shape, spec.role) for name, spec in specs.items()}
    running = engine("numpy", Model("small", config, weights))

    assert token_bytes(running) == 4 * (2 * (2 * square + 2 * narrow + 3 * wide) + head)
    assert position_bytes(running) == 4 * 2 * 2 * 4


def weight(name: str, shape: tuple[int, ...], role: Role) -> Weight:
    return Weight(name, "F32", shape, np.zeros((shape[0], 4 * shape[-1] if len(shape) > 1 else 4), np.uint8), role)


def test_no_way_is_missing_from_the_json() -> None:
    out = CliRunner().invoke(
        app, ["bench", "micro", "-e", "numpy", "--position", "0", "--position", "5", "--prefill", "9", "--seconds", "0",
              "--share", "0", "--json"],
    )  # fmt: skip

    assert out.exit_code == 0, out.output
    told = json.loads(out.stdout.splitlines()[-1])
    assert [(w["way"], w["at"]) for w in told["ways"]] == [("decode", 0), ("decode", 5), ("prefill", 9)]
    assert all(w["tokens_per_second"]["samples"] == 1 for w in told["ways"])


def test_no_position_beyond_the_model_is_measured() -> None:
    out = CliRunner().invoke(app, ["bench", "micro", "-e", "numpy", "--position", "100000"])

    assert isinstance(out.exception, UsageError)
    assert "100000" in str(out.exception)


PAGE = "before\n<!-- llama -->\nold figures\n<!-- end -->\nafter\n"


def test_no_table_of_the_page_is_written_by_hand(page: ModuleType) -> None:
    """A record of one way: its figures stand in the table, what stood there is gone, the text around it stays."""
    told = page.filled(PAGE, RECORD)

    assert "old figures" not in told
    assert told.startswith("before\n")
    assert told.endswith("after\n")
    assert "| Q4_1 | decode at 0 | 190 (210, 205) | 100 (110, 108) | 1.90 (1.80 to 2.00) | 1.3 | 7 |" in told


def test_no_unknown_table_is_left_as_it_was(page: ModuleType) -> None:
    with pytest.raises(ValueError, match="'llamas'"):
        page.filled(PAGE.replace("llama", "llamas"), RECORD)


@pytest.mark.parametrize("name", ["docs/speed.md", "README.md"])
def test_no_page_differs_from_the_record_in_the_repository(page: ModuleType, name: str) -> None:
    record, there = ROOT / "bench" / "results" / "speed.json", ROOT / name

    assert page.filled(there.read_text("utf-8"), json.loads(record.read_text("utf-8"))) == there.read_text("utf-8")


def test_no_picture_is_broken_xml(page: ModuleType) -> None:
    picture = ElementTree.fromstring(page.roofline(RECORD))

    assert len([e for e in picture.iter() if e.tag.endswith("}title")]) == 2  # one point a side
