"""A report as one HTML file, and as a part of a notebook: the same body, made of the same records as all other forms.

Nothing is fetched, nothing is a script. The template report.html.jinja lays out and styles; this module says what there
is to lay out. Text from engines, models and files is escaped by the template engine.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from jinja2 import Environment, StrictUndefined, Template

from gnomon.compare import pictures
from gnomon.compare.histogram import Histogram
from gnomon.compare.mismatch import listed
from gnomon.compare.record import Config, FirstDivergence, Problem, Record, Summary, Tensor, Token, WrongOp
from gnomon.compare.render import COLUMNS, table_rows
from gnomon.compare.render_unwatched import paragraphs
from gnomon.compare.sentences import blame, fingerprint, left_out, no_values, outcome, positions
from gnomon.compare.verdict import INCOMPARABLE, WORDS
from gnomon.compare.words import counted

LISTED = 40  # findings, tensors without a partner: spelled out; the rest are counted
ROWS = 500  # kinds of tensors in the table
R = TypeVar("R", bound=Record)

MEANINGS = {
    "identical": "the same bytes",
    "zero-sign": "only +0.0 against -0.0",
    "ulp<=k": "no value further than k ulp of the stored type",
    "differs": "other bytes: further apart, on two sides of zero, or known by digest only",
    "dead": "one side has too few values that are finite and not zero, or a row of exp without a 1.0",
    "nonfinite": "NaN or infinity on either side",
    "extra": "only on the observed side",
    "missing": "only on the expected side",
    "dtype": "another type on either side",
    "shape": "another shape on either side",
    "not-run": "nothing was compared",
}


def page(records: Sequence[Record]) -> str:
    """A whole document."""
    return _template().render(view(records), whole=True)


def fragment(records: Sequence[Record]) -> str:
    """The body of `page` with its styles, which touch nothing outside it."""
    return _template().render(view(records), whole=False)


def view(records: Sequence[Record]) -> dict[str, Any]:
    """What the template shows. records: of a report; the last is the summary"""
    summary = records[-1]
    assert isinstance(summary, Summary)
    config = _only(records, Config)
    card = _only(records, FirstDivergence)
    spread = _only(records, Histogram)
    tensors = [r for r in records if isinstance(r, Tensor)]
    rows = table_rows(records)
    drawn = pictures.heat_map(tensors, card) if tensors else ""
    return {
        "config": config,
        "title": _title(summary, config),
        "heading": _heading(config),
        "fingerprint": fingerprint(config, verbose=False) if config else {},
        "settings": _side_by_side(config) if config else [],
        "summary": summary,
        "outcome": outcome(summary),
        "live": f"{100 * summary.live / summary.values:.1f}\u00a0% live" if summary.values else "",
        "card": card,
        "blame": blame(card) if card else "",
        "no_values": no_values(card, records) if card else "",
        "spread": spread,
        "spread_picture": pictures.histogram(spread) if spread else "",
        "unwatched": paragraphs(records),
        "wrong": [r for r in records if isinstance(r, WrongOp)],
        "map": drawn,
        "framed": 'class="g-frame"' in drawn,
        "legend": _legend(tensors),
        "columns": COLUMNS,
        "unequal_rows": [row for row in rows if row.verdict != "identical"],
        "equal_rows": [row for row in rows if row.verdict == "identical"],
        "most_rows": ROWS,
        "tokens": [r for r in records if isinstance(r, Token)],
        "problems": [r for r in records if isinstance(r, Problem)],
        "apart": [t for t in tensors if t.verdict in INCOMPARABLE],
        "unseen": [i.name for i in card.inputs if i.kind == "unseen"] if card else [],
        "left_out": left_out(records, LISTED),
        "isolated": bool(tensors) and all(t.kind == "op" for t in tensors),
        "most": LISTED,
        "kinds": Counter(r.type for r in records),
    }


def _only(records: Sequence[Record], kind: type[R]) -> R | None:
    return next((r for r in records if isinstance(r, kind)), None)


def _title(summary: Summary, config: Config | None) -> str:
    if config is None:
        return f"{summary.verdict} - gnomon"
    e, o = (side.get("engine", "a dump") for side in (config.expected, config.observed))
    return f"{summary.verdict}: {e} | {o} - gnomon"


def _heading(config: Config | None) -> str:
    """What was done, on what: gnomon · diff · tiny-dense · 5 tokens and 16 steps"""
    if config is None:
        return "gnomon"
    work = f"{counted(len(config.ids), 'token')} and {counted(config.steps, 'step')}"
    verb = config.command.split()[:2] if config.command.startswith("gnomon ") else ["gnomon"]
    return " · ".join(part for part in (*verb, config.expected.get("model"), work) if part)


def _side_by_side(config: Config) -> list[tuple[str, str, str]]:
    """name, expected, observed; what only one side has is "-" on the other"""
    names = list(dict.fromkeys((*config.expected, *config.observed)))
    return [(n, config.expected.get(n, "-"), config.observed.get(n, "-")) for n in names]


def _legend(tensors: Sequence[Tensor]) -> list[tuple[str, str, str, str]]:
    """letter, class, word and meaning of the verdicts that occur, from harmless to worst"""
    words = sorted({pictures.word_of(t.verdict) for t in tensors}, key=WORDS.index)
    return [(*pictures.LOOKS[w], w, MEANINGS[w]) for w in words]


def _look(verdict: str) -> str:
    """The class that colours a verdict."""
    return pictures.LOOKS[pictures.word_of(verdict)][1]


def _meaning(verdict: str) -> str:
    return MEANINGS[pictures.word_of(verdict)].replace(" k ", f" {verdict[5:]} ")


def _upper(sentence: str) -> str:
    """With a capital letter; a name at its beginning keeps its own"""
    return sentence if "." in sentence.partition(" ")[0] else sentence[:1].upper() + sentence[1:]


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        counted=counted, look=_look, meaning=_meaning, listed=listed, positions=positions, sentence=_upper
    )
    environment.globals.update(bit_strip=pictures.bit_strip)
    source = resources.files("gnomon.compare").joinpath("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)
