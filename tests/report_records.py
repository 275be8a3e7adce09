"""Records made by hand, and the words of the page that they give."""

from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.compare.record import Config, FirstDivergence, Input, Tensor
from gnomon.compare.report import Report
from gnomon.compare.verdict import measure
from report_page import Page

ONES = measure(np.ones(4, np.float32), "t")
CONFIG = Config({"engine": "a"}, {"engine": "b"}, (1, 2), 0, "gnomon diff x")


def equal(name: str = "t", seq: int = 0, **fields: Any) -> Tensor:
    made = Tensor(seq, "tap", 0, name, (0, 4), "x", (), "identical", "", ONES, ONES)
    return replace(made, **fields)


def page(report: Report) -> str:
    return Page(report.to_html()).words


def card(op: str, *inputs: Input) -> FirstDivergence:
    return FirstDivergence(0, 0, "t", (0, 1), None, op, inputs, "differs", "", None)
