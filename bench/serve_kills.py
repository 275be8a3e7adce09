"""Kills while states move between nodes: what is held must be as it was, and no partial file may be left.

    python bench/serve_kills.py --kills 500

Two nodes run in folders of their own, the first may send to the second. Killed (SIGKILL, at a moment drawn from a seed)
are in turn a client that sends a state to the second node, a client that reads one from the first, and, in every fifth
round, the second node while the first sends to it; it then starts again with the ledger it had. After every kill each
conversation of both nodes is read and compared with the file that it came from, and both folders and their folders for
temporary files are looked through. Ends with one line of JSON; exit 1 where anything was otherwise.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import httpx2
import typer

import gnomon
from gnomon.decode.state_file import state_stream

BINARY = {"content-type": "application/octet-stream"}
POSITIONS = 3000  # about 1 MB of `micro`


class Node:
    """A process, started again where it was killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        (folder / "tmp").mkdir(parents=True)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", "from gnomon.cli import main; main()", "serve", "micro", "--engine", "numpy"]
        command += ["--json", "--ledger", "ledger", *self.options]
        environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}
        self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.client = httpx2.Client(base_url=self.url, timeout=60, trust_env=False, verify=False)

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def wrong(self, file: bytes) -> str:
        """What is not as it should be, or ""."""
        for one in self.client.get("/v1/state").json()["data"]:
            reply = self.client.get("/v1/state/export", params={"id": one["id"]})
            if reply.content != file:
                return f"{one['id']} holds other bytes than were sent ({reply.status_code})"
        found = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        if found != ["ledger", "tmp"]:
            return f"files are left: {found}"
        verdict = self.client.get("/v1/ledger/verify").json()
        return "" if verdict["verdict"] == "passed" else str(verdict)


def main(
    kills: Annotated[int, typer.Option("--kills", min=1)] = 500,
    seed: Annotated[int, typer.Option("--seed")] = 1,
) -> None:
    """Kill, look, kill again."""
    draw = random.Random(seed)
    engine = gnomon.engine("numpy", gnomon.load("micro"))
    _, state = engine.forward([i % 97 for i in range(POSITIONS)], want="none")
    file = b"".join(state_stream(engine, state))
    counted: Counter[str] = Counter()
    problems: list[str] = []
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        port = free_port()
        second = Node(Path(folder) / "second", "--port", str(port), "--held", "8")
        first = Node(Path(folder) / "first", "--port", "0", "--peer", f"http://127.0.0.1:{port}")
        name = first.client.post("/v1/state/import", content=file, headers=BINARY).json()["id"]
        for n in range(kills):
            kind = "target" if n % 5 == 4 else ("import", "export")[n % 2]
            if kind == "target":
                sent = threading.Thread(target=fork, args=(first.url, name, second.url))
                sent.start()
                time.sleep(draw.uniform(0, 0.05))
                second.kill()
                sent.join()
                second.start()
            elif kind == "import":
                kill_client(lambda: upload(second.url, file), draw.uniform(0, 0.04))
            else:
                kill_client(lambda: download(first.url, name), draw.uniform(0, 0.04))
            counted[kind] += 1
            problems += [f"kill {n}, {kind}: {said}" for node in (first, second) if (said := node.wrong(file))]
            if sys.stderr.isatty():
                print(f"\r{n + 1} of {kills}, {len(problems)} problems", end="", file=sys.stderr)
        for node in (first, second):
            node.kill()
    for problem in problems[:10]:
        print(problem)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"kills": kills, **counted, "bytes": len(file), "problems": len(problems), "seconds": seconds}))
    raise typer.Exit(bool(problems))


def kill_client(work: Callable[[], None], after: float) -> None:
    """Run in a process of its own, which is killed after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def upload(url: str, file: bytes) -> None:
    """In pieces, so that a kill finds it under way."""
    with connected(url) as connection:
        head = f"POST /v1/state/import HTTP/1.1\nHost: 127.0.0.1\nContent-Type: {BINARY['content-type']}\n"
        connection.sendall(f"{head}Content-Length: {len(file)}\n\n".replace("\n", "\r\n").encode())
        for start in range(0, len(file), 32768):
            connection.sendall(file[start : start + 32768])
            time.sleep(0.001)
        connection.recv(65536)


def download(url: str, name: str) -> None:
    with connected(url) as connection:
        connection.sendall(f"GET /v1/state/export?id={name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        while connection.recv(32768):
            time.sleep(0.001)


def fork(url: str, name: str, target: str) -> None:
    """It is given or refused; the target may be gone."""
    httpx2.post(f"{url}/v1/fork", json={"state": name, "target": target}, timeout=60, trust_env=False, verify=False)


def connected(url: str) -> socket.socket:
    parsed = httpx2.URL(url)
    return socket.create_connection((parsed.host, parsed.port or 80), timeout=30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


if __name__ == "__main__":
    typer.run(main)
