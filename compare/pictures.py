"""Pictures of a report as inline SVG: bit strip, histogram of distances, heat map of layers and taps.

No script, no identifier, no colour of their own: classes of the style sheet in report.html.jinja colour them. What a
picture says by colour it says by a letter too, and every mark has a title.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

from markupsafe import Markup

from gnomon.compare.histogram import Histogram
from gnomon.compare.record import FirstDivergence, Tensor
from gnomon.compare.verdict import worst

WIDTH = 534  # what a window of 600 pixels leaves: drawn no wider, letters keep their size
BAND = 32  # bits drawn side by side
POWERS = 10  # distances beyond 2^POWERS ulp share the outermost bars
LAYERS = 128  # rows of the heat map
LOOSE = 256  # tensors outside the layers
CELL = 20  # pitch of the heat map, where there is room

LOOKS = {  # verdict word -> letter, class
    "identical": ("=", "same"), "zero-sign": ("z", "near"), "ulp<=k": ("u", "near"), "differs": ("D", "far"),
    "dead": ("0", "dead"), "nonfinite": ("N", "nonfinite"), "extra": ("+", "apart"), "missing": ("M", "apart"),
    "dtype": ("T", "apart"), "shape": ("S", "apart"), "not-run": ("?", "apart"),
}  # fmt: skip


def word_of(verdict: str) -> str:
    """The word of the list that a verdict is an instance of: ulp<=3 is ulp<=k."""
    return "ulp<=k" if verdict.startswith("ulp<=") else verdict


def bit_strip(observed: str, expected: str) -> Markup:
    """Two patterns, one above the other, the bits that differ marked. Strips as in `Number`: 1|01111111|0110..."""
    fields = expected.split("|")
    names = ("sign", "exponent", "mantissa") if len(fields) == 3 else ("bits",)
    o, e = observed.replace("|", ""), expected.replace("|", "")
    starts = [sum(len(f) for f in fields[:k]) for k in range(len(fields))]
    parts: list[Markup] = []
    y = 0
    for band in range(0, len(e), BAND):
        shift = sum(start <= band for start in starts) - 1  # the field that goes on
        for row, (side, text) in enumerate((("observed", o), ("expected", e))):
            parts.append(_text(0, y + 29 + 19 * row, side, "g-label g-start"))
            for i in range(band, min(band + BAND, len(e))):
                k = max(j for j, start in enumerate(starts) if start <= i)
                x = 58 + 14 * (i - band) + 12 * (k - shift)
                kind = "g-bit-off" if o[i] != e[i] else f"g-bit-{k % 2}"
                parts += [_rect(x, y + 16 + 19 * row, 13, 17, kind), _text(x + 6.5, y + 29 + 19 * row, text[i], kind)]
                if row == 0 and i in starts:
                    parts.append(_text(x, y + 10, names[k], "g-label g-start"))
                if row == 1 and o[i] != e[i]:
                    parts.append(_text(x + 6.5, y + 63, "▲", "g-mark"))
        y += 52
    off = [len(e) - 1 - i for i in range(len(e)) if o[i] != e[i]]
    told = f"{len(off)} of {len(e)} bits differ" + (
        f": {', '.join(str(b) for b in off)} (0 is the lowest)" if off else ""
    )
    return _svg(WIDTH, y + 16, told, parts)


@dataclass(frozen=True)
class Bar:
    """label: below the bar; kind: its class"""

    label: str
    count: int
    told: str
    kind: str


def histogram(h: Histogram) -> Markup:
    """Signed distances in powers of two; equal values in the middle, others at the right. Heights are logarithmic."""
    bars = _bars(h)
    pitch = min(46.0, WIDTH / len(bars))
    most = max(bar.count for bar in bars)
    parts = []
    for i, bar in enumerate(bars):
        x, height = pitch * i, 110 * log2(1 + bar.count) / log2(1 + most)
        group = [Markup("<title>{}</title>").format(f"{bar.told}: {bar.count:,} of {h.values:,} values")]
        group.append(_rect(x + 1, 128 - height, pitch - 2, max(height, 1), f"g-bar-{bar.kind}"))
        group.append(_text(x + pitch / 2, 123 - height, _short(bar.count) if bar.count else "", "g-count"))
        group.append(_text(x + pitch / 2, 143, bar.label, "g-tick"))
        parts.append(Markup("<g>{}</g>").format(_joined(group)))
    middle = pitch * (bars.index(next(bar for bar in bars if bar.label == "0")) + 0.5)
    parts += [
        _text(middle - pitch, 160, "← observed is below expected", "g-label g-end"),
        _text(middle + pitch, 160, "observed is above expected →", "g-label g-start"),
    ]
    return _svg(round(pitch * len(bars)), 165, f"{h.equal:,} of {h.values:,} values equal", parts)


def _bars(h: Histogram) -> list[Bar]:
    """From the furthest below to the furthest above; as many on either side as the wider one needs."""
    reach = min(max(len(h.below), len(h.above), 1), POWERS + 2)

    def side(counts: Sequence[int], where: str) -> list[Bar]:
        out = []
        for k in range(reach):
            beyond = k == POWERS + 1
            count = sum(counts[k:]) if beyond else sum(counts[k : k + 1])
            low, high = (1 << k) // 2 + 1, 1 << k
            told = (
                f"more than {1 << POWERS:,}" if beyond else str(high) if low == high or k == 0 else f"{low} to {high}"
            )
            label = f">{_short(1 << POWERS)}" if beyond else _short(high)
            out.append(Bar(label, count, f"{told} ulp {where}", "far" if high > 16 else "near"))
        return out

    middle = [Bar("0", h.equal, "equal", "same")]
    if h.zero_sign:
        middle.append(Bar("±0", h.zero_sign, "+0.0 against -0.0", "near"))
    last = [Bar("↔", h.across, "across zero or 2^-50", "far")] if h.across else []
    last += [Bar("NaN", h.nonfinite, "NaN or infinity", "nonfinite")] if h.nonfinite else []
    return [*reversed(side(h.below, "below expected")), *middle, *side(h.above, "above expected"), *last]


@dataclass
class Cell:
    """All tensors of one tap of one layer, over the steps."""

    verdicts: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # in which it is not identical

    def add(self, tensor: Tensor) -> None:
        self.verdicts.append(tensor.verdict)
        if tensor.verdict != "identical":
            self.steps.append(tensor.step)

    def told(self, name: str) -> str:
        if not self.steps:
            return f"{name}: identical"
        return (
            f"{name}: {worst(self.verdicts)}, {len(self.steps)} of {len(self.verdicts)}, first at step {self.steps[0]}"
        )


def heat_map(tensors: Iterable[Tensor], first: FirstDivergence | None) -> Markup:
    """Layers from top to bottom, taps from left to right in order of execution; above and below, what is in no layer.

    A cell shows the worst verdict over the steps; `first` is framed.
    """
    layers: dict[int, dict[str, Cell]] = {}
    before: dict[str, Cell] = {}
    after: dict[str, Cell] = {}
    framed: Cell | None = None
    for t in tensors:
        layer, tap = _place(t)
        row = layers.setdefault(layer, {}) if layer is not None else before if not layers or tap in before else after
        cell = row.setdefault(tap, Cell())
        cell.add(t)
        if first is not None and (t.seq, t.name) == (first.seq, first.tap):
            framed = cell
    columns = _columns(layers.values())
    pitch = min(CELL, (WIDTH - 30) / max(len(columns), 1))
    top, parts = _loose(before, 0, framed)
    if columns:
        top += 8 + max(6.3 * len(c) for c in columns)
        parts += [_turned(30 + pitch * (i + 0.5) + 3.5, top - 6, c) for i, c in enumerate(columns)]
    for row_at, layer in enumerate(sorted(layers)[:LAYERS]):
        y = top + CELL * row_at
        parts.append(_text(24, y + 14, str(layer), "g-tick g-end"))
        parts += [
            _cell(30 + pitch * i, y, pitch - 2, layers[layer][c], f"blocks.{layer}.{c}", framed)
            for i, c in enumerate(columns)
            if c in layers[layer]
        ]
    top += CELL * min(len(layers), LAYERS)
    if len(layers) > LAYERS:
        parts.append(_text(30, top + 14, f"and {len(layers) - LAYERS} more layers", "g-label g-start"))
        top += CELL
    height, below = _loose(after, top + 6 * bool(after), framed)
    told = f"Worst verdict per tap of {len(layers)} layers and of {len(before) + len(after)} tensors in no layer"
    return _svg(WIDTH, height + 1, told, [*parts, *below])


def _place(t: Tensor) -> tuple[int | None, str]:
    """Layer and tap of a tensor; results and exported state are told from the taps of the same name."""
    suffix = "" if t.kind in ("tap", "op") else f" ({t.kind})"
    found = re.fullmatch(r"blocks\.(\d+)\.(.+)", t.name)
    return (int(found[1]), found[2] + suffix) if found else (None, t.name + suffix)


def _columns(layers: Iterable[dict[str, Cell]]) -> list[str]:
    """Every tap of any layer, each after the one it follows in its own layer."""
    columns: list[str] = []
    for row in layers:
        at = 0
        for tap in row:
            if tap not in columns:
                columns.insert(at, tap)
            at = columns.index(tap) + 1
    return columns


def _loose(cells: dict[str, Cell], y: float, framed: Cell | None) -> tuple[float, list[Markup]]:
    """Cells with their names beside them -> where they end."""
    parts, x = [], 30.0
    for name, cell in list(cells.items())[:LOOSE]:
        label = name if len(name) <= 60 else f"{name[:59]}…"
        width = CELL + 8 + 6.4 * len(label)
        if x > 30 and x + width > WIDTH:
            x, y = 30.0, y + CELL
        parts += [_cell(x, y, CELL - 2, cell, name, framed), _text(x + CELL + 2, y + 13, label, "g-tick g-start")]
        x += width + 8
    if len(cells) > LOOSE:
        y += CELL
        parts.append(_text(30, y + 14, f"and {len(cells) - LOOSE} more", "g-label g-start"))
    return y + CELL * bool(cells), parts


def _cell(x: float, y: float, width: float, cell: Cell, name: str, framed: Cell | None) -> Markup:
    letter, kind = LOOKS[word_of(worst(cell.verdicts))]
    frame = _rect(x - 1, y - 1, width + 2, CELL, "g-frame") if cell is framed else Markup()
    return Markup("<g><title>{}</title>{}{}{}</g>").format(
        cell.told(name) + ("; the first divergence" if cell is framed else ""),
        _rect(x, y, width, CELL - 2, f"g-is-{kind}"),
        _text(x + width / 2, y + 13, letter, f"g-on-{kind}"),
        frame,
    )


def _short(count: int) -> str:
    """At most four signs: 1023, 1k, 260k, 12M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 1000)):
        if count >= size and count > 1023:
            return (
                f"{count // size}{unit}"
                if count >= 10 * size or count % size < size // 10
                else f"{count / size:.1f}{unit}"
            )
    return str(count)


def _svg(width: float, height: float, told: str, parts: Iterable[Markup]) -> Markup:
    return Markup(
        '<svg class="g-picture" role="img" aria-label="{}" width="{}" height="{}" viewBox="-1 -1 {} {}">{}</svg>'
    ).format(told, _n(width + 2), _n(height + 2), _n(width + 2), _n(height + 2), _joined(parts))


def _rect(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>').format(
        _n(x), _n(y), _n(width), _n(height), kind
    )


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    """Centred at x, unless the class says g-start or g-end"""
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(_n(x), _n(y), kind, text) if text else Markup()


def _turned(x: float, y: float, text: str) -> Markup:
    return Markup('<text transform="translate({} {}) rotate(-90)" class="g-tick g-start">{}</text>').format(
        _n(x), _n(y), text
    )


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup().join(parts)


def _n(x: float) -> str:
    """A coordinate with as few digits as it needs."""
    return f"{x:.2f}".rstrip("0").rstrip(".")
