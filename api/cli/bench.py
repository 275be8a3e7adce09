"""`gnomon bench`: how fast an engine decodes and prefills here, beside how fast memory streams."""

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import ArmOption, EngineOption, JsonOption, KvOption, ModelArgument
from gnomon.cli.show import Output
from gnomon.gpu import host
from gnomon.gpu.host_library import Team, library
from gnomon.measure import (
    SHARE,
    STEPS,
    EngineRunner,
    Round,
    Stream,
    busy_times,
    fitting,
    others_share,
    position_bytes,
    ratio,
    rounds,
    speed,
    token_bytes,
    token_ids,
    ways,
)
from gnomon.reference.engine import Engine

POSITIONS = (0, 512, 2048)
PREFILL = (512,)
STREAM = "stream"


def command(
    model: ModelArgument,
    engine: EngineOption = "fast",
    position: Annotated[list[int] | None, typer.Option(min=0, help="decode from here; else 0, 512 and 2048")] = None,
    prefill: Annotated[list[int] | None, typer.Option(min=1, help="tokens in one pass; else 512")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="to measure for; one round of everything at least")] = 20.0,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="of the CPU time it asked for: a sample that got less is discarded")
    ] = SHARE,
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Measure tokens/s and the share of memory bandwidth. Exit 3 where other processes left no sample to count."""
    running = make_engine(engine, load(model), arm, kv)
    room = running.model.config.max_positions
    positions = fitting(position or POSITIONS, room - STEPS - 1, "position to decode from")
    lengths = fitting(prefill or PREFILL, room, "prefill") if prefill or room >= PREFILL[0] else [room]
    stream = Stream(team_of(running)) if host.available() is None else None
    made = {} if stream is None else {STREAM: stream.way}
    made |= ways(
        EngineRunner(running, token_ids(running.model.config.vocab, max(STEPS, *positions, *lengths))),
        positions,
        lengths,
    )
    done: list[Round] = []
    busy, began = busy_times(), time.perf_counter()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{running.name} on {running.model.name}", total=seconds)
        for found in rounds(made, seconds, least=1):
            done.append(found)
            bar.update(task, completed=time.perf_counter() - began)
    others = others_share(busy, busy_times())
    rows = [row(running, done, name, made[name].size, stream, share) for name in made if name != STREAM]
    streamed = None if stream is None else speed(done, STREAM, stream.nbytes, share)["best"]
    from gnomon.gates import receipt  # no other verb waits for it

    about: dict[str, Any] = {"model": running.model.name, "engine": running.name, **running.ops.describe()}
    about |= {"cpu": receipt.processor(), "stream_bytes_per_second": streamed, "rounds": len(done)}
    about |= {"others_share": round(others, 3), "least_share": share}
    if as_json:
        print(json.dumps({"bench": "engine", **about, "ways": rows}))
    else:
        show(rows, about)
    return 0 if any(r["tokens_per_second"]["samples"] for r in rows) else 3


def team_of(running: Engine[Any]) -> Team:
    """As many threads as the engine says it has, else one."""
    return Team(library(), int(running.ops.describe().get("threads", 1)))


def row(
    running: Engine[Any], done: list[Round], name: str, size: int, stream: Stream | None, share: float
) -> dict[str, Any]:
    """One way: its speed; of decode also the bytes of a token and their rate against the streaming rate"""
    what, _, at = name.partition("@")
    out: dict[str, Any] = {"way": what, "at": int(at), "tokens_per_second": speed(done, name, size, share)}
    if what == "decode" and running.model.config.moe is None:
        nbytes = token_bytes(running) + position_bytes(running) * int(at)
        out["bytes_per_token"] = nbytes
        if stream is not None:
            out["share_of_stream"] = ratio(done, name, STREAM, nbytes * size / stream.nbytes, share)
    return out


def show(rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    console = Output(soft_wrap=True)
    table = Table("way", "at", "tokens/s", "best", "p90", "GB/s", "of streaming", "samples", box=None, pad_edge=False)
    for r in rows:
        s, nbytes = r["tokens_per_second"], r.get("bytes_per_token")
        rate = None if s["median"] is None or nbytes is None else s["median"] * nbytes / 1e9
        part = r.get("share_of_stream", {}).get("median")
        samples = f"{s['samples']}" + (f", {s['discarded']} discarded" if s["discarded"] else "")
        told = [*(shown(s[k]) for k in ("median", "best", "p90")), shown(rate)]
        table.add_row(r["way"], str(r["at"]), *told, "-" if part is None else f"{100 * part:.0f} %", samples)
    console.print(table)
    rate = about["stream_bytes_per_second"]
    told = [
        f"{about['engine']} on {about['model']}, threads {about.get('threads', 1)}, {about['cpu']}",
        "streaming not measured" if rate is None else f"streaming read {rate / 1e9:.1f} GB/s",
        f"{about['rounds']} rounds; other processes took {100 * about['others_share']:.0f} % of the busy CPU time",
    ]
    console.print(f"\n{'; '.join(told)}", markup=False)
    if any(r["tokens_per_second"]["discarded"] for r in rows):
        least = f"{100 * about['least_share']:.0f} %"
        console.print(f"Samples that got less than {least} of the CPU time they asked for are discarded.")


def shown(value: float | None) -> str:
    """Four digits, or a dash for what was not measured"""
    return "-" if value is None else f"{value:.4g}"
