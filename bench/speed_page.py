"""Writes the tables of docs/speed.md and README.md, and the picture, from a record that bench/speed.py left; no figure
by hand.

    python bench/speed_page.py [bench/results/speed.json] [PAGE ...]

A table stands between `<!-- name -->` and `<!-- end -->`.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from roofline import bandwidth, roofline

ROOT = Path(__file__).parents[1]
TARGETS = {  # format -> ours over llama.cpp: decode, prefill of 512
    "Q4_1": (1.3, 2.0),
    "Q8_0": (1.3, 1.2),
    "BF16": (1.1, 0.8),
    "Q4_0": (1.0, 0.9),
}
LLAMA, TORCH = "llama.cpp", "PyTorch"
BRIEF = ("decode@0", "decode@512", "decode@2048", "prefill@512")  # of the README
SHOWN = (
    "commit",
    "ggml",
    "package",
    "compiler",
    "flags",
    "system",
    "cpu",
    "threads",
    "kv",
    "flash_attention",
    "attention",
    "n_ubatch",
)


def filled(page: str, record: dict[str, Any]) -> str:
    """The page with every table made anew. Raises ValueError for a name that no table has."""
    parts = {
        "run": run(record),
        "llama": against(record, LLAMA),
        "speed": shortly(record),
        "pytorch": against(record, TORCH),
        "bandwidth": of_bandwidth(record),
        "ops": ops(record),
    }

    def make(found: re.Match[str]) -> str:
        if found[1] not in parts:
            raise ValueError(f"Expected a table among {', '.join(parts)} but the page has {found[1]!r}")
        return f"<!-- {found[1]} -->\n{parts[found[1]]}\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", make, page, flags=re.DOTALL)


def lines(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table: the first columns are text, those whose head begins with a blank are numbers."""
    head = list(head)
    rule = "|".join("--:" if name.startswith(" ") else "---" for name in head)
    cells = [" | ".join(word.strip().replace("|", ",") for word in row) for row in rows]
    return "\n".join([f"| {' | '.join(h.strip() for h in head)} |", f"|{rule}|", *(f"| {c} |" for c in cells)])


def number(value: float | None) -> str:
    """Three digits or a dash"""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(figures: dict[str, Any]) -> str:
    """1.52 (1.44 to 1.60)"""
    if figures.get("median") is None:
        return "-"
    return f"{figures['median']:.2f} ({figures['least']:.2f} to {figures['most']:.2f})"


def three(figures: dict[str, Any] | None) -> str:
    """median (best, p90)"""
    if figures is None or figures["median"] is None:
        return "-"
    return f"{number(figures['median'])} ({number(figures['best'])}, {number(figures['p90'])})"


def way(what: str) -> str:
    """decode@2048 -> decode at 2,048; prefill@512 -> prefill of 512"""
    kind, _, at = what.partition("@")
    return f"{kind} {'at' if kind == 'decode' else 'of'} {int(at):,}"


def in_order(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """decode before prefill, short before long"""
    return sorted(found.items(), key=lambda item: (item[0].partition("@")[0], int(item[0].partition("@")[2])))


def run(record: dict[str, Any]) -> str:
    """What ran, on what"""
    about, engine = record["run"], record["engine"]
    rows = [
        ("processor", f"{about['environment']['processor']}, last cache {record['last_level_cache'] >> 20} MiB"),
        ("system", f"{about['environment']['build']}, Python {about['environment']['python']}"),
        (
            "host",
            f"gnomon {about['gnomon']}, kernels {engine['kernels'][:16]}, {engine['compiler']}, `{engine['flags']}`",
        ),
        ("host threads", f"{engine['threads']}; linear {engine['arm']}, keys and values {engine['kv']}"),
    ]
    for name, facts in record["peers"].items():
        rows.append((name, "; ".join(f"{key} {facts[key]}" for key in SHOWN if facts.get(key) not in (None, ""))))
    stream = bandwidth(record)
    rows.append(("streaming read", "-" if stream is None else f"{stream / 1e9:.1f} GB/s at best"))
    busy = f"{100 * record['others_share']:.0f} % of the busy CPU time went to others"
    discarded = sum(f["discarded"] for form in record["formats"].values() for f in speeds_of(form))
    kept = sum(f["samples"] for form in record["formats"].values() for f in speeds_of(form))
    least = f"{100 * record['least_share']:.0f} %"
    rows.append(("samples", f"{kept} counted, {discarded} discarded below {least} of their CPU time; {busy}"))
    return lines(("", ""), rows)


def speeds_of(form: dict[str, Any]) -> list[dict[str, Any]]:
    return [f for row in form["ways"].values() for f in row["tokens_per_second"].values()]


def against(record: dict[str, Any], peer: str) -> str:
    """Paired speeds, ours and a peer's"""
    rows = []
    for form, found in record["formats"].items():
        for what, row in in_order(found["ways"]):
            if peer not in row["ratio"]:
                continue
            both = row["tokens_per_second"]
            target = ""
            if peer == LLAMA and form in TARGETS and what in ("decode@0", "decode@512", "prefill@512"):
                target = f"{TARGETS[form][what.startswith('prefill')]:.1f}"
            pairs = f"{row['ratio'][peer]['pairs']}"
            rows.append(
                (form, way(what), three(both["host"]), three(both[peer]), spread(row["ratio"][peer]), target, pairs)
            )
    target = ["  target"] if peer == LLAMA else []
    rows = [row if target else (*row[:5], row[6]) for row in rows]
    head = ["format", "", "  host, tokens/s", f"  {peer}, tokens/s", "  host / peer", *target, "  pairs"]
    return lines(head, rows) if rows else "Not measured."


def shortly(record: dict[str, Any]) -> str:
    """How many times as fast as llama.cpp, medians"""
    rows = []
    for form, found in record["formats"].items():
        ratios = [found["ways"].get(what, {}).get("ratio", {}).get(LLAMA) for what in BRIEF]
        if any(ratios):
            rows.append((form, *(number(r["median"]) if r else "-" for r in ratios)))
    return lines(("host / llama.cpp", *(f"  {way(what)}" for what in BRIEF)), rows) if rows else "Not measured."


def of_bandwidth(record: dict[str, Any]) -> str:
    """Decode against the streaming read of the same rounds"""
    rows = []
    for form, found in record["formats"].items():
        for what, row in in_order(found["ways"]):
            if "share_of_stream" not in row:
                continue
            median = row["tokens_per_second"]["host"]["median"]
            rate = None if median is None else median * row["bytes"] / 1e9
            stream = found["stream_bytes_per_second"]["median"]
            streamed = "-" if stream is None else f"{stream / 1e9:.1f}"
            share = spread(row["share_of_stream"])
            rows.append(
                (form, way(what), f"{row['bytes'] / 1e6:.0f}", "-" if rate is None else f"{rate:.1f}", streamed, share)
            )
    return lines(("format", "", "  MB a token", "  GB/s", "  streaming, GB/s", "  share"), rows)


def ops(record: dict[str, Any]) -> str:
    """What a token costs, op by op"""
    found = record["ops"]
    parts = []
    for at in found["at"]:
        rows = [(r["op"], str(r["count"]), f"{r['us']:,.0f}", f"{r['us'] / r['count']:.1f}") for r in at["ops"]]
        total = sum(r["us"] for r in at["ops"])
        told = (
            f"{found['format']}, position {at['position']:,}: native part of a step {at['native_us']:,.0f} us, Python "
            f"around it {at['python_us']:,.0f} us; pools one by one, dispatches taken off, {total:,.0f} us."
        )
        parts += [told, "", lines(("pool", "  times", "  us a token", "  us each"), rows), ""]
    costs = found["dispatch"]
    parts.append(
        f"An empty plan called from Python: {costs['empty_plan']} us. A barrier inside a plan: {costs['barrier']} us."
    )
    return "\n".join(parts)


def main(
    record: Annotated[Path, typer.Argument()] = ROOT / "bench" / "results" / "speed.json",
    pages: Annotated[list[Path] | None, typer.Argument(help="else docs/speed.md and README.md")] = None,
) -> None:
    """Fill in the pages and draw the picture beside the first."""
    told, chosen = json.loads(record.read_text("utf-8")), pages or [ROOT / "docs" / "speed.md", ROOT / "README.md"]
    for page in chosen:
        page.write_text(filled(page.read_text("utf-8"), told), "utf-8")
    chosen[0].with_suffix(".svg").write_text(roofline(told), "utf-8")


if __name__ == "__main__":
    typer.run(main)
