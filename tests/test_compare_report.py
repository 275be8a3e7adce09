"""The forms of a report: they are made of one list of records, so they agree; totals that add up."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from broken_engines import MODEL, reference
from gnomon.compare.diff import diff
from gnomon.compare.record import Problem, Summary, Tensor, to_dict
from gnomon.compare.report import Report
from gnomon.compare.verdict import measure
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps


class OneUlp(NumpyOps):
    def silu(self, at, x):
        y = super().silu(at, x)
        y[0, :7] = np.nextafter(y[0, :7], np.float32(np.inf))
        return y


@pytest.fixture(scope="module")
def report():
    shadow = Engine("shadow <b>[red]", MODEL, OneUlp())  # a name that neither markup nor a shell may read
    return diff(reference(), shadow, [3, 1, 4, 1, 5], steps=1)


def test_json_says_what_the_report_says(report):
    whole = json.loads(json.dumps(report.to_json()))
    assert (whole["verdict"], whole["exit_code"]) == (report.verdict, report.exit_code)
    lines = [json.loads(line) for line in report.to_jsonl().splitlines()]
    assert lines == whole["records"]
    assert [lines[0]["type"], *(line["type"] for line in lines[-3:])] == [
        "config",
        "first_divergence",
        "histogram",
        "summary",
    ]
    assert {line["type"] for line in lines} <= {
        "config",
        "tensor",
        "token",
        "problem",
        "first_divergence",
        "histogram",
        "unwatched",
        "summary",
    }


def test_the_card_holds_both_values_in_all_forms(report):
    card = next(r for r in report.to_json()["records"] if r["type"] == "first_divergence")
    assert (card["tap"], card["op"], card["step"], card["inputs_equal"]) == (
        "blocks.0.mlp.act",
        "swiglu",
        0,
        True,
    )
    assert card["mismatch"]["count"] >= 5
    first = card["mismatch"]["first"]
    assert len(first) == 5
    text = report.text()
    for form in ("decimal", "hex", "bits", "strip"):
        assert first[0]["observed"][form] in text
        assert first[0]["expected"][form] in text
    assert f"{first[0]['ulp']:+d} ulp" in text


def test_the_totals_add_up(report):
    lines = [json.loads(line) for line in report.to_jsonl().splitlines()]
    tensors = [line for line in lines if line["type"] == "tensor"]
    summary = lines[-1]
    assert [t["seq"] for t in tensors] == list(range(len(tensors)))
    assert summary["tensors"] == summary["compared"] == len(tensors) == sum(summary["verdicts"].values())
    assert summary["identical"] == sum(t["verdict"] == "identical" for t in tensors)
    assert summary["values"] == sum(int(np.prod(t["expected"]["shape"])) for t in tensors)
    assert summary["bytes"] == 4 * summary["values"]
    assert summary["live"] == sum(min(t["expected"]["live"], t["observed"]["live"]) for t in tensors)


def test_totals_that_do_not_add_up_are_refused(report):
    fields = {k: v for k, v in to_dict(report.summary).items() if k != "type"}
    for wrong in ({"tensors": 1}, {"exit_code": 0}, {"verdict": "identical"}):
        with pytest.raises(AssertionError, match="add up"):
            Summary(**{**fields, **wrong})


def test_the_table_counts_every_tensor_once(report):
    table = report.text(verbose=True).splitlines()
    start = next(i for i, line in enumerate(table) if line.startswith("tensor "))
    rows = [line.split() for line in table[start + 1 : -1]]
    assert sum(int(row[-5]) for row in rows) == report.summary.tensors
    assert sum(int(row[-4]) for row in rows) == report.summary.identical
    assert sum(int(row[-3].replace(",", "")) for row in rows) == report.summary.values
    assert [row[1] for row in rows if row[0] == "blocks.*.mlp.gate"] != ["not-run"]


def test_text_is_what_render_prints_without_colour(report):
    out = io.StringIO()
    report.render(Console(file=out, width=120, force_terminal=True, color_system="truecolor"))
    assert "\x1b[" in out.getvalue()
    assert "\x1b[" not in report.text()
    assert report.text().count("\n") == out.getvalue().count("\n")
    assert "engine=shadow <b>[red]" in report.text()
    assert "--engine 'shadow <b>[red]'" in report.text()


def tensor(name, verdict, side="both"):
    m = measure(np.ones(4, np.float32), name)
    observed, expected = (m if side in ("both", s) else None for s in ("observed", "expected"))
    return Tensor(0, "tap", 0, name, (0, 4), "add", (), verdict, "", observed, expected)


@pytest.mark.parametrize(
    ("records", "verdict", "exit_code"),
    [
        ([], "not-run", 3),
        ([tensor("a", "missing", "expected")], "not-run", 3),
        ([tensor("a", "extra", "observed")], "not-run", 3),
        ([tensor("a", "identical")], "identical", 0),
        ([tensor("a", "identical"), tensor("b", "missing", "expected")], "missing", 3),
        ([tensor("a", "identical"), tensor("b", "ulp<=2")], "ulp<=2", 1),
        ([tensor("a", "identical"), Problem(0, "observed", "nonfinite", "no")], "nonfinite", 1),
    ],
)
def test_a_report_that_compared_nothing_is_no_pass(records, verdict, exit_code):
    report = Report.of(records)
    assert (report.verdict, report.exit_code) == (verdict, exit_code)
    assert report.text().startswith(verdict)
    assert json.loads(report.to_jsonl().splitlines()[-1])["exit_code"] == exit_code


def test_live_values_are_those_of_the_poorer_side():
    full, poor = measure(np.ones(4, np.float32), "t"), measure(np.float32([1, 0, 2, 3]), "t")
    for observed, expected in ((full, poor), (poor, full)):
        pair = Tensor(0, "tap", 0, "t", (0, 4), "add", (), "differs", "", observed, expected)
        assert Report.of([pair]).summary.live == 3
        assert "75.0 %" in Report.of([pair]).text().splitlines()[-1]


def test_a_long_list_of_findings_is_cut_and_counted():
    records = [tensor(f"t{i}", "missing", "expected") for i in range(14)]
    assert "and 4 more" in Report.of(records).text()
