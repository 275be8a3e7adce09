"""How fast two traces are compared, against the speed of merely reading their files.

    python bench/compare_traces.py [--model FILE.gguf] [--tokens 16] [--repeat 7]

Two equal traces of all taps: of the model, run by the reference engine, or, without one, of random numbers in the
shapes of SmolLM2-135M (30 layers, width 576, vocabulary 49152); 16 tokens make 26 MB a trace, 128 tokens 233 MB. In
each round every way runs once, one after the other, so that whatever else the machine does falls on all of them.
Seconds are the best and the median of all rounds, ratios the median of the ratios of one round. The files are in the
page cache, but for the two ways called cold: the system has been told to forget every file, so they start from the
disk, as one does who compares traces that another machine has made (Linux only).

    stream    reading both traces: every file, through a buffer of 1 MiB that is used again; nothing is kept
    load      every file as one bytes object, as a program that wants the values would
    sha256    SHA-256 over the files of one trace, already in memory, on one CPU
    full      gnomon compare: bytes compared, hashed again and counted, on every CPU
    digests   gnomon compare --digests

Targets: full at 50 % or more of the speed of stream, that is in at most twice its time; digests in less than 2 s.
From the page cache the first is out of reach wherever SHA-256 is slower than copying memory: what is read is hashed
again, once for both sides where they are equal. The line "at most" says how near SHA-256 alone, shared by all CPUs,
lets a program come. Ends with one line of JSON.
"""

import hashlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from gnomon.compare.trace_compare import compare_traces
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_record import Manifest
from gnomon.compare.trace_write import TraceWriter, write_trace
from gnomon.engines import engine
from gnomon.loading import load

WIDTH, KV, FFN, HEADS, LAYERS, VOCAB = 576, 192, 1536, 9, 30, 49152
BLOCK = {  # tap: width; 0 stands for [heads, T]
    "ln1": WIDTH, "attn.q": WIDTH, "attn.k": KV, "attn.v": KV, "attn.q_rot": WIDTH, "attn.k_rot": KV, "kv.k": KV,
    "kv.v": KV, "attn.scores": 0, "attn.exp": 0, "attn.denom": HEADS, "attn.z": WIDTH, "attn.out": WIDTH,
    "resid_mid": WIDTH, "ln2": WIDTH, "mlp.gate": FFN, "mlp.up": FFN, "mlp.act": FFN, "mlp.out": WIDTH,
    "resid_post": WIDTH,
}  # fmt: skip
BUFFER = 1 << 20


def random_trace(out: Path, tokens: int) -> None:
    """A trace in the shapes of SmolLM2-135M, with finite random values."""
    rng = np.random.Generator(np.random.PCG64(1))
    taps = [("embed", WIDTH), *((f"blocks.{i}.{n}", w) for i in range(LAYERS) for n, w in BLOCK.items())]
    with TraceWriter(out) as writer:
        for name, width in [*taps, ("ln_final", WIDTH), ("logits", VOCAB)]:
            value = rng.standard_normal((tokens, width) if width else (tokens, HEADS, tokens), np.float32)
            value[..., 0] = 1.0  # every row of `exp` holds one
            writer(name, value, np.arange(tokens), "random", ())
        writer.finish(
            Manifest(
                contract=1,
                model="random",
                model_sha256="0" * 64,
                config={},
                weights=(),
                engine={"engine": "random"},
                versions={},
                schedule="whole",
                prompt=tokens,
                digests_only=False,
                ids=tuple(range(tokens)),
                failed=None,
                records=writer.seq,
                records_sha256=writer.digest.hexdigest(),
            )
        )


def stream(files: list[Path]) -> None:
    buffer = bytearray(BUFFER)
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass


def load_all(files: list[Path]) -> None:
    for file in files:
        file.read_bytes()


def sha256(contents: list[bytes]) -> None:
    for content in contents:
        hashlib.sha256(content).digest()


def compare(a: Path, b: Path, digests: bool) -> None:
    expected = Trace(a, with_bytes=not digests)
    report = compare_traces(expected, Trace(b, with_bytes=not digests, like=expected), digests=digests)
    if report.exit_code:
        raise SystemExit(f"Expected two equal traces but they are {report.verdict}")


def evict(files: list[Path]) -> None:
    """Let the page cache forget some files."""
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(way: Callable[[], None]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def main(
    model: Annotated[Path | None, typer.Option(help="GGUF file or Hugging Face directory")] = None,
    tokens: Annotated[int, typer.Option(min=1)] = 16,
    repeat: Annotated[int, typer.Option(min=1)] = 7,
) -> None:
    """Print a table and one line of JSON."""
    console = Console(highlight=False, width=120)
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder) / "a", Path(folder) / "b"
        if model is not None:
            loaded = load(model)
            write_trace(engine("numpy", loaded), [(7 * i) % 997 for i in range(tokens)], a)
        else:
            random_trace(a, tokens)
        shutil.copytree(a, b)
        files = [file for side in (a, b) for file in sorted(side.iterdir())]
        contents = [file.read_bytes() for file in files[: len(files) // 2]]
        size = sum(file.stat().st_size for file in files)
        ways: dict[str, Callable[[], None]] = {
            "stream": lambda: stream(files),
            "load": lambda: load_all(files),
            "sha256": lambda: sha256(contents),
            "full": lambda: compare(a, b, digests=False),
            "digests": lambda: compare(a, b, digests=True),
        }
        for way in ways.values():
            way()  # the first time pays for imports and the page cache
        rounds = []
        for _ in range(repeat):
            times = {name: seconds(way) for name, way in ways.items()}
            if hasattr(os, "posix_fadvise"):
                for name in ("stream", "full"):
                    evict(files)
                    times[f"{name} cold"] = seconds(ways[name])
            rounds.append(times)
        records = len(Trace(a).records)
    best, median = ({name: pick(r[name] for r in rounds) for name in rounds[0]} for pick in (min, statistics.median))
    table = Table("way", "best, s", "median, s", "MB/s of both traces", box=None, pad_edge=False)
    for name, s in median.items():
        table.add_row(name, f"{best[name]:.4f}", f"{s:.4f}", f"{size / s / 1e6:,.0f}")
    console.print(f"{records} tensors, {size / 2e6:.1f} MB a trace, {repeat} rounds, {os.cpu_count()} CPUs")
    console.print(table)
    ratios = {
        where: statistics.median(r[f"stream{where}"] / r[f"full{where}"] for r in rounds)
        for where in ("", " cold")
        if f"full{where}" in median
    }
    at_most = median["stream"] * (os.cpu_count() or 1) / median["sha256"]
    console.print(
        f"from the page cache, full runs at {100 * ratios['']:.0f} % of the speed of reading; "
        f"at most {100 * at_most:.0f} % with SHA-256 at {size / 2 / median['sha256'] / 1e9:.2f} GB/s"
    )
    if " cold" in ratios:
        console.print(f"from the disk, full runs at {100 * ratios[' cold']:.0f} % of the speed of reading")
    told = {
        "bench": "compare_traces",
        "model": model.name if model else "random",
        "records": records,
        "bytes": size,
        "best": {name: round(s, 5) for name, s in best.items()},
        "median": {name: round(s, 5) for name, s in median.items()},
        "full_against_stream": round(ratios[""], 3),
        "full_against_stream_at_most": round(at_most, 3),
        "full_against_stream_cold": round(ratios[" cold"], 3) if " cold" in ratios else None,
        "digests_under_2_s": median["digests"] < 2.0,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    typer.run(main)
