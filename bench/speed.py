"""Our host engine against llama.cpp and PyTorch on the same file, in one run, on the same cores.

    python bench/speed.py MODEL.gguf [--quick] [--minutes 8] [--out bench/results/speed.json]
    python bench/speed_page.py                               # writes the tables of docs/speed.md and its picture

The file is also written in other formats (make_ggufs.py), and each is measured in turn. In a round every way runs once,
one side after the other: prefill of 2,048 and 512 tokens, decode at positions 2,048, 512 and 0, a read of memory that
no cache holds. Ours is the whole `Engine.step` with its Python; llama.cpp is `llama_decode` alone (f16 keys and values,
its defaults); PyTorch is transformers' LlamaForCausalLM, for the formats that it computes in and up to 512 positions.
All give the logits of the last row; tokens are given, not sampled. Before a sample everybody rests, and before decode
the side whose turn it is takes one step.

A sample counts if its threads got 95 % of the CPU time they asked for; how many did not is told. A ratio is the median
of the ratios of one round. Needs g++ or clang++ and the packages of the extra "peers"; a peer that is not installed is
left out, by name. Run it on a quiet machine. Ends with one line of JSON.

Targets, ours over llama.cpp, 2 threads: Q4_1 decode 1.3, prefill 2.0; Q8_0 1.3, 1.2; bf16 1.1, 0.8; Q4_0 1.0, 0.9;
decode at 2,048 no worse than at the start; bf16 and f32 decode at 85 % or more of the memory bandwidth measured beside.
"""

import importlib.util
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from make_ggufs import all_formats
from op_costs import dispatch, op_costs, peak
from rich.console import Console
from rich.table import Table

from gnomon.engines import engine as make_engine
from gnomon.gates import receipt
from gnomon.gpu.host_engine import HostEngine
from gnomon.loading import load
from gnomon.measure import (
    SHARE,
    STEPS,
    EngineRunner,
    Round,
    Stream,
    Way,
    busy_times,
    last_level_cache,
    others_share,
    position_bytes,
    ratio,
    rounds,
    speed,
    token_bytes,
    token_ids,
    ways,
)
from gnomon.reference.errors import GnomonError, NotRunError, UsageError

OURS, LLAMA, TORCH = "host", "llama.cpp", "PyTorch"
STREAM = "stream"
RARELY = 4  # rounds from one long prefill to the next
ROOT = Path(__file__).parents[1]
say = Console(stderr=True, highlight=False, emoji=False, width=140).print


def interleaved(runners: dict[str, Any], stream: Stream, lengths: Sequence[int]) -> dict[str, Way]:
    """The ways of a round, by "side way". A prefill stands before the decode that goes on from it."""
    each = {side: ways(runner, [0, *lengths], sorted(lengths), RARELY) for side, runner in runners.items()}
    order = [f"{what}@{n}" for n in sorted(lengths, reverse=True) for what in ("prefill", "decode")]
    made = {f"{side} {way}": each[side][way] for way in order for side in runners if allowed(side, way)}
    return made | {STREAM: stream.way} | {f"{side} decode@0": each[side]["decode@0"] for side in runners}


def allowed(side: str, way: str) -> bool:
    """PyTorch is spared the long texts: minutes that tell nothing new"""
    return side != TORCH or int(way.partition("@")[2]) <= 512


def measure(form: str, path: Path, lengths: Sequence[int], seconds: float, peers: Sequence[str], share: float) -> Any:
    """One format: (its figures, the facts of the peers, the engine)"""
    model = load(path)
    ids = token_ids(model.config.vocab, max(lengths))
    engine = make_engine(OURS, model)
    if not isinstance(engine, HostEngine):
        raise NotRunError(f"Expected the engine {OURS} but got {engine.name}")
    threads = engine.host.team.threads
    runners: dict[str, Any] = {OURS: EngineRunner(engine, ids)}
    if LLAMA in peers:
        from peer_llama import LlamaRunner

        runners[LLAMA] = LlamaRunner(path, ids, max(lengths) + 256, threads)
    if TORCH in peers and form in ("BF16", "F32"):
        from peer_torch import TorchRunner

        runners[TORCH] = TorchRunner(model, form, ids, threads)
    stream = Stream(engine.host.team)
    made, done = interleaved(runners, stream, lengths), list[Round]()
    for found in rounds(made, seconds):
        done.append(found)
    facts = {side: runner.facts() for side, runner in runners.items() if side != OURS}
    if LLAMA in runners:
        runners[LLAMA].close()
    return figures(path, engine, made, done, stream, list(runners), share), facts, engine


def figures(
    path: Path, engine: Any, made: dict[str, Way], done: list[Round], stream: Stream, sides: list[str], share: float
) -> dict[str, Any]:
    """What the rounds of one format say."""
    model, found = engine.model, dict[str, Any]()
    for name, way in made.items():
        side, _, what = name.partition(" ")
        if side != OURS:
            continue
        at = int(what.partition("@")[2])
        row: dict[str, Any] = {"tokens_per_second": {}, "ratio": {}}
        for s in sides:
            if f"{s} {what}" in made:
                row["tokens_per_second"][s] = speed(done, f"{s} {what}", way.size, share)
            if s != OURS and f"{s} {what}" in made:
                row["ratio"][s] = ratio(done, name, f"{s} {what}", share=share)
        if what.startswith("decode"):
            row["bytes"] = token_bytes(engine) + position_bytes(engine) * at
            row["share_of_stream"] = ratio(done, name, STREAM, row["bytes"] * way.size / stream.nbytes, share)
        found[what] = row
    linears = {n: w.shape[0] * w.shape[1] for n, w in model.weights.items() if w.role == "linear"}
    raw = {n: [[float(f"{r[n].seconds:.5g}"), round(r[n].share, 3)] for r in done if n in r] for n in made}
    return {
        "file": path.name,
        "file_bytes": path.stat().st_size,
        "weights_sha256": model.digest,
        "rounds": len(done),
        "token_bytes": token_bytes(engine),
        "products": {"decode": sum(linears.values()), "prefill": sum(linears.values()) - linears.get("head.weight", 0)},
        "stream_bytes_per_second": speed(done, STREAM, stream.nbytes, share),
        "ways": found,
        "samples": raw,
    }


def installed_peers() -> list[str]:
    needs = {LLAMA: ("llama_cpp",), TORCH: ("torch", "transformers")}
    return [name for name, packages in needs.items() if all(map(importlib.util.find_spec, packages))]


def table(formats: dict[str, Any], peers: Sequence[str]) -> Table:
    out = Table("format", "way", "host", "best", "p90", "of streaming", box=None, pad_edge=False)
    for peer in peers:
        out.add_column(peer)
        out.add_column("ratio")
    for form, found in formats.items():
        for what, row in found["ways"].items():
            ours = row["tokens_per_second"][OURS]
            part = row.get("share_of_stream", {}).get("median")
            cells = [form, what, *(shown(ours[k]) for k in ("median", "best", "p90")), shown(part)]
            for peer in peers:
                cells += [shown(row["tokens_per_second"].get(peer, {}).get("median"))]
                cells += [shown(row["ratio"].get(peer, {}).get("median"))]
            out.add_row(*cells)
    return out


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def main(
    model: Annotated[Path, typer.Argument(help="a GGUF file of family llama, such as SmolLM2-135M in Q4_1")],
    quick: Annotated[bool, typer.Option("--quick", help="two minutes: no long text")] = False,
    minutes: Annotated[float | None, typer.Option(help="to measure for; else 8, or 2 with --quick")] = None,
    form: Annotated[list[str] | None, typer.Option("--format", help="else Q4_1, Q8_0, Q4_0, BF16 and F32")] = None,
    length: Annotated[list[int] | None, typer.Option(min=STEPS, help="else 512 and 2048")] = None,
    share: Annotated[float, typer.Option(min=0, max=1, help="of CPU time that a sample must have got")] = SHARE,
    cache: Annotated[Path, typer.Option(help="where files in other formats are kept")] = ROOT / ".cache" / "speed",
    out: Annotated[Path | None, typer.Option(help="a file for the JSON, beside stdout")] = None,
) -> None:
    """Measure; see the head of this file."""
    lengths = sorted(length or ([512] if quick else [512, 2048]))
    seconds, peers = 60 * (minutes or (2 if quick else 8)), installed_peers()
    say(f"peers: {', '.join(peers) or 'none'}; not installed: {', '.join({LLAMA, TORCH} - {*peers}) or 'none'}")
    formats, facts, ops = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    busy, began = busy_times(), time.perf_counter()
    try:
        files = all_formats(model, cache)
        unknown = [name for name in form or [] if name not in files]
        if unknown:
            raise UsageError(f"Expected a format among {', '.join(files)} but got {unknown[0]!r}")
        chosen = form or list(files)
        for name in chosen:
            say(f"{name}: {files[name].name}")
            formats[name], more, engine = measure(name, files[name], lengths, seconds / len(chosen), peers, share)
            facts |= more
            if name == chosen[0]:
                ids = token_ids(engine.model.config.vocab, max(lengths))
                team, described = engine.host.team, engine.ops.describe()
                costs = [op_costs(engine, ids, at, STEPS) for at in (0, max(lengths))]
                ops = {"format": name, "dispatch": dispatch(team), "at": costs}
                top = max(peak(team.threads) for _ in range(3))
            del engine
    except (GnomonError, OSError) as error:
        say(str(error), markup=False)
        raise typer.Exit(getattr(error, "exit_code", 2)) from error
    record = receipt.scrub(
        {
            "bench": "speed",
            "run": receipt.run_record("speed"),
            "quick": quick,
            "seconds": round(time.perf_counter() - began, 1),
            "others_share": round(others_share(busy, busy_times()), 3),
            "least_share": share,
            "engine": {"name": OURS, **described},
            "peers": facts,
            "last_level_cache": last_level_cache(),
            "products_per_second": float(f"{top:.4g}"),
            "steps": STEPS,
            "ops": ops,
            "formats": formats,
        }
    )
    say(table(formats, peers))
    say(f"other processes took {100 * record['others_share']:.0f} % of the busy CPU time")
    if out is not None:
        aside = out.with_name(f"{out.name}.part")
        aside.write_text(json.dumps(record) + "\n", "utf-8")
        aside.replace(out)
    print(json.dumps(record))


if __name__ == "__main__":
    typer.run(main)
