"""What a token costs, op by op: the plan of the host engine run pool by pool, a clock around each.

A pool is what one dispatch takes: instructions that do not wait for each other. Run alone it pays for a dispatch of its
own, which is measured with an empty plan and taken off. The pools' sum is a little more than a step: a barrier inside a
plan is cheaper than waking a team.
"""

import ctypes
import statistics
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from gnomon.gpu.host_build import build
from gnomon.gpu.host_engine import HostEngine
from gnomon.gpu.host_library import FORMATS, OPS, Instruction, Step, Team
from gnomon.measure import EngineRunner, timed

REPEAT = 200
EMPTY = -1  # an op that no kernel has: no task


def dispatch(team: Team) -> dict[str, float]:
    """Microseconds of an empty plan, called from Python, and of one barrier in a plan."""
    plan = (Instruction * 101)(*(Instruction(op=EMPTY, last=1) for _ in range(101)))
    none, one, many = (quickest(lambda n=n: team.run(plan, Step(), 0, n)) for n in (0, 1, 101))  # type: ignore[misc]
    return {"empty_plan": round(none * 1e6, 3), "barrier": round((many - one) / 100 * 1e6, 3)}


def quickest(work: Any) -> float:
    """Median seconds of a short call."""
    times = []
    for _ in range(REPEAT):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def op_costs(engine: HostEngine, ids: list[int], position: int, tokens: int) -> dict[str, Any]:
    """Microseconds per token at a position, medians over tokens: of each kind of pool, {"op", "count", "us"}, the
    dearest first; of the native part of a step; of the Python around it"""
    team, runner = engine.host.team, EngineRunner(engine, ids)
    free = dispatch(team)["empty_plan"]
    pools: list[Counter[str]] = []
    counts: Counter[str] = Counter()

    def by_pool(plan: Any, step: Step, start: int = 0, stop: int | None = None) -> None:
        spent, end = Counter[str](), len(plan) if stop is None else stop
        counts.clear()
        while start < end:
            after = start + 1
            while after < end and not plan[after - 1].last:
                after += 1
            began = time.perf_counter()
            Team.run(team, plan, step, start, after)
            name = label([plan[i] for i in range(start, after)])
            spent[name] += (time.perf_counter() - began) * 1e6 - free  # type: ignore[assignment]
            counts[name] += 1
            start = after
        pools.append(spent)

    native: list[float] = []

    def whole(plan: Any, step: Step, start: int = 0, stop: int | None = None) -> None:
        began = time.perf_counter()
        Team.run(team, plan, step, start, stop)
        native.append((time.perf_counter() - began) * 1e6)

    runner.stand(position)
    try:
        team.run = whole  # type: ignore[method-assign]
        steps = [timed(lambda: runner.decode(1)).seconds * 1e6 for _ in range(tokens)]
        team.run = by_pool  # type: ignore[method-assign]
        runner.stand(position)
        pools.clear()
        for _ in range(tokens):
            runner.decode(1)
    finally:
        del team.run  # the method again
    rows = [{"op": n, "count": counts[n], "us": round(statistics.median(p[n] for p in pools), 2)} for n in counts]
    around = statistics.median(step - inside for step, inside in zip(steps, native, strict=True))
    return {
        "position": position,
        "native_us": round(statistics.median(native), 1),
        "python_us": round(around, 1),
        "ops": sorted(rows, key=lambda r: -float(r["us"])),
    }


def label(pool: list[Instruction]) -> str:
    """The pool by its ops: linear Q4M 576 x 1536 (two of them: "2 linear")"""
    names = Counter(
        f"linear {FORMATS[i.format]} {i.n[0]} -> {i.n[1]}" if OPS[i.op] == "linear" else OPS[i.op] for i in pool
    )
    return " + ".join(f"{n} {name}" if n > 1 else name for name, n in names.items())


@cache
def peak_library() -> ctypes.CDLL:
    lib = build((Path(__file__).parent / "peak.cpp").read_text("ascii"), {}).library
    lib.mul_add.argtypes, lib.mul_add.restype = [ctypes.c_int64], ctypes.c_double
    return lib


def peak(threads: int, rounds: int = 4_000_000) -> float:
    """Products with a sum each per second, unfused, over so many threads: the sum of what each does at once."""
    done: list[float] = []

    def work() -> None:
        began = time.perf_counter()
        pairs = peak_library().mul_add(rounds)
        done.append(pairs / (time.perf_counter() - began))

    team = [threading.Thread(target=work) for _ in range(threads)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return sum(done)
