"""The kill matrix as a picture: `gnomon gate --matrix --json > matrix.json`, then

python -m gnomon.gates.matrix_page matrix.json docs
"""

import json
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from gnomon.gates.mutations.all import MUTATIONS
from gnomon.gates.mutations.mutation import ALL

ROWS = "## The rows"  # the section of the page that is made here
ROW, CELL, LEFT, TOP, GAP = 17, 21, 244, 96, 12
GROUPS = (
    ("asked once", ("comparator", "repository", "loader", "tokenizer", "sampler", "kernels", "node")),
    ("properties", ("finite", "liveness", "settled")),
    ("reference", ("golden", "shadow", "transcript", "state-bytes", "restore")),
    ("itself", ("incremental", "chunk", "isolation", "batch", "speculative", "repeat", "observer")),
)
SIZE = f'width="{CELL - 3}" height="{ROW - 3}" rx="3"'
LEGEND = (
    ("must", "fires, as it must"),
    ("may", "fires, as it may"),
    ("none", "silent"),
    ("wrong", "against its row"),
    ("skipped", "not run here"),
)
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #1f2328 } .group { font-weight: 600 } .page { fill: #fff }
.none { fill: #eef0f3 } .must { fill: #1a7f5a } .may { fill: #8fc9b3 }
.wrong { fill: #cf222e } .skipped { fill: #d8c27a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .page { fill: #0d1117 } .none { fill: #1d232b } .must { fill: #3fb98a } .may { fill: #24604a }
}
"""


def columns() -> dict[str, int]:
    """Left edge of every gate's column."""
    out, x = {}, LEFT
    for _, gates in GROUPS:
        for gate in gates:
            out[gate] = x
            x += CELL
        x += GAP
    return out


def kind(line: dict[str, Any]) -> str:
    """The class of a cell: fired where it must or may, silent, otherwise wrong."""
    fired, expected = line["verdict"] in ("FAIL", "VOID"), line["expected"]
    if line["verdict"] == "NOT RUN":
        return "skipped"
    if (expected == "must") != fired and expected != "may":
        return "wrong"
    return "none" if not fired else "must" if expected == "must" else "may"


def picture(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines of an SVG file. results: of the matrix, one a mutation"""
    at, rows = columns(), [result for result in results if result.get("table")]
    width, height = max(at.values()) + CELL + 24, TOP + ROW * len(rows) + 40
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>Kill matrix: {len(rows)} mutations, {len(at)} gates</title><style>{STYLE}</style>"
    yield f'<rect class="page" width="{width}" height="{height}"/>'
    for name, gates in GROUPS:
        yield f'<text class="group" x="{at[gates[0]]}" y="{TOP - 80}">{name}</text>'
    for gate, x in at.items():
        yield f'<text transform="translate({x + 14} {TOP - 8}) rotate(-60)">{gate}</text>'
    for n, result in enumerate(rows):
        y = TOP + n * ROW
        yield f'<text x="8" y="{y + 12}">{escape(result["fault"])}</text>'
        for line in result["table"]:
            said = escape(f"{result['fault']}, {line['gate']}: {line['verdict']} {line['detail']}".strip()[:200])
            told = f"<title>{said}</title>" if line["verdict"] != "PASS" else ""
            yield f'<rect class="{kind(line)}" x="{at[line["gate"]]}" y="{y}" {SIZE}>{told}</rect>'
    x, y = 8, height - 14
    for name, told in LEGEND:
        yield f'<rect class="{name}" x="{x}" y="{y - 11}" {SIZE}/><text x="{x + 24}" y="{y}">{told}</text>'
        x += 140
    yield "</svg>"


def table() -> Iterator[str]:
    """The lines of a table of what every row expects."""
    yield "| mutation | what is broken | fires | may fire | first difference |"
    yield "| --- | --- | --- | --- | --- |"
    for m in MUTATIONS.values():
        fires, may = ", ".join(sorted(m.must)), ", ".join(sorted(ALL - m.must - m.blind))
        yield f"| {m.name} | {m.where}: {m.what} | {fires} | {may} | {m.first} |"
    yield ""
    for m in MUTATIONS.values():
        if m.corrected:
            yield f"- **{m.name}**: {m.corrected}"


def written(page: str) -> str:
    """The page with its last section made again."""
    return "\n".join([page.partition(ROWS)[0] + ROWS, "", *table(), ""])


if __name__ == "__main__":
    source, docs = map(Path, sys.argv[1:])
    summary = json.loads(source.read_text("utf-8").splitlines()[-1])
    (docs / "kill-matrix.svg").write_text("\n".join(picture(summary["results"])) + "\n", "utf-8")
    page = docs / "kill-matrix.md"
    page.write_text(written(page.read_text("utf-8")), "utf-8")
