"""Settling holds what it promises: no op of the reference meets a subnormal; flushing them changes no byte.

Every case whose values lie about the floor, cancelling pairs among them, runs in a thread that flushes
subnormals to zero, and with underflow as an error.
"""

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal

import numpy as np
import pytest

import cases
from cases import Case
from gnomon.compare.same import assert_same_bytes
from gnomon.models import micro
from gnomon.reference import ops as reference_ops
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.settle import settle
from running import LONG, STORAGES

FLUSH = 1 << 15 | 1 << 6  # MXCSR: results (FTZ) and operands (DAZ)
SOURCE = """
#include <immintrin.h>
unsigned read_mxcsr(void) { return _mm_getcsr(); }
void write_mxcsr(unsigned value) { _mm_setcsr(value); }
"""

TINY = [case for case in cases.OPS + cases.ELEMENTARY if "tiny" in case.name or "floor" in case.name]
Flushed = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Flushed:
    """Makes a context in which this thread flushes subnormals; small cases start no other thread."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip(f"flush-to-zero is set through MXCSR, which {platform.machine()} does not have")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) to set MXCSR with")
    folder: Path = tmp_path_factory.mktemp("mxcsr")
    (folder / "mxcsr.c").write_text(SOURCE)
    library = folder / "mxcsr.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, folder / "mxcsr.c"], check=True)
    mxcsr = ctypes.CDLL(str(library))
    mxcsr.read_mxcsr.restype = ctypes.c_uint
    mxcsr.write_mxcsr.argtypes, mxcsr.write_mxcsr.restype = [ctypes.c_uint], None

    @contextmanager
    def flushing() -> Iterator[None]:
        before = mxcsr.read_mxcsr()
        mxcsr.write_mxcsr(before | FLUSH)
        try:
            yield
        finally:
            mxcsr.write_mxcsr(before)

    return flushing


def test_flushing_is_on_where_it_is_asked_for(flushed: Flushed) -> None:
    """What the tests below would see: products of unsettled differences."""
    x, y = np.full(40, 2.0**-45, np.float32), np.full(40, 2.0**-45 * (1 + 2.0**-23), np.float32)

    def careless() -> np.ndarray:
        return (x - y) * (x - y) * np.float32(2.0**60)

    usual, smallest = careless(), np.full(40, 2.0**-149, np.float32)
    with flushed():
        flushing, operands = careless(), smallest * np.float32(2.0**100)
    assert np.all(usual == 2.0**-76)
    assert not np.any(flushing)
    assert not np.any(operands)
    assert np.all(smallest * np.float32(2.0**100) > 0)


@pytest.mark.parametrize("case", TINY, ids=str)
def test_flushing_subnormals_changes_no_bit(flushed: Flushed, case: Case) -> None:
    case.run(NumpyOps())  # makes the rotary tables, which are no op
    with flushed():
        got = case.run(NumpyOps())
    for name, expected in case.expected.items():
        assert_same_bytes(got[name], expected, f"{case} {name}", sparse=True)


@pytest.mark.parametrize("case", TINY, ids=str)
def test_no_intermediate_underflows(case: Case) -> None:
    with np.errstate(under="raise"):  # an underflow raises FloatingPointError, as the next test sees
        assert case.run(NumpyOps()).keys() >= case.expected.keys()


def test_an_underflow_is_seen() -> None:
    """The cube of gelu_tanh without its inner settle: harmless there, and what the test above must notice."""
    x = np.full(40, 2.0**-50 * 1.1, np.float32)
    with np.errstate(under="raise"):
        settle(x * x) * x
        with pytest.raises(FloatingPointError, match="underflow"):
            (x * x) * x


@pytest.mark.parametrize("form", STORAGES)
def test_flushing_subnormals_changes_no_logit(flushed: Flushed, form: Literal["f32", "bf16", "int8"]) -> None:
    ids = LONG[:140]
    engine = Engine("numpy", micro(), NumpyOps(form, form))
    expected, _ = engine.forward(ids, want="all")
    with flushed():
        got, _ = engine.forward(ids, want="all")
    assert_same_bytes(got, expected, "logits")


# Files in gnomon.reference.ops that are not called like the op of their cases.
OPS_OF = {
    "arms": {"linear_bf16", "linear_int8"},
    "bf16": {"kv_bf16"},
    "chunked": {"chunked_sum"},
    "delta_gates": {"delta_decay"},
    "mixture": {"route", "experts"},
    "quant": {"kv_int8"},
    "tiling": {"linear"},
}
NO_ARITHMETIC = {"embed"}  # it reads a table
INTEGERS = {"sample"}  # its three f32 steps are exp_neg, settle and a division by at most 2^20: nothing can underflow


def test_no_op_of_the_reference_is_left_out() -> None:
    """An op is a file in gnomon.reference.ops; each needs a case called "tiny" in tests/cases."""
    files = {module.name for module in iter_modules(reference_ops.__path__)} - NO_ARITHMETIC - INTEGERS - {"settle"}
    expected = set().union(*(OPS_OF.get(file, {file}) for file in files))
    assert expected <= {case.op for case in TINY}
