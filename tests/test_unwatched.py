"""What runs when nobody looks is judged as well: kernels that are wrong only in their fused form, from some number of
rows on, or behind another step are caught and named by every tool, each by itself.

The faults are built into the kernels of the host engine. Before these tests, each tool passed each of them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gnomon
from gnomon import cli, models
from gnomon.compare.bisect import bisect
from gnomon.compare.isolate import isolate
from gnomon.compare.known_runs import known_runs
from gnomon.compare.record import Unwatched
from gnomon.compare.report import Report
from gnomon.compare.schedule import lengths, named, steps_of
from gnomon.compare.trace_compare import compare_traces
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace
from gnomon.compare.vectors import run_vectors
from gnomon.engines import engines
from gnomon.gates.mutations.fused import RECIPROCAL, STALE_CONVOLUTION, STRICT_MASK
from gnomon.gates.mutations.plans import Edit, compiled
from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_engine import HostEngine
from gnomon.gpu.host_library import Team
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import F32, Rows, Tap, Want

MODEL = models.micro()
IDS = [(7 * i * i + 3 * i + 11) % 97 for i in range(14)]
VECTORS = Path(gnomon.__file__).parent / "vectors"
OTHER_EPSILON: tuple[Edit, ...] = (
    (
        "host_main.cpp",
        "case OP_RMS_NORM: return rms_norm(buffer(0), weight(0), out(), n[0], in.f[0],",
        "case OP_RMS_NORM: return rms_norm(buffer(0), weight(0), out(), n[0], rows < 256 ? in.f[0] : 10 * in.f[0],",
    ),
)
# name -> edits, the tensor that a report must name, the op that isolation and bisect must name, whether a tap hides it
FAULTS: dict[str, tuple[tuple[Edit, ...], str, str, bool]] = {
    "a reciprocal in fused attention": (RECIPROCAL, "blocks.0.attn.z", "attention", True),
    "a strict mask in fused attention": (STRICT_MASK, "blocks.0.attn.z", "attention", True),
    "another epsilon from 256 rows on": (OTHER_EPSILON, "blocks.0.ln1", "rms_norm", False),
    "a convolution stale for two rows": (STALE_CONVOLUTION, "blocks.2.delta.conv_out", "causal_conv", False),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    if engines()["host"]:
        pytest.skip(f"engine host: {engines()['host']}")
    return str(request.param)


@cache
def broken(fault: str) -> Engine[Any]:
    return HostEngine("host", MODEL, HostArrayOps(Team(compiled(*FAULTS[fault][0]))))


def reference() -> Engine[Any]:
    return gnomon.engine("numpy", MODEL)


def different(report: Report) -> list[Unwatched]:
    return [r for r in report.records if isinstance(r, Unwatched) and r.verdict != "identical"]


def names_it(report: Report, fault: str) -> None:
    """The report fails, says so in words, and names the tensor and its op."""
    _, tap, op, hidden = FAULTS[fault]
    assert report.exit_code == 1, report.text()
    found = different(report)
    assert found
    assert {(r.tap, r.op, r.inputs_equal) for r in found} == {(tap, op, True)}
    assert all(bool(r.hidden_by) == bool(r.narrowest) == hidden for r in found)
    text = " ".join(report.text().split())
    assert ("differs only when nobody looks" in text) == hidden
    assert ("differs from its own watched run" in text) != hidden
    assert f"the first tensor to differ on that path: {tap}, made by {op} from equal inputs" in text


def test_no_fault_of_the_unwatched_path_passes_diff(fault: str) -> None:
    report = gnomon.diff(reference(), broken(fault), IDS, steps=2)
    names_it(report, fault)
    assert report.summary.identical == report.summary.tensors  # what the taps saw was right: this was the hole


def test_no_fault_of_the_unwatched_path_passes_isolation(fault: str) -> None:
    report = isolate(reference(), broken(fault), IDS, 1)
    names_it(report, fault)
    wrong = {r.op for r in report.records if r.type == "wrong_op"}
    assert wrong == ({FAULTS[fault][2]} if FAULTS[fault][3] else set())


def test_no_fault_of_the_unwatched_path_escapes_bisect(fault: str) -> None:
    found = bisect(reference(), broken(fault), IDS, 1)
    assert (found.verdict, found.ops) == ("found", (FAULTS[fault][2],))


def test_no_fault_of_the_unwatched_path_passes_two_traces(fault: str, tmp_path: Path) -> None:
    for name, engine in (("a", reference()), ("b", broken(fault))):
        write_trace(engine, IDS, tmp_path / name, steps=1)
    names_it(compare_traces(Trace(tmp_path / "a"), Trace(tmp_path / "b")), fault)


def test_no_fault_of_the_unwatched_path_passes_the_selftest(fault: str) -> None:
    text = (VECTORS / "runs" / "micro.json").read_text("utf-8")
    results = [*run_vectors(VECTORS, broken(fault).ops), *known_runs(broken(fault), text)]
    failed = {r.case: r.detail for r in results if r.verdict == "FAIL"}
    assert any(name.startswith("run of micro, unwatched") for name in failed)
    op = FAULTS[fault][2]
    if op in ("attention", "causal_conv"):
        assert op in failed


def test_a_cut_shows_what_a_stale_convolution_does() -> None:
    if engines()["host"]:
        pytest.skip(f"engine host: {engines()['host']}")
    bad = broken("a convolution stale for two rows")
    for schedule in ("4-3-1-2", "ragged"):
        card = gnomon.diff(reference(), bad, IDS, steps=1, schedules=[schedule]).first_divergence
        assert card is not None
        assert (card.tap, card.op, card.schedule) == ("blocks.2.delta.conv_out", "causal_conv", schedule)
        assert card.inputs_equal
    report = isolate(reference(), bad, IDS, 1, schedule="4-3-1-2")
    assert {r.op for r in report.records if r.type == "wrong_op"} == {"causal_conv"}


@pytest.mark.parametrize("schedule", ["whole", "rows", "4-3-1-2", "ragged"])
def test_no_schedule_parts_engines_that_agree(engine_name: str, schedule: str) -> None:
    report = gnomon.diff(reference(), gnomon.engine(engine_name, MODEL), IDS[:6], steps=1, schedules=[schedule])
    assert (report.verdict, different(report)) == ("identical", [])
    forms = [r.form for r in report.records if isinstance(r, Unwatched) and r.side == "observed"]
    assert forms == ["alone", "last", "batch", *(["cut"] if schedule == "whole" else [])]
    assert all(r.compared for r in report.records if isinstance(r, Unwatched))
    assert "watched and unwatched" in " ".join(report.text().split())


class WrongUnder(Engine[Any]):
    """A value of the logits is off by one bit in the steps that `when` picks: (rows, want, tap) -> bool"""

    def __init__(self, when: Any) -> None:
        super().__init__("wrong", MODEL, NumpyOps())
        self.when = when

    def step(self, rows: Rows, want: Want = "last", tap: Tap | None = None) -> F32:
        logits = super().step(rows, want, tap)
        if self.when(rows, want, tap):
            logits.view(np.uint32)[-1, 5] ^= 1
        return logits


@pytest.mark.parametrize(
    ("when", "forms"),
    [
        (lambda rows, want, tap: tap is None and want == "all", {"alone"}),
        (lambda rows, want, tap: want == "last" and len(rows.spans) == 1, {"last", "cut"}),
        (lambda rows, want, tap: len(rows.spans) > 1, {"batch"}),
        (lambda rows, want, tap: len(rows.ids) > 256, {"batch"}),
        (lambda rows, want, tap: tap is None and rows.spans[-1].state.length > 14, {"alone", "last", "batch", "cut"}),
    ],
    ids=["all rows, unwatched", "last row only", "several sequences", "more rows than a batcher takes", "decode only"],
)
def test_each_form_of_a_run_is_judged_by_itself(when: Any, forms: set[str]) -> None:
    report = gnomon.diff(reference(), WrongUnder(when), IDS, steps=2)
    assert {r.form for r in different(report)} == forms
    assert report.exit_code == 1


def test_an_engine_of_nothing_is_not_said_to_differ_from_itself() -> None:
    class Nothing(Engine[Any]):
        def step(self, rows: Rows, want: Want = "last", tap: Tap | None = None) -> F32:
            return super().step(rows, want, tap) * np.float32(0.0)

    report = gnomon.diff(reference(), Nothing("nothing", MODEL, NumpyOps()), IDS, steps=0)
    assert (report.exit_code, different(report)) == (1, [])


def test_the_believed_engine_is_not_believed_unwatched() -> None:
    report = gnomon.diff(WrongUnder(lambda rows, want, tap: tap is None), reference(), IDS, steps=1)
    assert [(r.side, r.form) for r in different(report)] == [("expected", "alone")]
    assert report.exit_code == 1


def test_a_fault_that_one_tap_hides_names_that_tap() -> None:
    """An engine whose last norm is wrong unless it is watched."""

    class Shy(Engine[Any]):
        def run(self, rows: Rows, want: Want, tap: Tap | None) -> F32:
            out = super().run(rows, want, tap)
            if tap is None or not tap.wants("blocks.1.ln2"):
                out = out * np.float32(0.5)
            return out

    (alone, *_) = different(gnomon.diff(reference(), Shy("shy", MODEL, NumpyOps()), IDS, steps=0))
    assert alone.narrowest == ("blocks.1.ln2",)
    assert alone.hidden_by == ("blocks.*.ln2",)


def test_the_command_line_takes_schedules_and_prints_the_verdict(tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(cli.app, ["diff", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1,2,3,4,5", "--steps", "1",
                         "--schedule", "whole,4-3-1-2,rows,ragged", "--json"])  # fmt: skip
    records = json.loads(done.stdout)["records"]
    assert {r["schedule"] for r in records if r["type"] == "tensor"} == {"whole", "4-3-1-2", "rows", "ragged"}
    trace = ["trace", "micro", "--ids", "1,2,3,4,5", "--schedule", "2-1", "-o", str(tmp_path / "t")]
    assert run(cli.app, trace).exit_code == 0
    assert Trace(tmp_path / "t").manifest.schedule == "2-1"


def test_a_schedule_runs_every_id_once() -> None:
    for schedule in ("whole", "rows", "ragged", "4-3-1-2", "7", "100-1"):
        assert [i for part in steps_of(IDS, schedule) for i in part] == IDS
    assert lengths("4-3-1-2", 14) == [4, 3, 1, 2, 4]
    for wrong in ("", "0", "4-", "fast", "1--2", "whole,,rows"):
        with pytest.raises(UsageError, match="schedule"):
            named(wrong)
