"""Isolation names every op that is wrong by itself, and nothing that only inherited; the search names the same set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.compare.bisect import bisect, smallest
from gnomon.compare.graft import COMPOSITES
from gnomon.compare.isolate import OPS, grafted, isolate
from gnomon.engines import engine
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import F32, Rows

IDS = [11, 48, 85, 25, 62, 2, 39]


class ThreeBroken(NumpyOps):
    """rms_norm one ulp high in one place, swiglu's silu negated in one element, mix with the next value's rows."""

    def rms_norm(self, at: str, x: F32, w: F32, eps: float, groups: int = 1) -> F32:
        y = super().rms_norm(at, x, w, eps, groups).copy()
        y[0, 0] = np.nextafter(y[0, 0], np.float32(np.inf))
        return y

    def silu(self, at: str, x: F32) -> F32:
        y = super().silu(at, x).copy()
        y[-1, -1] = -y[-1, -1]
        return y

    def mix(self, at: str, e: list[F32], denom: list[F32], rows: Rows, i: int) -> F32:
        return np.roll(super().mix(at, e, denom, rows, i), 1, axis=1)


class BrokenState(NumpyOps):
    """Appends keys one ulp high, and a delta rule that forgets nothing."""

    def kv_append(self, at: str, k: F32, v: F32, rows: Rows, i: int, kv_heads: int) -> None:
        super().kv_append(at, np.nextafter(k, np.float32(np.inf)), v, rows, i, kv_heads)

    def delta_rule(self, at: str, q: F32, k: F32, v: F32, g: F32, beta: F32, rows: Rows, i: int, *heads: int) -> F32:
        return super().delta_rule(at, q, k, v, np.zeros_like(g), beta, rows, i, *heads)


class Flaky(NumpyOps):
    """Wrong only at every third call of add."""

    calls = 0

    def add(self, at: str, x: F32, y: F32) -> F32:
        self.calls += 1
        out = super().add(at, x, y)
        return np.nextafter(out, np.float32(np.inf)) if self.calls % 3 == 0 else out


def broken(ops: NumpyOps) -> Engine[Any]:
    return Engine("broken", micro(), ops)


def wrong_ops(table: NumpyOps, steps: int = 2) -> set[str]:
    report = isolate(engine("numpy", micro()), broken(table), IDS, steps)
    assert report.exit_code == 1
    return {r.op for r in report.records if r.type == "wrong_op"}


def test_isolation_lists_exactly_the_three_broken_ops() -> None:
    assert wrong_ops(ThreeBroken()) == {"rms_norm", "silu", "mix"}


def test_isolation_tells_a_wrong_state_from_what_reads_it() -> None:
    assert wrong_ops(BrokenState()) == {"kv_append", "delta_rule"}


def test_isolation_does_not_pass_an_op_that_writes_into_its_input() -> None:
    """On copies it is right, so no op is named; the engine as a whole is wrong."""

    class Overwrites(NumpyOps):
        def linear(self, at: str, x: F32, w: Any, b: Any = None) -> F32:
            y = super().linear(at, x, w, b)
            x[...] = 0.0
            return y

    report = isolate(engine("numpy", micro()), broken(Overwrites()), IDS, 1)
    assert report.exit_code == 1
    assert [r.op for r in report.records if r.type == "wrong_op"] == []
    (problem,) = (r for r in report.records if r.type == "problem")
    assert "something passes between its ops" in problem.message


def test_isolation_finds_nothing_between_engines_that_agree(engine_name: str) -> None:
    report = isolate(engine("numpy", micro()), engine(engine_name, micro()), IDS, 2)
    assert report.exit_code == 0, report.text()
    assert report.summary.compared > 150


def test_the_report_of_an_isolated_run_shows_each_wrong_op() -> None:
    text = isolate(engine("numpy", micro()), broken(ThreeBroken()), IDS, 1).text()
    for op in ("rms_norm", "silu", "mix"):
        assert any(line.startswith(op) for line in text.splitlines()), text


@pytest.mark.parametrize("chosen", [["rms_norm"], ["silu"], ["mix"]])
def test_one_broken_op_is_enough_to_differ(chosen: Sequence[str]) -> None:
    from gnomon.compare.diff import diff

    reference = engine("numpy", micro())
    assert diff(reference, grafted(reference, broken(ThreeBroken()), chosen), IDS, 1).exit_code == 1
    rest = [op for op in OPS if op not in ("rms_norm", "silu", "mix")]
    assert diff(reference, grafted(reference, broken(ThreeBroken()), rest), IDS, 1).exit_code == 0


def test_one_place_can_be_chosen() -> None:
    from gnomon.compare.diff import diff

    reference = engine("numpy", micro())
    report = diff(reference, grafted(reference, broken(ThreeBroken()), ["blocks.1.ln2"]), IDS, 0)
    assert report.first_divergence is not None
    assert report.first_divergence.tap == "blocks.1.ln2"


def test_bisect_finds_exactly_the_three_broken_ops() -> None:
    found = bisect(engine("numpy", micro()), broken(ThreeBroken()), IDS, 1)
    assert (found.verdict, set(found.ops)) == ("found", {"rms_norm", "silu", "mix"})


def test_bisect_finds_the_broken_state_ops() -> None:
    found = bisect(engine("numpy", micro()), broken(BrokenState()), IDS, 1)
    assert set(found.ops) == {"kv_append", "delta_rule"}


def test_a_fault_that_comes_and_goes_is_found_with_repeats() -> None:
    assert bisect(engine("numpy", micro()), broken(Flaky()), IDS, 0, repeats=3).ops == ("add",)


def test_bisect_goes_on_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    first = bisect(engine("numpy", micro()), broken(ThreeBroken()), IDS, 1, log=log)
    log.write_text(log.read_text()[:-7])  # cut short in the middle of a line
    second = bisect(engine("numpy", micro()), broken(ThreeBroken()), IDS, 1, log=log)
    assert second.ops == first.ops
    assert second.trials == 1
    with pytest.raises(UsageError, match="another search"):
        bisect(engine("numpy", micro()), broken(ThreeBroken()), IDS, 2, log=log)


def test_engines_that_agree_leave_nothing_to_find(engine_name: str) -> None:
    found = bisect(engine("numpy", micro()), engine(engine_name, micro()), IDS, 1)
    assert (found.verdict, found.ops) == ("identical", ())


@pytest.mark.parametrize("culprits", [{"a"}, {"a", "h"}, {"c", "d", "e"}, set("abcdefgh")])
def test_the_smallest_set_has_no_item_too_many(culprits: set[str]) -> None:
    assert smallest(list("abcdefgh"), culprits.issubset) == culprits


def test_an_unknown_op_is_refused() -> None:
    with pytest.raises(UsageError, match="matmul"):
        grafted(engine("numpy", micro()), engine("numpy", micro()), ["matmul"])


def test_the_list_of_ops_is_that_of_the_table() -> None:
    """An op that were not in OPS would never be blamed."""
    border = {"pack", "array", "numpy", "finish", "new_cache", "export_cache", "load_cache", "copy_cache"}
    border |= {"truncate_cache", "cache_nbytes", "appended"}
    assert (set(NumpyOps.__mro__[1].__abstractmethods__) - border) | set(COMPOSITES) == set(OPS)  # type: ignore[attr-defined]
