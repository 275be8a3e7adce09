"""The HTML form of a report: one file, no network, no script, all that the records say, everything escaped."""

import re
from itertools import pairwise

import numpy as np
import pytest

from broken_engines import IDS, MODEL, ReversedSum, reference
from gnomon.compare import pictures
from gnomon.compare.diff import diff
from gnomon.compare.histogram import Histogram
from gnomon.compare.html import MEANINGS
from gnomon.compare.isolate import isolate
from gnomon.compare.record import Config, Problem, Tensor, Token
from gnomon.compare.report import Report
from gnomon.compare.verdict import WORDS, judge, measure
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from report_page import HOSTILE, Page


@pytest.fixture(scope="module")
def report() -> Report:
    return diff(reference(), Engine(HOSTILE, MODEL, ReversedSum("blocks.1.mlp.gate")), IDS, steps=1)


def one(name: str, observed: object, expected: object) -> Report:
    """A report of one tensor."""
    found = judge(None if observed is None else np.asarray(observed), np.asarray(expected), name)
    tensor = Tensor(0, "tap", 0, name, (0, 1), "op", (), found.verdict, found.detail, found.observed, found.expected)
    return Report.of([tensor, *([found.histogram] if found.histogram else [])], 1)


@pytest.mark.parametrize("form", ["page", "notebook"])
def test_nothing_is_fetched_run_or_left_open(report: Report, form: str) -> None:
    source = report.to_html() if form == "page" else report._repr_html_()
    page = Page(source)
    assert {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "embed", "form", "base"} == set()
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {n for n in names if n.startswith("on")} | names & {"src", "srcset", "style", "id", "xlink:href"}
    links = [attributes["href"] for _, attributes in page.tags if "href" in attributes]
    assert links == (["data:,"] if form == "page" else [])
    assert re.findall(r"url\(|@import|https?:|//", page.style) == []
    assert ("default-src 'none'" in source) == (form == "page")


@pytest.mark.parametrize("form", ["page", "notebook"])
def test_a_hostile_name_stays_text(report: Report, form: str) -> None:
    page = Page(report.to_html() if form == "page" else report._repr_html_())
    assert page.text.count(HOSTILE) == (3 if form == "page" else 2)  # fingerprint, settings; a page has a title
    assert "alert" not in page.style
    assert report.summary.tensors > 0


def test_the_notebook_shows_the_body_of_the_page(report: Report) -> None:
    assert report._repr_html_().strip() in report.to_html()


def outer_selectors(style: str) -> list[str]:
    """Selectors of the rules that stand in no other rule; media queries around them do not count."""
    found: list[str] = []
    stack: list[str] = []
    text = ""
    for sign in style:
        if sign == "{":
            if all(block.startswith("@") for block in stack) and not text.strip().startswith("@"):
                found += [selector.strip() for selector in text.split(",")]
            stack.append(text.strip())
        elif sign == "}":
            stack.pop()
        text = "" if sign in "{};" else text + sign
    assert stack == []
    return found


def test_no_style_leaves_the_report(report: Report) -> None:
    selectors = outer_selectors(Page(report._repr_html_()).style)
    assert len(selectors) >= 3
    assert [s for s in selectors if not re.match(r"\.gnomon-report\b", s)] == []


def test_the_page_says_what_the_records_say(report: Report) -> None:
    words, card = Page(report.to_html()).words, report.first_divergence
    assert card is not None
    assert card.mismatch is not None
    place = card.mismatch.first[0]
    for number in (place.observed, place.expected):
        for form in (number.decimal, number.hex, number.bits):
            assert form in words
    told = [card.tap, f"Made by {card.op} in step 0", "All inputs are identical: this op made it.",
            place.distance, card.mismatch.total(), *(p.observed.bits for p in card.mismatch.worst),
            f"{report.summary.tensors - report.summary.identical} of {report.summary.tensors} tensors differ",
            card.mismatch.command, MODEL.digest, "Nothing was left out", "1 histogram",
            f"Made of {len(report.records)} records"]  # fmt: skip
    assert [t for t in told if t not in words] == []


def test_the_heat_map_has_every_tap_and_frames_the_first(report: Report) -> None:
    titles = re.findall(r"<title>(blocks\.[^<]*|embed[^<]*|ln_final[^<]*|logits[^<]*)</title>", report._repr_html_())
    kinds = {(t.name, t.kind) for t in report.tensors}
    assert len(titles) == len(kinds)
    framed = "blocks.1.mlp.gate: differs, 2 of 2, first at step 0; the first divergence"
    assert [t for t in titles if "the first divergence" in t] == [framed]
    assert "blocks.1.mlp.up: identical" in titles
    assert report._repr_html_().count("g-frame") == 2  # its rule and one frame


def test_taps_of_unlike_layers_keep_their_order() -> None:
    m = measure(np.ones(4, np.float32), "t")
    names = ["blocks.0.ln1", "blocks.0.delta.q", "blocks.0.resid", "blocks.1.ln1", "blocks.1.attn.q", "blocks.1.resid"]
    tensors = [Tensor(i, "tap", 0, n, (0, 4), "x", (), "identical", "", m, m) for i, n in enumerate(names)]
    labels = re.findall(r"rotate\(-90\)[^>]*>([^<]+)<", pictures.heat_map(tensors, None))
    assert labels == ["ln1", "attn.q", "delta.q", "resid"]


def test_isolated_ops_are_listed_with_their_bits() -> None:
    class Broken(NumpyOps):
        def silu(self, at, x):  # type: ignore[no-untyped-def]
            return np.nextafter(super().silu(at, x), np.float32(np.inf))

    found = isolate(reference(), Engine("broken", MODEL, Broken()), IDS[:3], 0)
    page = Page(found.to_html())
    assert "Ops that are wrong by themselves" in page.text
    wrong = next(r for r in found.records if r.type == "wrong_op")
    assert wrong.op == "silu"
    assert f"ulp<=1 at {wrong.places} place" in page.words
    assert wrong.mismatch.worst[0].observed.bits in page.words


@pytest.mark.parametrize("word", WORDS)
def test_every_verdict_has_a_letter_a_meaning_and_a_page(word: str) -> None:
    verdict = word.replace("k", "3") if word == "ulp<=k" else word
    m = measure(np.ones(4, np.float32), "t")
    page = Page(Report.of([Tensor(0, "tap", 0, "blocks.0.t", (0, 4), "x", (), verdict, "why", m, m)], 1).to_html())
    letter, kind = pictures.LOOKS[word]
    assert MEANINGS[word] in page.words
    assert f"g-is-{kind}" in str(page.tags)
    assert letter in page.text
    assert len({letter for letter, _ in pictures.LOOKS.values()}) == len(WORDS)
    assert ("Nothing was left out" in page.text) == (word not in ("extra", "missing", "dtype", "shape", "not-run"))


def test_what_was_not_compared_is_listed_and_counted() -> None:
    m = measure(np.ones(4, np.float32), "t")
    missing = [Tensor(i, "tap", 0, f"t{i}", (0, 4), "x", (), "missing", "", None, m) for i in range(50)]
    config = Config({"engine": "a"}, {"engine": "b"}, (1, 2), 4, "gnomon diff x")
    problem = Problem(1, "observed", "nonfinite", HOSTILE)
    words = Page(Report.of([config, *missing, problem, Token(1, 3, 7, 8)], 2).to_html()).words
    assert "Nothing was compared." in words
    assert "t39 " in words.partition("All tensors")[0].partition("What was not compared")[2]
    assert "and 10 more" in words
    assert "Not-run: 3 of 5 steps did not finish on both sides" in words
    assert f"nonfinite step 1, observed: {HOSTILE}" in words
    assert "position 3: the greedy choice is 7, expected 8" in words


def test_an_empty_report_is_a_page() -> None:
    words = Page(Report.of([]).to_html()).words
    assert "not-run" in words
    assert "Nothing was compared." in words


BITS = {  # observed, expected -> bits that differ, 0 the lowest
    "f32 lowest bit": (np.float32(1.0), np.nextafter(np.float32(1.0), np.float32(2.0)), [0]),
    "f32 sign": (np.float32(-2.5), np.float32(2.5), [31]),
    "f64 sign and lowest bit": (np.float64(-1.0), np.nextafter(1.0, 2.0), [63, 0]),
    "f16 exponent": (np.float16(1.0), np.float16(2.0), [14, 13, 12, 11, 10]),
    "i8 without fields": (np.int8(1), np.int8(3), [1]),
}


@pytest.mark.parametrize("case", BITS)
def test_the_bit_strip_marks_the_bits_that_differ(case: str) -> None:
    observed, expected, off = BITS[case]
    found = judge(np.array([observed]), np.array([expected]), "t")
    assert found.mismatch is not None
    place = found.mismatch.first[0]
    strip = pictures.bit_strip(place.observed.strip, place.expected.strip)
    assert f"{len(off)} of {8 * observed.itemsize} bits differ: {', '.join(map(str, off))} (0 is the lowest)" in strip
    assert strip.count("▲") == len(off)
    assert strip.count("<rect") == 2 * 8 * observed.itemsize
    assert strip.count('class="g-bit-off"') == 4 * len(off)
    assert ("exponent" in strip) == (case[0] == "f")


def steps_from_one(*ulps: int) -> np.ndarray:  # type: ignore[type-arg]
    return (np.float32(1.0).view(np.uint32) + np.array(ulps, np.int64)).astype(np.uint32).view(np.float32)


def test_a_histogram_counts_every_distance_once() -> None:
    away = [0, 1, 1, -1, 2, 3, 4, 5, -8, -9, 1024, 1025, -70000]
    expected = np.concatenate([np.ones(len(away), np.float32), np.float32([0.0, 1.0, np.inf])])
    observed = np.concatenate([steps_from_one(*away), np.float32([-0.0, np.nan, np.inf])])
    h = judge(observed, expected, "t").histogram
    assert h is not None
    assert (h.values, h.equal, h.zero_sign, h.nonfinite) == (16, 1, 1, 2)
    assert h.above == (2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1)
    assert h.below == (1, 0, 0, 1, 1, *(0,) * 12, 1)  # 1, 8, 9; 70000 lies between 2^16 and 2^17
    titles = re.findall("<title>([^<]+)</title>", pictures.histogram(h))
    assert "3 to 4 ulp above expected: 2 of 16 values" in titles
    assert "more than 1,024 ulp below expected: 1 of 16 values" in titles
    assert "NaN or infinity: 2 of 16 values" in titles
    assert "+0.0 against -0.0: 1 of 16 values" in titles
    assert sum(int(re.search(r": ([\d,]+) of", t)[1].replace(",", "")) for t in titles) == 16  # type: ignore[index]


def test_a_histogram_that_loses_a_value_is_refused() -> None:
    with pytest.raises(AssertionError, match="every value once"):
        Histogram("t", "f32", 4, 1, 0, 0, (1,), (1,))


def test_f64_distances_beyond_every_power_are_counted() -> None:
    h = judge(np.float64([5e-324, 1.0]), np.float64([1e308, 1.0]), "t").histogram
    assert h is not None
    assert (h.equal, sum(h.below), len(h.below), h.above) == (1, 1, 64, ())


def test_a_huge_report_stays_under_two_megabytes() -> None:
    m = measure(np.ones(4, np.float32), "t")
    verdicts = ["identical", "differs", "missing"]
    names = [f"blocks.{i}.attn.some_long_name_{j}" for i in range(160) for j in range(50)]
    names += [f"foreign.module.number.{i}" for i in range(5000)]
    tensors = [Tensor(i, "tap", 0, n, (0, 4), "x", (), verdicts[i % 3], "detail", m, m) for i, n in enumerate(names)]
    config = Config({"engine": "a"}, {"engine": "b"}, tuple(range(8192)), 0, "gnomon compare " + "x" * 50000)
    page = Report.of([config, *tensors], 1).to_html()
    assert len(page.encode()) < 2_000_000
    words = Page(page).words
    for cut in ("and 32 more layers", "and 4744 more", "and 8152 more", "more kinds"):
        assert cut in words


THEMES = {"light": 0, "dark": 1}
PAIRS = [("ink", "paper"), ("ink", "sheet"), ("quiet", "paper"), ("quiet", "sheet"), ("ink", "soft"), ("ink", "line"),
         *((f"on-{kind}", kind) for kind in ("same", "near", "far", "dead", "nonfinite", "apart")),
         ("far", "sheet")]  # fmt: skip


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_text_can_be_read_on_its_ground(theme: str, pair: tuple[str, str]) -> None:
    """WCAG 2.2: a contrast of at least 4.5 for text."""
    style = Page(one("t", [1.0], [1.0]).to_html()).style
    blocks = re.findall(r"\{((?:\s*--[a-z-]+: #[0-9a-f]{6};)+)", style)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[THEMES[theme]]))
    lights = sorted(luminance(colours[name]) for name in pair)
    assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2, definitions)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_headings_do_not_skip_a_level(report: Report) -> None:
    levels = [int(tag[1]) for tag, _ in Page(report.to_html()).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
