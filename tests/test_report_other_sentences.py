"""Sentences of check-op, explain, bisect, isolation and selftest, each under the case that would make it false."""

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from broken_engines import IDS, MODEL, ReversedSum, reference
from gnomon import cli
from gnomon.compare.check_op import OpCheck, check_op
from gnomon.compare.diff import diff
from gnomon.compare.explain.result import Candidate, Explanation
from gnomon.compare.isolate import isolate, readable
from gnomon.compare.report import Report
from gnomon.compare.verdict import judge
from gnomon.reference.engine import Engine
from report_records import CONFIG, card, equal, page

# --- check-op, explain, bisect, isolation, selftest -------------------------------------------------------------------


def test_a_check_that_compared_nothing_has_not_passed() -> None:
    case = "rows=0,N=1,K=1,kind=normal,draw=0"
    found = check_op("linear", lambda x, w, b=None: np.zeros((0, 1), np.float32), case=case)
    assert (found.verdict, found.exit_code, found.values) == ("NOT RUN", 3, 0)
    assert "no value was compared in 1 case" in found.text()


@pytest.mark.parametrize(
    ("cases", "said"), [(1, "case 1 fails\n"), (2, "after 1 case that"), (3, "after 2 cases that")]
)
def test_no_check_counts_a_case_that_it_did_not_finish(cases: int, said: str) -> None:
    found = OpCheck("linear", "k", "FAIL", 0, cases, 0, {"normal": cases}, "K=1", "wrong", "gnomon check-op")
    assert said in found.text()


def test_an_explanation_agrees_in_number() -> None:
    one = Explanation("add", "not explained", (1,), 1, 1, (), (Candidate(("x",), 0, 1, 0, 1),), 1, 0.0, 9.0)
    assert "1 of 1 value differs, 1 variant tried" in one.text()
    assert "the 1 variant that comes nearest:" in one.text()
    none = replace(one, candidates=(), tried=0)
    assert none.text().endswith("no variant reproduces every byte")


def test_a_search_without_a_log_does_not_speak_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(verdict="found", ops=("linear",), trials=1, resumed=28)
    monkeypatch.setattr("gnomon.cli.bisect.bisect", lambda *_, **__: found)
    done = CliRunner().invoke(cli.app, ["bisect", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1"])
    assert done.stdout == "to blame: linear (1 run; 28 sets had been tried before)\n"


def test_a_state_array_is_named_by_what_wrote_it() -> None:
    report = isolate(reference(), reference(), IDS, 0)
    names = {t.name for t in report.tensors}
    assert "blocks.0.kv.k after kv_append" in names
    assert not [n for n in names if re.search(r"kv\.\d+\.kv", n)]
    assert (
        readable("delta_rule", "blocks.2.delta.o", ".1.rec.delta") == "blocks.2.rec.delta after delta_rule, sequence 1"
    )
    assert readable("split", "(split)", ".2") == "(split) part 2"
    assert "every result of every op that ran was compared" in page(report)


def test_selftest_shows_its_verdict_first_and_cases_where_asked_for() -> None:
    short, long = (CliRunner().invoke(cli.app, ["selftest", *words]) for words in ((), ("--verbose",)))
    assert re.fullmatch(r"numpy: \d+ PASS \([\d,]+ values compared\)\n", short.stdout)
    assert long.stdout.startswith(short.stdout)
    assert "rms_norm" in long.stdout


# --- grammar ----------------------------------------------------------------------------------------------------------


def test_no_count_of_one_has_a_plural() -> None:
    silent = Console(file=io.StringIO())
    one = judge(np.float32([1.0000001]), np.float32([1]), "t")
    differs = equal(verdict=one.verdict, observed=one.observed, expected=one.expected)
    shown = replace(card("add"), mismatch=one.mismatch)
    reports = [
        Report.of([CONFIG, differs, shown, one.histogram], 1),
        Report.of([replace(CONFIG, left_out=("a",), not_held=("b",), steps=1), equal()], 1),
        diff(reference(), Engine("broken", MODEL, ReversedSum("blocks.1.mlp.gate")), IDS[:1], steps=0),
    ]
    for report in reports:
        report.render(silent)
        for said in (report.text(verbose=True), page(report)):
            assert re.findall(r"(?<![\d.,\[/] )(?<![\d.,=|-])\b1 (?:[a-z]+s)\b(?! |:)", said) == []
            assert re.findall(r"\b1 (?:tensors|values|bytes|steps|kinds|records|places|variants)\b", said) == []
