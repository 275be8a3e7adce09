"""The roofline of a speed record as SVG: products per second against products per byte, both axes in powers of two.

Two roofs: the memory bandwidth that was measured beside (sloped), and unfused products with their sums on all threads
(flat). A point is one format on one side: left decode at position 0, right prefill. Bytes are those of the weights as
each side holds them, read once per step, so a point left of the ridge can touch the slope and no more.
"""

from collections.abc import Sequence
from html import escape
from math import log2
from typing import Any

HALF = 14  # of the width of a label
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 60, 20, 36, 46
COLOURS = {"host": "#0b6e4f", "llama.cpp": "#c8553d", "PyTorch": "#5b5f97"}
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{fill:#555;font-size:11px}.g{stroke:#ddd}.r{stroke:#222;fill:none}"
)


def points(record: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """(side, label, products per byte, products per second) of everything that has a median"""
    out = []
    for form, found in record["formats"].items():
        for what, row in found["ways"].items():
            kind, _, at = what.partition("@")
            if not (what == "decode@0" or what == "prefill@512"):
                continue
            batch = 1 if kind == "decode" else int(at)
            products = found["products"][kind]
            for side, figures in row["tokens_per_second"].items():
                nbytes = found["token_bytes"] if side == "host" else found["file_bytes"]
                if figures["median"] is not None:
                    out.append((side, f"{form} {kind}", products * batch / nbytes, products * figures["median"]))
    return out


def bandwidth(record: dict[str, Any]) -> float | None:
    """Bytes per second: the best of all formats' streaming reads"""
    rates = [found["stream_bytes_per_second"]["best"] for found in record["formats"].values()]
    return max((rate for rate in rates if rate is not None), default=None)


def roofline(record: dict[str, Any]) -> str:
    """The picture; without points where nothing was measured"""
    shown, stream, flat = points(record), bandwidth(record), float(record["products_per_second"])
    low_x, high_x = -3.0, 13.0
    high_y = max([log2(flat / 1e9) + 1, *(log2(y / 1e9) + 0.5 for _, _, _, y in shown)])
    low_y = min([log2(flat / 1e9) - 5, *(log2(y / 1e9) - 0.5 for _, _, _, y in shown)])

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (log2(value) - low_x) / (high_x - low_x), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log2(value / 1e9) - low_y) / (high_y - low_y), 1)

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for power in range(int(low_x), int(high_x) + 1, 2):
        at, label = x(2.0**power), f"1/{2**-power}" if power < 0 else f"{2**power:,}"
        parts.append(f'<line class="g" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(text(at, HEIGHT - BOTTOM + 16, label, "middle"))
    for power in range(int(-(-low_y // 1)), int(high_y) + 1):
        at = y(2.0**power * 1e9)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(text(LEFT - 6, at + 4, f"{2.0**power:g}", "end"))
    parts.append(text(WIDTH / 2, HEIGHT - 10, "products per byte of weights", "middle"))
    parts.append(text(LEFT - 40, TOP - 18, "10⁹ products/s", "start"))
    ridge = flat / stream if stream else 2.0**low_x
    if stream:
        foot = max(2.0**low_x, 2.0**low_y * 1e9 / stream)
        parts.append(f'<path class="r" d="M{x(foot)},{y(foot * stream)}L{x(ridge)},{y(flat)}"/>')
        parts.append(text(x(ridge) - 14, y(flat) + 4, f"streaming read {stream / 1e9:.1f} GB/s", "end"))
    parts.append(f'<path class="r" d="M{x(ridge)},{y(flat)}L{WIDTH - RIGHT},{y(flat)}"/>')
    parts.append(text(x(ridge) + 4, y(flat) - 6, f"unfused products {flat / 1e9:.1f} · 10⁹/s", "start"))
    taken = [(x(per_byte), y(rate) + 4.5, 5) for _, _, per_byte, rate in shown]  # foot and half width of what stands
    for side, label, per_byte, rate in shown:
        told = escape(f"{side}, {label}: {rate / 1e9:.1f} · 10⁹ products/s at {per_byte:.3g} per byte")
        colour, cx, cy = COLOURS[side], x(per_byte), y(rate)
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="4.5" fill="{colour}"><title>{told}</title></circle>')
        if side == "host":
            at = free_place(cx, cy, taken)
            taken.append((*at, HALF))
            parts.append(text(*at, label.split()[0], "middle"))
    for i, side in enumerate(s for s in COLOURS if any(p[0] == s for p in shown)):
        parts.append(f'<circle cx="{WIDTH - 250 + 90 * i}" cy="16" r="4.5" fill="{COLOURS[side]}"/>')
        parts.append(text(WIDTH - 240 + 90 * i, 20, side, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Roofline">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def free_place(cx: float, cy: float, taken: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Foot of a label beside a point: above it, else where the fewest others stand within its box"""
    places = [(cx, cy - 9), (cx - 22, cy + 4), (cx + 22, cy + 4), (cx, cy + 18), (cx, cy - 21), (cx, cy + 30)]
    return min(places, key=lambda p: sum(abs(p[0] - x) < HALF + half and abs(p[1] - y) < 11 for x, y, half in taken))


def text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="t" x="{x}" y="{round(y, 1)}" text-anchor="{anchor}">{escape(words)}</text>'
