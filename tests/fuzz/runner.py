"""Cases in forked processes: each within a limit of memory and of time, each judged by what it leaves behind."""

import faulthandler
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from select import select

import typer.main

from fuzz import node
from fuzz.kinds import made
from fuzz.making import Case
from gnomon.cli import app, main
from gnomon.reference import library_tokenizer, own_code
from gnomon.serve.connections import Server

ADDRESSES = 3 << 30  # bytes that a process may map
RESIDENT = 640 << 20  # bytes that a case may have in memory, those of the program (about 150 MB) included
HANG = 20.0  # seconds after which a case counts as one that never ends
BATCH = 50  # cases to a process
COMMAND = typer.main.get_command(app)  # built once: to build it takes longer than most cases
LONGEST = 8 << 10  # bytes of what is said on stderr
Plant = Callable[[], object]


@dataclass(frozen=True)
class Finding:
    """number: of the case; what: in a few words; detail: what it printed"""

    number: int
    kind: str
    what: str
    words: str
    detail: str


@dataclass
class Found:
    findings: list[Finding] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)  # "kind code" of those that passed
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)


@dataclass
class Worker:
    pid: int
    pipe: int
    left: list[int]
    folder: Path
    buffer: bytes = b""
    last: float = 0.0


class Fuzzer:
    """seeds: sound files; work: an empty folder; plant: a fault to put into each process, to see that it is found"""

    def __init__(
        self,
        seed: int,
        seeds: Path,
        work: Path,
        *,
        hang: float = HANG,
        plant: Plant | None = None,
        only: str | None = None,
    ) -> None:
        self.seed, self.seeds, self.work, self.hang, self.plant, self.only = seed, seeds, work, hang, plant, only

    def run(
        self, numbers: Iterable[int], jobs: int = 1, told: Callable[[int, Found], object] = lambda done, found: None
    ) -> Found:
        """All cases. told: hears how many are done, after each batch"""
        waiting, found, done = list(numbers), Found(), 0
        workers: list[Worker] = []
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(self.start(waiting[:BATCH]))
                del waiting[:BATCH]
            ready, _, _ = select([w.pipe for w in workers], [], [], 0.5)
            for w in list(workers):
                ended = w.pipe in ready and self.heard(w, found)
                late = not ended and time.monotonic() - w.last > self.hang
                if ended or late:
                    before = len(w.left)
                    self.end(w, found, late)
                    workers.remove(w)
                    waiting[:0] = w.left
                    done += min(BATCH, before) - len(w.left)
                    told(len(found.findings) + found.codes.total(), found)
        return found

    def start(self, numbers: list[int]) -> Worker:
        out, into = os.pipe()
        folder = Path(tempfile.mkdtemp(dir=self.work))
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings(action="ignore"):
            pid = os.fork()
        if pid == 0:
            os.close(out)
            try:
                self.work_on(numbers, into, folder)
            except BaseException:
                traceback.print_exc(file=(folder / "broken").open("w"))
            finally:
                os._exit(3)
        os.close(into)
        return Worker(pid, out, list(numbers), folder, last=time.monotonic())

    def heard(self, w: Worker, found: Found) -> bool:
        """Read what a process says. True at its end."""
        data = os.read(w.pipe, 1 << 16)
        w.buffer += data
        *lines, w.buffer = w.buffer.split(b"\n")
        for line in lines:
            w.last = time.monotonic()
            said = json.loads(line)
            number = w.left.pop(0)
            assert said["number"] == number
            if said["what"]:
                found.findings.append(Finding(number, said["kind"], said["what"], said["words"], said["detail"]))
            else:
                found.codes[f"{said['kind']} {said['code']}"] += 1
            found.slowest = max(found.slowest, (said["seconds"], number))
            found.largest = max(found.largest, (said["peak"], number))
        return not data

    def end(self, w: Worker, found: Found, late: bool) -> None:
        """Of a process that is through, or died, or has to."""
        if late:
            os.kill(w.pid, signal.SIGUSR1)  # it writes where it is
            time.sleep(0.2)
            os.killpg(w.pid, signal.SIGKILL)
        _, status = os.waitpid(w.pid, 0)
        os.close(w.pipe)
        if w.left:
            number, case = w.left.pop(0), w.folder / "case"
            what = f"no end within {self.hang:g} seconds" if late else f"ended by {how(status)}"
            words = case.read_text() if case.exists() else "?"
            kind, _, words = words.partition(" ")
            detail = "".join(
                (w.folder / name).read_text("utf-8", "replace")
                for name in ("err", "broken")
                if (w.folder / name).exists()
            )
            found.findings.append(Finding(number, kind, what, words, detail[-6000:]))
        shutil.rmtree(w.folder, ignore_errors=True)

    def work_on(self, numbers: list[int], pipe: int, folder: Path) -> None:
        """In the process of its own."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.resetwarnings()
        warnings.simplefilter("always")
        for category in (ResourceWarning, DeprecationWarning, PendingDeprecationWarning):  # which Python does not show
            warnings.simplefilter("ignore", category)
        library_tokenizer.LOAD_SECONDS, library_tokenizer.SECONDS = 3.0, 1.0
        Server.run = lambda *_, **__: None  # type: ignore[method-assign]  # a node that started would not end
        typer.main.get_command = lambda _: COMMAND
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        streams = [os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_APPEND) for name in ("out", "err")]
        faulthandler.enable(streams[1])
        faulthandler.register(signal.SIGUSR1, streams[1])
        if self.plant is not None:
            self.plant()
        for number in numbers:
            own = folder / str(number)
            own.mkdir()
            (folder / "case").unlink(missing_ok=True)
            case = made(self.seed, number, self.seeds, own, self.only)
            (folder / "case").write_text(f"{case.kind} {spelled(case)}", errors="replace")
            began, what, code = time.monotonic(), "", "-"
            reset_peak()
            try:
                code = run(case, own, self.seeds, streams)
                what = wrong(case, own, code, streams)
            except BaseException as error:
                what = f"raised {type(error).__name__}"
                os.write(streams[1], traceback.format_exc().encode("utf-8", "replace"))
            peak = peak_bytes()
            if not what and peak > RESIDENT:
                what = f"took {peak >> 20} MiB of memory"
            said = {
                "number": number,
                "kind": case.kind,
                "what": what,
                "code": str(code),
                "peak": peak,
                "words": spelled(case),
            }
            said |= {"seconds": time.monotonic() - began, "detail": printed(streams)[-6000:] if what else ""}
            os.write(pipe, json.dumps(said).encode() + b"\n")
            shutil.rmtree(own)
        os._exit(0)


def how(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"


def run(case: Case, folder: Path, seeds: Path, streams: list[int]) -> object:
    """The exit code of a command line, or what is wrong with the answers of a node ("")."""
    for stream in streams:
        os.ftruncate(stream, 0)
    os.dup2(streams[0], 1)
    os.dup2(streams[1], 2)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)
    (folder / "tmp").mkdir()
    tempfile.tempdir = str(folder / "tmp")
    os.chdir(folder / "out")
    own_code.named.clear()
    if case.requests is not None:
        return node.answer(case.requests, seeds, lambda text: print(text.encode("utf-8", "replace").decode()))
    sys.argv = ["gnomon", *case.words]
    try:
        main()
    except SystemExit as left:
        return left.code or 0
    return 0


def wrong(case: Case, folder: Path, code: object, streams: list[int]) -> str:
    """What is wrong with how a case ended; "" for nothing."""
    out, err = (os.pread(stream, 64 << 20, 0).decode("utf-8", "replace") for stream in streams)
    if "Traceback (most recent call last)" in err or "gnomon itself failed" in err:
        return "a traceback"
    if case.requests is not None:
        return str(code)
    if code not in (0, 1, 2, 3):
        return f"exit code {code!r}"
    if "Warning: " in err:
        return "a warning of Python"
    if len(err) > LONGEST + 2 * sum(map(len, case.words)):  # what was typed may be said again
        return f"{len(err)} characters on stderr"
    if code != 0 and not out and not err:
        return f"exit code {code} without a word"
    if case.words[-1:] == ["--json"] and (out or code == 0) and (loose := node.strict(out)):
        return loose
    left = [path for path in folder.rglob("*") if path.name.endswith(".partial") or path.parent == folder / "tmp"]
    if left or (code == 2 and any((folder / "out").iterdir())):
        return f"left {', '.join(str(path.relative_to(folder)) for path in left or (folder / 'out').iterdir())}"
    return ""


def printed(streams: list[int]) -> str:
    return "".join(os.pread(stream, 64 << 20, 0).decode("utf-8", "replace") for stream in streams)


def spelled(case: Case) -> str:
    """For the eye."""
    text = " ".join(word if len(word) < 200 else f"{word[:200]}..." for word in case.words)
    return (
        (text or f"{len(case.requests.asked) if case.requests else 0} requests")
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory since `reset_peak`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
