"""Speed, measured: steps of an engine timed beside the CPU time that they waited for, and how fast memory streams.

It measures and does not judge. Used by `gnomon bench` and, beside other people's engines, by bench/speed.py.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gnomon.gates.cache import last_level_cache
from gnomon.gpu.host_library import Team
from gnomon.gpu.host_memory import aligned
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State

SHARE = 0.95  # of the CPU time it asked for that a sample must have got
PAUSE = 0.02  # seconds before a sample, in which the threads of whatever ran before stop to spin
PASSES = 3  # over the streaming buffer; the fastest counts
STEPS = 16  # of one token: a sample of decode
SMALLEST = 256 << 20  # bytes of the streaming buffer, at least


@dataclass(frozen=True)
class Sample:
    """seconds: by the clock; share: CPU time over CPU time and time in the queue for a CPU, over all threads"""

    seconds: float
    share: float


@dataclass(frozen=True)
class Way:
    """One thing to time. work: what is timed; size: the tokens or bytes it gets through; prepare: before it, untimed;
    every: in each so many-th round; times: one after the other, of which the fastest counts"""

    work: Callable[[], object]
    size: int
    prepare: Callable[[], object] = bool
    every: int = 1
    times: int = 1


Round = dict[str, Sample]
Figures = dict[str, float | None]


class Runner(Protocol):
    """An engine as the measurements see it, ours or another."""

    def prefill(self, length: int) -> None:
        """From nothing, one pass over `length` tokens to the logits of the last."""

    def stand(self, position: int) -> None:
        """Be ready to decode at a position; warm."""

    def decode(self, tokens: int) -> None:
        """So many steps of one given token each, from where it stands."""


class EngineRunner:
    """One of our engines: whole `Engine.step`s, with the Python around them. ids: as many as the longest prefill"""

    def __init__(self, engine: Engine[Any], ids: Sequence[int]) -> None:
        self.engine = engine
        self.ids = list(ids)
        self.states: dict[int, State] = {}
        self.at = engine.new()

    def prefill(self, length: int) -> None:
        state = self.engine.new()
        self.engine.step(Rows.of([(state, self.ids[:length])]))
        self.states.setdefault(length, state)

    def stand(self, position: int) -> None:
        if position and position not in self.states:
            self.prefill(position)
        self.at = self.engine.fork(self.states[position]) if position else self.engine.new()
        self.decode(1)

    def decode(self, tokens: int) -> None:
        for token in self.ids[:tokens]:
            self.engine.step(Rows.of([(self.at, [token])]))


class Stream:
    """A buffer of four last-level caches or more, read by the threads of a team."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.nbytes = max(SMALLEST, 4 * last_level_cache())
        self.buffer = aligned((self.nbytes // 4,), np.float32)
        self.buffer.fill(1.0)

    def read(self) -> float:
        """One pass; the sum that it adds up"""
        read = self.team.built.library.stream_read
        total: float = read(self.team.handle, self.buffer.ctypes.data, self.buffer.size)
        return total

    @property
    def way(self) -> Way:
        return Way(self.read, self.nbytes, times=PASSES)


def timed(work: Callable[[], object]) -> Sample:
    """Seconds of one call, and the share of the CPU time asked for that it got."""
    before = cpu_times()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    ran, waited = (b - a for a, b in zip(before, cpu_times(), strict=True))
    return Sample(seconds, ran / (ran + waited) if ran + waited > 0 else 1.0)


def cpu_times() -> tuple[float, float]:
    """Seconds that the threads of this process have run, and that they stood in the queue for a CPU: the others' doing.
    Where the system does not tell (only Linux does), nobody waits."""
    ran = waited = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            words = file.read_text("ascii").split()
        except OSError:  # the thread has ended
            continue
        ran, waited = ran + int(words[0]), waited + int(words[1])
    return (ran / 1e9, waited / 1e9) if ran else (time.process_time(), 0.0)


def others_share(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Between two `busy_times`: the part of all CPU time that other processes and other machines took"""
    own, whole = (b - a for a, b in zip(before, after, strict=True))
    return max(0.0, 1.0 - own / whole) if whole > 0 else 0.0


def busy_times() -> tuple[float, float]:
    """Seconds that this process has run, and seconds that all CPUs were busy or stolen; no difference off Linux"""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return time.process_time(), time.process_time()
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, stat.read_text("ascii").split()[1:9])
    return time.process_time(), (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def ways(runner: Runner, positions: Sequence[int], prefills: Sequence[int], every: int = 1) -> dict[str, Way]:
    """decode@P and prefill@N of a runner. every: for the prefills after the first, which take long"""
    out = {f"decode@{p}": Way(partial(runner.decode, STEPS), STEPS, partial(runner.stand, p)) for p in positions}
    for i, n in enumerate(prefills):
        out[f"prefill@{n}"] = Way(partial(runner.prefill, n), n, every=every if i else 1)
    return out


def rounds(made: Mapping[str, Way], seconds: float, least: int = 2) -> Iterator[Round]:
    """Every way in turn, again and again, until the time is up and `least` rounds are done."""
    began = time.perf_counter()
    for number in count():
        if number >= least and time.perf_counter() - began >= seconds:
            return
        found = {}
        for name, way in made.items():
            if number % way.every == 0:
                time.sleep(PAUSE)
                way.prepare()
                found[name] = min((timed(way.work) for _ in range(way.times)), key=lambda sample: sample.seconds)
        yield found


def speed(done: Sequence[Round], name: str, size: int, share: float = SHARE) -> Figures:
    """Sizes per second of one way. median, best, p90 (nine samples of ten are no faster): of the samples that got their
    share of CPU time, None where none did; samples, discarded: how many did and did not"""
    every = [r[name] for r in done if name in r]
    kept = [size / s.seconds for s in every if s.share >= share]
    found = {"median": np.median(kept), "best": max(kept), "p90": np.percentile(kept, 90)} if kept else {}
    told: Figures = {key: _round(found.get(key)) for key in ("median", "best", "p90")}
    return told | {"samples": len(kept), "discarded": len(every) - len(kept)}


def ratio(done: Sequence[Round], a: str, b: str, scale: float = 1.0, share: float = SHARE) -> Figures:
    """How many times as fast `a` is as `b`, times scale: median, least, most of the rounds where both got theirs"""
    both = [(r[a], r[b]) for r in done if a in r and b in r]
    pairs = [scale * y.seconds / x.seconds for x, y in both if min(x.share, y.share) >= share]
    found = {"median": np.median(pairs), "least": min(pairs), "most": max(pairs)} if pairs else {}
    told: Figures = {key: _round(found.get(key)) for key in ("median", "least", "most")}
    return told | {"pairs": len(pairs), "discarded": len(both) - len(pairs)}


def _round(value: float | None) -> float | None:
    """Four digits: a clock is no better."""
    return None if value is None else float(f"{value:.4g}")


def token_bytes(engine: Engine[Any]) -> int:
    """Bytes of weights that a step of one token reads: every matrix as the engine holds it, else as it is stored. Norms
    and the rows of tables are left out. Raises UsageError for a mixture, which reads what the values ask for."""
    if engine.model.config.moe is not None:
        raise UsageError(f"Expected a model without experts for bytes per token but {engine.model.name} has some")
    held = 0
    for name, weight in engine.model.weights.items():
        if weight.role == "linear":
            held += int(getattr(engine.weights[name], "nbytes", weight.data.nbytes))
    return held


def position_bytes(engine: Engine[Any]) -> int:
    """Bytes of keys and values that a step reads for each position behind it"""
    config = engine.model.config
    size = {"f32": 4, "bf16": 2, "int8": 1}[engine.ops.describe().get("kv", "f32")]
    return 2 * config.kinds.count("attention") * config.kv_heads * config.head_dim * size


def token_ids(vocab: int, length: int) -> list[int]:
    """Ids to read that repeat late: text means nothing to a clock"""
    return [(7919 * i + 11) % vocab for i in range(length)]


def fitting(lengths: Sequence[int], room: int, what: str) -> list[int]:
    """Those that a model of `room` positions can take. Raises UsageError where none can."""
    fit = [n for n in lengths if n <= room]
    if not fit:
        raise UsageError(f"Expected a {what} of at most {room} positions but got {', '.join(map(str, lengths))}")
    return fit
