"""The bounds that the contract claims for exp_neg and log1p01, checked on every f32 number there is.

    python bench/exhaustive_bounds.py [--stride N]

exp_neg: all floats in [-34.5, -2^-26] at most 0.981 ulp and monotone; exactly 1.0 from there up to -2^-50.
log1p01: all floats in [2^-50, 1] at most 1.97 ulp.
An error is counted in ulps of the f32 binade that holds the true value. The true value comes from NumPy's
float64 exp and log1p: whatever implementation stands behind them is within a few float64 ulps, 2^-27 of an
f32 ulp, and so moves no digit of a claim. Ends with one line of JSON; exit code 0 if every bound holds, 1 if
one does not.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.log1p01 import log1p01

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

CHUNK = 1 << 18  # floats at a time: they and their float64 values stay in the cache


@dataclass
class Found:
    """What a sweep saw. at: the number with the largest error, as hexadecimal bits."""

    floats: int = 0
    max_ulp: float = 0.0
    at: str = ""
    monotone: bool = True


def bits(x: float) -> int:
    """The 32 bits of an f32 number."""
    return int(np.float32(x).view(np.uint32))


def floats(start: float, stop: float, stride: int) -> Iterator[F32]:
    """Every stride-th f32 number from start to stop (one sign, away from zero), and the last one."""
    first, last = bits(start), bits(stop)
    for at in range(first, last + 1, CHUNK * stride):
        yield np.arange(at, min(at + CHUNK * stride, last + 1), stride, dtype=np.uint32).view(np.float32)
    if (last - first) % stride:
        yield np.array([last], np.uint32).view(np.float32)


def sweep(
    function: Callable[[F32], F32],
    true: Callable[[F64], F64],
    start: float,
    stop: float,
    stride: int,
    bar: Progress,
) -> Found:
    """Compare the function with the truth on every stride-th float from start to stop."""
    found, edge = Found(), None
    task = bar.add_task(
        f"{function.__name__} [{start:.4g}, {stop:.4g}]", total=(bits(stop) - bits(start)) // stride + 1
    )
    for x in floats(start, stop, stride):
        y, exact = function(x), true(x.astype(np.float64))
        _, exponent = np.frexp(exact)  # exact in [2^(exponent-1), 2^exponent): an f32 ulp there is 2^(exponent-24)
        error = np.abs(np.ldexp(y.astype(np.float64) - exact, 24 - exponent))
        worst = int(np.argmax(error))
        if not error[worst] <= found.max_ulp:  # a NaN counts as worse
            found.max_ulp, found.at = float(error[worst]), f"{x[worst].view(np.uint32):08x}"
        falling = y if edge is None else np.concatenate([edge, y])
        ascending = falling[::-1] if start < 0 else falling  # away from zero is downwards below zero
        found.monotone &= bool(np.all(ascending[1:] >= ascending[:-1]))
        edge = y[-1:]
        found.floats += len(x)
        bar.advance(task, len(x))
    return found


def main(stride: Annotated[int, typer.Option(min=1, help="check every N-th float only")] = 1) -> None:
    """Check the claimed bounds; see the head of this file."""
    began = time.perf_counter()
    with Progress(console=Console(stderr=True)) as bar:
        exponential = sweep(exp_neg, np.exp, -(2.0**-26), -34.5, stride, bar)
        near_one = sweep(exp_neg, np.ones_like, -(2.0**-50), -(2.0**-26) * (1 - 2.0**-24), stride, bar)
        logarithm = sweep(log1p01, np.log1p, 2.0**-50, 1.0, stride, bar)
    holds = {
        "exp_neg at most 0.981 ulp": exponential.max_ulp <= 0.981,
        "exp_neg monotone": exponential.monotone,
        "exp_neg is 1.0 above -2^-26": near_one.max_ulp == 0.0,
        "log1p01 at most 1.97 ulp": logarithm.max_ulp <= 1.97,
    }
    record = {
        "bench": "exhaustive_bounds",
        "stride": stride,
        "exp_neg": asdict(exponential),
        "exp_neg_near_zero": asdict(near_one),
        "log1p01": asdict(logarithm),
        "failed": [claim for claim, true in holds.items() if not true],
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(json.dumps(record))
    raise typer.Exit(0 if all(holds.values()) else 1)


if __name__ == "__main__":
    typer.run(main)
