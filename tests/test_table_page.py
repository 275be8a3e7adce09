"""What docs/check-op.md says that a method of an op table is given, and its attention, which runs as it stands."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

import gnomon
from gnomon.compare.isolate import OPS
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops import attention
from gnomon.reference.protocol import Ops

PAGE = (Path(__file__).parent.parent / "docs" / "check-op.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("<!-- signatures -->")[2].partition("<!-- end -->")[0]
CLASS = PAGE.partition("So attention with your own scores is\n\n```python\n")[2].partition("```")[0]


def test_the_page_names_every_argument_of_every_op_and_no_other() -> None:
    said = {
        name: arguments.split(", ")
        for names, arguments in re.findall(r"^\| (`.+`) \| `(.+)` \|$", TABLE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert said == {op: list(inspect.signature(getattr(Ops, op)).parameters)[1:] for op in OPS}


def test_attention_with_own_scores_gives_the_bytes_of_the_contract() -> None:
    def my_scores(q: Any, k: Any, pos: Any, scale: float, window: int | None) -> Any:
        return attention.scores(q, k, attention.seen(pos, len(k), window), np.float32(scale))

    given: dict[str, Any] = {"NumpyOps": NumpyOps, "my_scores": my_scores}
    exec(CLASS, given)
    model = micro()
    report = gnomon.diff(gnomon.engine("numpy", model), Engine("own", model, given["MyOps"]()), [3, 1, 2, 9], 2)
    assert report.verdict == "identical", report.text()
