"""Batteries that need words of their own: zeros, NaN, and the mode of the thread."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.probe_cases import Finding, Verdict, bits, hexadecimal, spoken
from gnomon.reference.device import Device
from gnomon.reference.errors import NotRunError
from gnomon.reference.guard import refuse_flush_to_zero

F32 = NDArray[np.float32]
# operation, inputs, what IEEE 754 gives in round to nearest
ZEROS = (
    ("add", (-0.0, 0.0), 0.0),
    ("add", (-0.0, -0.0), -0.0),
    ("add", (1.5, -1.5), 0.0),
    ("mul", (-0.0, 1.0), -0.0),
    ("mul", (0.0, -1.0), -0.0),
    ("mul", (-0.0, -1.0), 0.0),
    ("div", (-0.0, 2.0), -0.0),
    ("div", (0.0, -2.0), -0.0),
    ("sqrt", (-0.0,), -0.0),
    ("rint", (-0.25,), -0.0),
    ("mul_add", (-0.0, 1.0, -0.0), -0.0),
    ("mul_add", (1.5, 1.0, -1.5), 0.0),
)


def row(x: float) -> F32:
    """Enough of one value for a vector and its tail"""
    return np.full(19, x, np.float32)


def signed_zeros(device: Device) -> Finding | None:
    """The sign of zeros. The contract never shows it."""
    wrong, count = "", [0, 0]
    for name, inputs, expected in ZEROS:
        operation = device.find(name)
        if operation is None:
            continue
        got = np.asarray(operation(*(row(x) for x in inputs)))
        same = got.dtype == np.float32 and bool((bits(got) == bits(row(expected))).all())
        count[0] += not same
        count[1] += 1
        if not same and not wrong:
            given = " ".join(hexadecimal(np.float32(x)) for x in inputs)
            wrong = f"{name}: {given} => {hexadecimal(got[0])}  expected: {hexadecimal(np.float32(expected))}"
    if not count[1]:
        return None
    return Finding("signed zeros", "told", "differs" if wrong else "exact", count[0], count[1], wrong)


def chosen(first: bool, second: bool) -> str:
    """Whether a NaN as the first and as the second operand comes through"""
    return {(True, True): "NaN wins", (False, False): "NaN loses"}.get(
        (first, second), "the first wins" if first else "the second wins"
    )


def nan_operands(device: Device) -> Finding | None:
    """Maximum and minimum of NaN and a number. The contract promises no byte after a NaN; engines report it."""
    words = []
    for name in ("maximum", "minimum"):
        operation = device.find(name)
        if operation is not None:
            nan, one = row(np.nan), row(1.0)
            words.append(
                (name, chosen(bool(np.isnan(operation(nan, one)).all()), bool(np.isnan(operation(one, nan)).all())))
            )
    return Finding("NaN operands", "told", spoken(words), 0, 2 * len(words)) if words else None


def leaked_mode() -> Finding:
    """Whether a library loaded earlier made this thread, or one that starts now, flush subnormals.

    The device's own threads show in its batteries of subnormals.
    """
    with ThreadPoolExecutor(1) as pool:
        where = [("this thread", flushing()), ("a new thread", pool.submit(flushing).result())]
    bad = [name for name, flushes in where if flushes]
    verdict: Verdict = "FAIL" if bad else "PASS"
    return Finding("flush mode leaked", verdict, f"in {' and '.join(bad)}" if bad else "none", len(bad), len(where))


def flushing() -> bool:
    try:
        refuse_flush_to_zero()
    except NotRunError:
        return True
    return False


SPECIAL: tuple[Callable[[Device], Finding | None], ...] = (signed_zeros, nan_operands)
