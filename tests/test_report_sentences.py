"""Every sentence of a report is a verdict: each is tried under the case that would make it false."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broken_engines import IDS, MODEL, ReversedSum, ShownOtherwise, reference
from gnomon.compare.diff import diff
from gnomon.compare.record import Input, Problem, Unwatched
from gnomon.compare.render import table_rows
from gnomon.compare.report import Report
from gnomon.compare.sentences import STATEFUL, blame, left_out, outcome
from gnomon.compare.trace_compare import compare_dump, compare_traces
from gnomon.compare.trace_import import Dump
from gnomon.compare.trace_map import read_map
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from report_records import CONFIG, card, equal, page

NOTHING = "Nothing was left out"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sentences") / "trace"
    write_trace(reference(), IDS, out)
    return out


UNWATCHED = Unwatched("observed", "b", "alone", "whole", 4, 5, 0, "identical")


# --- "Nothing was left out" -------------------------------------------------------------------------------------------


def test_nothing_was_left_out_is_said_where_it_is_true() -> None:
    report = Report.of([CONFIG, equal(), UNWATCHED], 1)
    assert NOTHING in page(report)
    assert left_out(report.records) == []


def test_no_report_of_watched_steps_alone_says_that_nothing_was_left_out() -> None:
    report = Report.of([CONFIG, equal()], 1)
    assert NOTHING not in page(report)
    assert "No step ran without a tap" in page(report).replace("Not-run: no", "No")
    assert "watched and unwatched" not in report.text()
    assert "watched and unwatched" in Report.of([CONFIG, equal(), UNWATCHED], 1).text()


def test_no_difference_that_nobody_sees_is_called_identical() -> None:
    hidden = replace(UNWATCHED, verdict="differs", hidden_by=("blocks.*.x",), tap="blocks.0.z", op="attention")
    report = Report.of([CONFIG, equal(), hidden], 1)
    for said in (page(report), " ".join(report.text().split())):
        assert "differs only when nobody looks" in said.replace("Differs", "differs")
        assert "made by attention from inputs of which not all were seen equal" in said
    assert report.exit_code == 1
    shown = Report.of([CONFIG, equal(), replace(hidden, hidden_by=(), inputs_equal=True)], 1)
    assert "nobody looks" not in page(shown) + shown.text()
    assert "Watching does not hide it" in page(shown)


def test_no_tensor_that_a_dump_lacks_goes_unmentioned(trace: Path, tmp_path: Path) -> None:
    opened = Trace(trace)
    taps = [r for r in opened.records if r.kind == "tap"]
    for at, record in enumerate(taps[:20]):
        np.save(tmp_path / f"{record.name if at < 10 else f'foreign.{at}'}.npy", np.asarray(opened.array(record)))
    map_file = tmp_path / "map.txt"
    names = {p.stem for p in tmp_path.glob("*.npy")}
    map_file.write_text("".join(f"{n} = {'-' if n.startswith('foreign') else n}\n" for n in sorted(names)), "utf-8")
    report = compare_dump(opened, Dump(tmp_path, opened, read_map(str(map_file))), {"dump": "d"})
    assert report.verdict == "identical"
    rest = len({(r.kind, r.name) for r in opened.records}) - 10
    said = page(report)
    assert NOTHING not in said
    assert "Left out: 10 tensors of the observed side have no partner by the map: foreign.10, foreign.11" in said
    assert f"Left out: {rest} tensors of the expected side were not compared with anything: {taps[10].name}," in said
    assert taps[19].name in said.partition("were not compared")[2]
    assert "left out: 10 tensors of the observed side" in report.text().replace("\n", " ")
    assert "blocks.1.kv.v (state)" in report.records[0].not_held  # type: ignore[union-attr]


def test_no_tensor_that_a_map_of_traces_drops_goes_unmentioned(trace: Path, tmp_path: Path) -> None:
    map_file = tmp_path / "map.txt"
    map_file.write_text("blocks.{i}.mlp.up = -\n", "utf-8")
    report = compare_traces(Trace(trace), Trace(trace), names=read_map(str(map_file)))
    assert "2 tensors of the observed side have no partner by the map: blocks.0.mlp.up, blocks.1.mlp.up" in page(report)


@pytest.mark.parametrize(
    ("records", "steps", "said"),
    [
        ([equal(), equal("b", 1, verdict="missing", observed=None)], 1, "missing step 0, b"),
        ([equal(), equal("b", 1, verdict="extra", expected=None)], 1, "extra step 0, b"),
        ([replace(CONFIG, steps=2), equal()], 1, "Not-run: 2 of 3 steps did not finish on both sides"),
        (
            [replace(CONFIG, steps=2), *(equal(kind="state", step=s) for s in (0, 2)), equal(step=1)],
            3,
            "The state was exported and compared after steps 0 and 2 only",
        ),
        ([], 0, "Nothing was compared"),
    ],
)
def test_nothing_was_left_out_is_not_said_where_something_was(records: list[Any], steps: int, said: str) -> None:
    words = page(Report.of(records, steps))
    assert NOTHING not in words
    assert said in words


def test_a_comparison_by_digests_says_that_no_tensor_was_read(trace: Path) -> None:
    assert "read=records only, no tensor" in compare_traces(Trace(trace), Trace(trace), digests=True).text()
    assert "read=records only" not in compare_traces(Trace(trace), Trace(trace)).text()


# --- what a map leaves out, what a dump does not know, what no command repeats ---------------------------------------


class BadSwiglu(NumpyOps):
    def swiglu(self, at: str, gate: Any, up: Any) -> Any:
        return super().swiglu(at, gate, up) * np.float32(0.5)


def test_no_tensor_that_a_map_leaves_out_is_missing_or_to_blame(trace: Path, tmp_path: Path) -> None:
    """Both traces have the gate; the map says not to look at it."""
    write_trace(Engine("bad", MODEL, BadSwiglu()), IDS, tmp_path / "bad", unwatched=False)
    (tmp_path / "map.txt").write_text("blocks.{i}.mlp.gate = -\n", "utf-8")
    names = read_map(str(tmp_path / "map.txt"))
    report = compare_traces(Trace(trace), Trace(tmp_path / "bad"), names=names)
    said = " ".join(report.text().split())
    assert report.exit_code == 1
    assert not [r for r in report.tensors if r.verdict == "missing"]
    assert "blocks.0.mlp.gate was not seen: the difference may be older" in said
    assert "older" not in said.replace("may be older", "")


def test_no_weight_of_a_dump_is_called_identical(trace: Path, tmp_path: Path) -> None:
    """A dump is of weights that nobody has seen: an op that read another one is not to blame."""
    opened = Trace(trace)
    arrays = {r.name: np.array(opened.array(r)) for r in opened.records if r.kind == "tap"}
    arrays["blocks.0.attn.q"] = arrays["blocks.0.attn.q"] + np.float32(1.0)
    np.savez(tmp_path / "d.npz", **arrays)
    report = compare_dump(opened, Dump(tmp_path / "d.npz", opened, None), {"dump": "d"})
    said = " ".join(report.text().split())
    assert "blocks.0.attn.q.weight: not-run (unseen)" in said
    assert "this op made it" not in said
    assert "identical (weight)" not in said


def test_no_op_is_blamed_for_a_tensor_that_a_dump_lacks(trace: Path, tmp_path: Path) -> None:
    opened = Trace(trace)
    (embed,) = (r for r in opened.records if r.name == "embed")
    np.savez(tmp_path / "d.npz", embed=opened.array(embed))
    report = compare_dump(opened, Dump(tmp_path / "d.npz", opened, None), {"dump": "d"})
    said = " ".join(report.text().split())
    assert "missing" in said
    assert "this op made it" not in said
    assert "it could not be compared, so no op is blamed" in said


def test_no_command_is_printed_that_would_compare_something_else() -> None:
    other = reference()
    other.ops.silu = lambda at, x: x
    report = diff(reference(), other, IDS, steps=0)
    assert report.exit_code == 1
    assert "# no command line does this again: numpy has silu replaced" in " ".join(report.text().split())
    forms = diff(reference(), Engine("numpy", MODEL, NumpyOps("bf16")), IDS, steps=0)
    assert "# no command line does this again: the engines differ in arm" in " ".join(forms.text().split())
    assert "gnomon diff" in diff(reference(), reference(), IDS, steps=0).text()


# --- "this op made it", "No values to show" ---------------------------------------------------------------------------


def test_no_op_is_blamed_for_the_state_that_it_reads() -> None:
    class Damages(NumpyOps):
        """Appends rightly, and changes in passing what position 0 holds of the values in layer 0."""

        def kv_append(self, at, k, v, rows, i, kv_heads):  # type: ignore[no-untyped-def]
            super().kv_append(at, k, v, rows, i, kv_heads)
            state, end = rows.spans[0].state, rows.spans[0].end
            if i == 0 and len(rows.ids) == 1:
                arrays = {f"kv.{name}": array.copy() for name, array in state.cache(i).rows(0, end).items()}
                arrays["kv.v"][end - 3] += np.float32(1)
                state.pending[i] = self.load_cache(arrays)

    found = diff(reference(), Engine("damages", MODEL, Damages()), IDS[:3], steps=1).first_divergence
    assert found is not None
    assert (found.tap, found.op, found.inputs_equal) == ("blocks.0.attn.z", "mix", True)
    carried = "all inputs are identical: this op made it, or the state that it carries from step to step"
    assert blame(found) == carried
    same = Input("x", "tap", "identical")
    assert blame(card("linear", same)) == "all inputs are identical: this op made it"
    assert {op: blame(card(op, same)) for op in STATEFUL} == dict.fromkeys(STATEFUL, carried)


def test_an_input_that_was_not_seen_is_not_called_different() -> None:
    same, unseen, other = Input("x", "tap", "identical"), Input("y", "unseen", "not-run"), Input("z", "tap", "differs")
    assert blame(card("linear", same, unseen)) == "y was not seen: the difference may be older"
    assert blame(card("linear", unseen, other)) == "z differs already: the difference is older"
    words = page(Report.of([CONFIG, equal(verdict="differs"), card("linear", same, unseen)], 1))
    assert "Y was not seen" in words or "y was not seen" in words
    assert NOTHING not in words


def test_values_that_came_out_otherwise_are_not_called_digests() -> None:
    engine = ShownOtherwise(lambda name, value, pos: [(name, value + (engine.calls == 1), pos)])
    report = diff(reference(), engine, IDS, steps=0)
    for said in (page(report), report.text()):
        assert "it came out otherwise when the same tokens ran again" in said
        assert "known by digest only." not in said
    assert "No values to show: known by digest only." in page(Report.of([equal(verdict="differs"), card("add")], 1))


def test_no_frame_is_promised_that_is_not_drawn() -> None:
    tensors = [equal(f"blocks.{i}.t", i) for i in range(130)]
    tensors[129] = replace(tensors[129], verdict="differs")
    first = replace(card("add"), seq=129, tap="blocks.129.t")
    assert "framed" not in page(Report.of([*tensors, first], 1))
    near = replace(tensors[0], verdict="differs")
    assert "framed" in page(Report.of([near, *tensors[1:], replace(first, seq=0, tap="blocks.0.t")], 1))


# --- the first line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "nothing was compared"),
        ([equal()], "the one tensor has the same bytes"),
        ([equal(), equal("b", 1)], "all 2 tensors have the same bytes"),
        ([equal(), equal("b", 1, verdict="differs")], "1 of 2 tensors differs"),
        ([equal(), equal("b", 1, verdict="dtype")], "the one tensor has the same bytes, 1 more could not be compared"),
        (
            [equal(), Problem(0, "observed", "nonfinite", "no")],
            "the one tensor has the same bytes, but there are other findings",
        ),
    ],
)
def test_the_first_line_counts_what_it_speaks_of(records: list[Any], said: str) -> None:
    report = Report.of(records)
    assert outcome(report.summary) == said
    assert report.text().splitlines()[0].startswith(f"{report.verdict}: {said}")


def test_an_equal_run_shows_its_verdict_and_no_list_of_equal_things() -> None:
    report = diff(reference(), reference(), IDS, steps=0)
    lines = report.text().splitlines()
    assert lines[0].startswith("identical: all 48 tensors have the same bytes")
    assert [line for line in lines[1:] if "identical" in line] == []
    assert sum("identical" in line for line in report.text(verbose=True).splitlines()) == 2 + len(
        table_rows(report.records)
    )


def test_equal_kinds_are_counted_where_others_differ() -> None:
    report = diff(reference(), Engine("broken", MODEL, ReversedSum("blocks.1.mlp.gate")), IDS, steps=0)
    text = report.text()
    assert "blocks.*.attn.q " not in text
    same = sum(row.verdict == "identical" for row in table_rows(report.records))
    assert f"{same} other kinds of tensors are identical in all blocks and steps" in text
    assert "blocks.*.attn.q " in report.text(verbose=True)


def test_how_an_engine_was_built_is_shown_where_asked_for_or_where_it_differs() -> None:
    long = "-march=native -O3 -ffp-contract=off"
    one = replace(CONFIG, observed={"engine": "b", "flags": long})
    assert long not in Report.of([one, equal()], 1).text()
    assert long in Report.of([one, equal()], 1).text(verbose=True)
    assert long in page(Report.of([one, equal()], 1))
    assert long in Report.of([one, equal()], 1).to_jsonl()
    both = replace(one, expected={"engine": "a", "flags": "-O2"})
    assert long in Report.of([both, equal()], 1).text()
