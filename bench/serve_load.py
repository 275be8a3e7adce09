"""What nodes bear at full size: a state of 512 MiB that comes, goes and is sent on, and 200 requests at one time.

    python bench/serve_load.py [-e numpy -e host]

Memory, on each engine, between two nodes: a state file of 512 MiB of arrays is imported by the first, exported again,
forked to the second and exported there. In none of these may a process grow by more than 1.1 times the state and
32 MiB, by VmHWM of /proc (Linux), which is set back before, nor keep a copy. What goes out must be what came in.

Queue, on `host` with tiny-dense: 200 requests for 16 drawn tokens, whose bodies are sent when every head has been. With
--queue 256 all must be answered; with --queue 4 some must be refused with 503 and Retry-After, and all who try again be
answered in the end. Each answer must have the ids and the logits of the same request made alone.

A line for each, then one line of JSON. Exit 1 where a line misses; 3 where the system cannot tell, or no node starts.
"""

import filecmp
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import httpx2
import numpy as np
import typer
from safetensors.numpy import save_file

import gnomon
from gnomon.decode.state_file import identity, signed
from gnomon.reference.aside import write_aside
from gnomon.reference.errors import GnomonError, NotRunError
from gnomon.reference.state import state_specs

MIB = 1 << 20
LAYERS, HEADS, HEAD_DIM, POSITIONS, VOCAB, WIDTH = 8, 8, 64, 16384, 97, 16
STATE = POSITIONS * LAYERS * 2 * HEADS * HEAD_DIM * 4  # bytes: 512 MiB
BESIDE = STATE // 10 + 32 * MIB  # bytes, beside one state
REQUESTS, TOKENS, PATIENCE = 200, 16, 300.0  # seconds until everyone has an answer
SIZES = {"vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": WIDTH, "max_position_embeddings": POSITIONS}
HEADED = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM}
FORMS = {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True}


class Lines(list[dict[str, Any]]):
    """What was found, printed as it comes."""

    def add(self, what: str, said: str, holds: bool, **numbers: Any) -> None:
        print(f"{'passed' if holds else 'MISSED'}  {what}: {said}", flush=True)
        self.append({"what": what, **numbers, "passed": holds})


class Node:
    """A process that serves until the block ends. Raises NotRunError where it does not start."""

    def __init__(self, model: str, engine: str, *options: str) -> None:
        run = [sys.executable, "-c", "from gnomon.cli import main; main()", "serve", model, "--engine", engine]
        self.process = subprocess.Popen([*run, "--port", "0", "--json", *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            code = self.process.wait()
            raise NotRunError(f"Expected a node on {engine} but it ended with exit code {code}; its words stand above")
        self.url = json.loads(line)["url"]
        limits = httpx2.Limits(max_connections=None)
        self.client = httpx2.Client(base_url=self.url, timeout=PATIENCE, limits=limits, trust_env=False, verify=False)

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def memory(self, name: str) -> int:
        """VmRSS: bytes in memory now; VmHWM: the most since it was set back."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{name}:"))

    def watch(self) -> int:
        """Set VmHWM back to what is in memory now -> bytes. Raises NotRunError where the system does not."""
        try:
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
            now, peak = self.memory("VmRSS"), self.memory("VmHWM")
        except OSError as error:
            raise NotRunError(f"Expected to set VmHWM back as on Linux but got: {error}; run on Linux") from error
        if peak > now + MIB:
            raise NotRunError(f"Expected VmHWM of {now} bytes once set back but it is {peak}; run on another kernel")
        return now


# --- memory -----------------------------------------------------------------------------------------------------------
def write_model(folder: Path) -> str:
    """A model with a wide state and small weights, as a Hugging Face directory -> its path."""
    inner = HEADS * HEAD_DIM
    shapes = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"model.layers.{i}.self_attn.{x}_proj.weight": (inner, WIDTH) for x in "qkv"}
        shapes[f"model.layers.{i}.self_attn.o_proj.weight"] = (WIDTH, inner)
        shapes |= {f"model.layers.{i}.mlp.{x}_proj.weight": (WIDTH, WIDTH) for x in ("gate", "up", "down")}
        shapes |= {f"model.layers.{i}.{x}_layernorm.weight": (WIDTH,) for x in ("input", "post_attention")}
    draw = np.random.default_rng(1)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **SIZES, **HEADED, **FORMS}))
    save_file({n: draw.standard_normal(s, np.float32) for n, s in shapes.items()}, folder / "model.safetensors")
    return str(folder)


def write_random_state(model: str, path: Path) -> None:
    """A sound state file of that model, whose keys and values are drawn and not computed."""
    engine, draw = gnomon.engine("numpy", gnomon.load(model)), np.random.default_rng(2)
    ids = [i % VOCAB for i in range(POSITIONS)]
    specs = state_specs(engine.model.config, "f32", len(ids))
    arrays = {name: draw.standard_normal(shape, np.float32) for name, (shape, _) in specs.items()}
    assert sum(array.nbytes for array in arrays.values()) == STATE
    write_aside(path, signed(identity(engine), ids, arrays).pieces())


@contextmanager
def watched(lines: Lines, what: str, nodes: dict[str, Node], taker: str = "") -> Iterator[None]:
    """How much each node grows in this block, and what stays. taker: the node that must hold the state afterwards"""
    before = {name: node.watch() for name, node in nodes.items()}
    began = time.monotonic()
    yield
    seconds = round(time.monotonic() - began, 1)
    for name, node in nodes.items():
        start, peak, kept = before[name], node.memory("VmHWM"), STATE if name == taker else 0
        until = time.monotonic() + 5  # the client has the last byte before the node is done
        while (after := node.memory("VmRSS")) > start + kept + BESIDE and time.monotonic() < until:
            time.sleep(0.05)
        holds = peak <= start + STATE + BESIDE and start + 0.9 * kept <= after <= start + kept + BESIDE
        sizes = {"before": start, "peak": peak, "bound": start + STATE + BESIDE, "after": after}
        shown = ", ".join(f"{word} {size / MIB:.1f} MiB" for word, size in sizes.items())
        lines.add(f"{what}, {name} node", f"{shown} ({seconds} s)", holds, **sizes, seconds=seconds)


def move(lines: Lines, engine: str, model: str, file: Path) -> None:
    """In, out, on to another node, and out of that one."""
    with Node(model, engine) as second, Node(model, engine, "--peer", second.url) as first:
        with watched(lines, f"{engine} import", {"first": first}, "first"), file.open("rb") as source:
            headers = {"content-type": "application/octet-stream", "content-length": str(file.stat().st_size)}
            pieces = iter(partial(source.read, MIB), b"")
            taken = first.client.post("/v1/state/import", content=pieces, headers=headers)
        export(lines, engine, first, "first", taken, file)
        with watched(lines, f"{engine} fork", {"first": first, "second": second}, "second"):
            taken = first.client.post("/v1/fork", json={"state": taken.json().get("id"), "target": second.url})
        export(lines, engine, second, "second", taken, file)


def export(lines: Lines, engine: str, node: Node, name: str, taken: httpx2.Response, sent: Path) -> None:
    """What a node holds since it said `taken`, beside what was sent."""
    got, asked = sent.with_name("exported"), {"id": taken.json().get("id", "")}
    stream = partial(node.client.stream, "GET", "/v1/state/export", params=asked)
    with watched(lines, f"{engine} export", {name: node}), stream() as reply, got.open("wb") as file:
        file.writelines(reply.iter_bytes(MIB))
    same, size = filecmp.cmp(sent, got, shallow=False), got.stat().st_size
    said = "those that were imported" if same else f"not those that were imported; the node took them with {taken.text}"
    lines.add(f"{engine} file of the {name} node", f"{size:,} bytes, {said}", same, bytes=size)


# --- queue ------------------------------------------------------------------------------------------------------------
def ask(node: Node, n: int, together: threading.Barrier | None = None) -> httpx2.Response:
    """The reply to request n, or status 599 for none. together: where its body waits for the heads of the others"""
    asked = {"prompt": f"def f{n}(" + "x, " * (n % 23), "max_tokens": TOKENS, "temperature": 0.9, "seed": n}
    body = json.dumps(asked).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}

    def content() -> Iterator[bytes]:
        if together is not None:
            together.wait(PATIENCE)
        yield body

    try:
        return node.client.post("/v1/completions", content=content(), headers=headers)
    except (httpx2.HTTPError, threading.BrokenBarrierError) as error:
        return httpx2.Response(599, text=repr(error))


def drawn(reply: httpx2.Response) -> tuple[tuple[int, ...], str] | None:
    """ids and logits_sha256, or None where there is no answer."""
    own = reply.json()["gnomon"] if reply.status_code == 200 else None
    return own and (tuple(own["ids"]), own["logits_sha256"])


def crowd(lines: Lines, queue: int) -> None:
    """Every request alone, then all at one time; a queue shorter than they are must refuse some."""
    together, busy, until = threading.Barrier(REQUESTS), list[str](), time.monotonic() + PATIENCE

    def answered(node: Node, n: int) -> httpx2.Response:
        """The last reply to one client, who tries again when told to."""
        draw, reply = random.Random(n), ask(node, n, together)
        while reply.status_code == 503 and time.monotonic() < until:
            busy.append(reply.headers.get("retry-after", "never"))
            time.sleep(int(busy[-1]) * draw.uniform(1, 2) if busy[-1].isdecimal() else 1)
            reply = ask(node, n)
        return reply

    with Node("tiny-dense", "host", "--queue", str(queue)) as node, ThreadPoolExecutor(REQUESTS) as pool:
        alone = [drawn(ask(node, n)) for n in range(REQUESTS)]
        began = time.monotonic()
        all_at_once = [drawn(reply) for reply in pool.map(partial(answered, node), range(REQUESTS))]
        seconds = round(time.monotonic() - began, 1)
    found = {
        "different": len({*alone} - {None}),  # else the answer to another request would count as equal
        "answered": sum(one is not None for one in all_at_once),
        "equal": sum(one is not None and one == other for one, other in zip(all_at_once, alone, strict=True)),
        "refused": len(busy),
        "refused_for_good": sum(not after.isdecimal() or int(after) < 1 for after in busy),
    }
    holds = found["different"] == found["answered"] == found["equal"] == REQUESTS
    holds = holds and not found["refused_for_good"] and bool(busy) == (queue < REQUESTS)
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.items())
    lines.add(f"queue {queue}", f"{REQUESTS} requests, {said} ({seconds} s)", holds, **found, seconds=seconds)


def main(
    engine: Annotated[list[str] | None, typer.Option("--engine", "-e", help="else numpy and host")] = None,
) -> None:
    """Both parts; see the head of this file."""
    lines, began = Lines(), time.monotonic()
    try:
        with TemporaryDirectory() as folder:
            model, file = write_model(Path(folder) / "wide"), Path(folder) / "state"
            write_random_state(model, file)
            for name in engine or ["numpy", "host"]:
                try:
                    move(lines, name, model, file)
                except httpx2.HTTPError as error:
                    lines.add(f"{name} node", f"Expected it to reply but got: {error!r}", False)
        for queue in (256, 4):
            crowd(lines, queue)
    except GnomonError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    missed, seconds = sum(not line["passed"] for line in lines), round(time.monotonic() - began, 1)
    print(json.dumps({"bench": "serve_load", "state": STATE, "lines": lines, "missed": missed, "seconds": seconds}))
    raise typer.Exit(bool(missed))


if __name__ == "__main__":
    typer.run(main)
