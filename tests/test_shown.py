"""What an object shows where its name is typed: a few lines, and HTML in which nothing is left unescaped."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.models import micro

EVIL = "<script>alert(1)</script>&\"'"


def made() -> dict[str, Any]:
    """Each kind of object, with names that nobody should put into a page."""
    model = dataclasses.replace(micro(), name=EVIL)
    reference, other = (gnomon.engine("numpy", model) for _ in range(2))
    plain = other.ops.silu
    other.ops.silu = lambda at, x: plain(at, x + np.float32(1))  # type: ignore[method-assign]
    other.name = EVIL
    state = other.forward(list(range(40)))[1]
    other.fork(state)
    x = np.linspace(-1, 1, 600, dtype=np.float32).reshape(2, 300)
    report = gnomon.diff(reference, other, [1, 2, 3], 1)
    return {
        "model": model,
        "engine": other,
        "state": state,
        "report": report,
        "equal report": gnomon.diff(reference, gnomon.engine("numpy", model), [1, 2, 3], 1),
        "explanation": gnomon.explain("silu", {"x": x}, x * np.float32(0.7), name=EVIL),
        "check": gnomon.check_op("silu", lambda x: x, kernel_name=EVIL),
        "passed check": gnomon.check_op("add", lambda x, y: x + y, runs=1, kernel_name=EVIL),
        "generation": gnomon.generate(other, [1, 2], 3),
    }


OBJECTS = made()


@pytest.mark.parametrize("kind", OBJECTS)
def test_no_object_shows_more_than_a_few_lines(kind: str) -> None:
    shown = repr(OBJECTS[kind])
    assert len(shown.splitlines()) <= 14, shown
    assert all(len(line) <= 220 for line in shown.splitlines()), shown
    assert "object at 0x" not in shown


class Tags(HTMLParser):
    """The tags of a page, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)


@pytest.mark.parametrize("kind", [kind for kind in OBJECTS if kind != "generation"])
def test_no_name_becomes_markup_in_a_notebook(kind: str) -> None:
    page = OBJECTS[kind]._repr_html_()
    assert "script" not in Tags(page).seen
    assert EVIL not in page
    if kind not in ("equal report", "passed check"):
        assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("model", ("llama", "of width 40", "97")),
        ("state", ("State of 40 positions", "0, 1, 2, 3, 4, 5, 6, 7, ... (40 in all)", "at 40")),
        ("report", ("differs: ", "mlp.act in step 0, made by swiglu", "no command line does this again")),
        ("equal report", ("identical: ",)),
        ("check", ("FAIL silu", "failing case: ")),
    ],
)
def test_what_is_shown_says_what_it_is(kind: str, words: tuple[str, ...]) -> None:
    for word in words:
        assert word in repr(OBJECTS[kind])


def test_no_weight_is_read_to_show_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a large model takes seconds."""
    model = dataclasses.replace(micro(), name="another")
    monkeypatch.setattr("gnomon.reference.model.digest", lambda weights: pytest.fail("read every weight"))
    assert "another" in repr(model)
    assert "another" in repr(gnomon.engine("numpy", model))


def test_a_check_in_a_notebook_prints_what_can_be_typed_there() -> None:
    def kernel(x: Any, w: Any) -> Any:
        return x[:, :1] * w[None, :, 0, 0]

    kernel.__module__, kernel.__qualname__ = "__main__", "kernel"
    found = gnomon.check_op("linear", kernel, weights="Q8_0")
    again = eval(found.replay, {"gnomon": gnomon, "kernel": kernel})
    assert (again.verdict, again.case, again.detail) == ("FAIL", found.case, found.detail)


def test_explain_is_public() -> None:
    assert "explain" in gnomon.__all__
    page = Path(__file__).parent.parent / "docs" / "explain.md"
    assert "gnomon.explain(" in page.read_text(encoding="utf-8")
