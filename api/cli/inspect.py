"""`gnomon inspect`: what a file holds."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from gnomon.cli.loaded import load
from gnomon.cli.options import JsonOption, ModelArgument, StateArgument, TraceArgument
from gnomon.cli.show import Output
from gnomon.compare.mismatch import listed
from gnomon.compare.trace_look import look_at, overview
from gnomon.compare.trace_read import Trace
from gnomon.decode.state_file import open_state
from gnomon.decode.state_header import NAMES, size
from gnomon.reference.identity import arithmetic, digest, text


def group() -> None:
    """Show what a file holds."""


def model(model: ModelArgument, as_json: JsonOption = False) -> int:
    """Config, tokenizer, weights, and the digests of both. The file is checked in full."""
    loaded = load(model)
    config = vars(loaded.config)
    tokenizer = f"{loaded.tokenizer.kind}, {loaded.tokenizer.vocab_size} ids" if loaded.tokenizer else None
    weights, touching = list(loaded.weights.values()), arithmetic(loaded)
    if as_json:
        listing = [{"name": w.name, "dtype": w.dtype, "shape": w.shape, "bytes": w.data.nbytes} for w in weights]
        print(json.dumps({"model": loaded.name, "digest": loaded.digest, "config_sha256": digest(touching),
                          "tokenizer": tokenizer, "config": asdict(loaded.config), "arithmetic": touching,
                          "weights": listing}))  # fmt: skip
        return 0
    console = Output()
    console.print(f"[bold]{loaded.name}[/]  sha256 {loaded.digest}")
    console.print(f"config sha256 {digest(touching)}, of the fields that touch arithmetic")
    reason = f"; {loaded.no_tokenizer}" if loaded.no_tokenizer else ""
    console.print(f"tokenizer: {tokenizer or 'none (token ids only)'}{reason}", markup=False)
    console.print(", ".join(f"{key} {value}" for key, value in config.items() if key != "windows"), markup=False)
    if any(window is not None for window in loaded.config.windows):
        console.print(f"windows: {' '.join(str(window or 'all') for window in loaded.config.windows)}")
    table = Table("weight", "type", "shape", "bytes", box=None, pad_edge=False)
    for w in weights:
        table.add_row(w.name, w.dtype, " x ".join(str(n) for n in w.shape), f"{w.data.nbytes:,}")
    console.print(table)
    values = sum(w.data.nbytes for w in weights)
    console.print(f"{len(weights)} weights, {values:,} bytes as stored")
    return 0


def trace(folder: TraceArgument, as_json: JsonOption = False) -> int:
    """What a trace was made from, and its tensors, one line per kind. All but the bytes is checked."""
    read = Trace(folder)
    m = read.manifest
    kinds = overview(read)
    if as_json:
        print(json.dumps({"manifest": m.to_json(), "kinds": [vars(kind) for kind in kinds]}))
        return 0
    console = Output()
    console.print(f"[bold]{m.model}[/]  sha256 {m.model_sha256}")
    console.print(f"config {text(m.config)}", markup=False)
    console.print(", ".join(f"{key} {value}" for key, value in {**m.engine, **m.versions}.items()), markup=False)
    told = f"{len(m.ids)} ids, the first {m.prompt} as the prompt, {m.schedule}: {' '.join(str(i) for i in m.ids)}"
    console.print(told, markup=False)
    if m.failed is not None:
        console.print(m.failed, markup=False)
    table = Table("tensor", "type", "records", "first shape", "values", "live", "made by", box=None, pad_edge=False)
    for kind in kinds:
        live = f"{100 * kind.live / kind.values:.1f} %" if kind.values else "-"
        row = (kind.name, kind.dtype, str(kind.records), listed(kind.shape), f"{kind.values:,}", live, kind.op)
        table.add_row(*row)
    console.print(table)
    values = "digests only" if m.digests_only else f"{len(read.shards)} shards"
    console.print(f"{m.records} records, {values}")
    return 0


def state(file: StateArgument, as_json: JsonOption = False) -> int:
    """Whose state a file holds, of which tokens, and its tensors. Every digest is checked."""
    header = open_state(file).header
    tensors = [
        {"name": n, "dtype": NAMES[dtype], "shape": shape, "bytes": size(shape, dtype), "sha256": header.sha256[n]}
        for n, (shape, dtype) in header.specs.items()
    ]
    if as_json:
        found = {"state": str(file), "payload": header.payload, **header.whose, "position": len(header.ids)}
        print(json.dumps({**found, "ids": header.ids, "tensors": tensors}))
        return 0
    console = Output(markup=False)
    console.print(f"{file}  payload sha256 {header.payload}", style="bold")
    console.print(", ".join(f"{field} {value}" for field, value in header.identity.items() if field != "config"))
    console.print(f"config {header.identity['config']}")
    console.print(f"{len(header.ids)} positions, ids {' '.join(map(str, header.ids))}")
    table = Table("tensor", "type", "shape", "bytes", box=None, pad_edge=False)
    for name, (shape, dtype) in header.specs.items():
        table.add_row(name, NAMES[dtype], " x ".join(map(str, shape)), f"{size(shape, dtype):,}")
    console.print(table)
    console.print(f"{len(tensors)} tensors, {header.nbytes:,} bytes")
    return 0


def tensor(
    folder: TraceArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="such as blocks.0.attn.q")],
    pos: Annotated[int | None, typer.Option("--pos", min=0, help="one position only")] = None,
    state: Annotated[bool, typer.Option("--state", help="of the exported state, not the tap of that name")] = False,
    first: Annotated[int, typer.Option("--first", min=1, help="how many values to spell out")] = 8,
    as_json: JsonOption = False,
) -> int:
    """One tensor of a trace: how it was made, statistics, its first values as decimal, hexadecimal float and bits."""
    views = look_at(Trace(folder), name, "state" if state else "tap", pos, first)
    if as_json:
        print(json.dumps([view.to_json() for view in views]))
        return 0
    console = Output(markup=False)
    for view in views:
        console.print(view.title, style="bold")
        console.print(view.origin)
        console.print(view.statistics)
        table = Table("index", "decimal", "hex float", "bits", box=None, pad_edge=False)
        for index, number in view.first:
            table.add_row(listed(index), number.decimal, number.hex, number.bits)
        console.print(table if view.first else "no value is stored: the trace holds digests only")
    return 0
