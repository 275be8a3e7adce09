"""What only the MLX array engine has: an optional package, the device's own rounding, tiles, lazy arrays, threads."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.gpu import mlx_array
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.chunked import chunked_dot
from gnomon.reference.ops.settle import settle
from running import attention_only

IDS = [(7 * i * i + 3 * i + 11) % 97 for i in range(9)]  # more than the window of 5

# One correctly rounded step, an exact one, or a change of layout. `max` and `maximum` select.
ARITHMETIC = {"abs", "isnan", "left_shift", "max", "maximum", "round", "sqrt", "where"}
LAYOUT = {"array", "concatenate", "contiguous", "moveaxis", "pad", "put_along_axis", "repeat", "split", "stack"}
LAYOUT |= {"take_along_axis", "zeros", "zeros_like", "float32", "int8", "int32", "uint16", "uint32"}
CONTROL = {"async_eval", "default_device", "device_info", "eval", "metal"}
MODULES: dict[str, set[str]] = {
    "mlx_math": set(),
    "mlx_layers": set(),
    "mlx_array_ops": set(),
    "mlx_arms": {"matmul"},  # of small integers: exact in any order
}
# Methods of an array whose order of addition, or whose polynomial, is not the contract's.
OTHER_BYTES = {
    "cumsum",
    "exp",
    "log",
    "logsumexp",
    "mean",
    "prod",
    "reciprocal",
    "rsqrt",
    "square",
    "std",
    "sum",
    "var",
}


@pytest.fixture
def mx() -> ModuleType:
    return pytest.importorskip("mlx.core")  # type: ignore[no-any-return]


def test_without_mlx_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    assert mlx_array.available() == "mlx is not installed: pip install '.[mlx]' in the checkout"
    with pytest.raises(NotRunError, match=r"Expected MLX for engine mlx-array but mlx is not installed: pip install"):
        mlx_array.engine(micro())


def test_an_mlx_that_does_not_load_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError("libmlx.so: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", fail)
    reason = mlx_array.available() or ""
    assert "does not load (libmlx.so: cannot open shared object file)" in reason
    assert "not installed" not in reason


def test_the_engine_is_listed_without_loading_mlx() -> None:
    code = "import sys, gnomon.gpu.mlx_array; sys.exit('mlx.core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def live(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """f32 of either sign with every exponent from -50 to 59."""
    bits = (
        rng.integers(0, 1 << 23, count) | (127 + rng.integers(-50, 60, count)) << 23 | rng.integers(0, 2, count) << 31
    )
    return bits.astype(np.uint32).view(np.float32)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}


@pytest.mark.parametrize("op", BINARY)
def test_no_operation_of_the_device_rounds_otherwise(mx: ModuleType, op: str) -> None:
    rng = np.random.default_rng(1)
    x, y = live(rng, 1 << 16), live(rng, 1 << 16)
    expected = BINARY[op](x.astype(np.float64), y.astype(np.float64)).astype(np.float32)  # exact for + - * /
    assert_same_bytes(np.array(BINARY[op](mx.array(x), mx.array(y))), expected)


def test_the_square_root_of_the_device_is_correctly_rounded(mx: ModuleType) -> None:
    x = np.abs(live(np.random.default_rng(2), 1 << 16))
    expected = np.sqrt(x.astype(np.float64)).astype(np.float32)  # exact by double rounding
    assert_same_bytes(np.array(mx.sqrt(mx.array(x))), expected)


def test_a_half_is_not_rounded_away_from_even(mx: ModuleType) -> None:
    got = np.array(mx.round(mx.array(np.array([0.5, 1.5, 2.5, 3.5, -0.75, -1.5, -2.5, -49.5], np.float32))))
    assert got.tolist() == [0.0, 2.0, 2.0, 4.0, -1.0, -2.0, -2.0, -50.0]


@pytest.mark.parametrize("where", [0, 1, 31, 32, 500, 999])
def test_the_maximum_loses_no_nan(mx: ModuleType, where: int) -> None:
    x = np.arange(2000, dtype=np.float32).reshape(2, 1000)
    x[1, where] = np.nan
    got = np.array(mx.max(mx.array(x), axis=-1))
    assert got[0] == 999.0
    assert np.isnan(got[1])


@pytest.mark.parametrize(("outputs", "floats"), [(7, 1), (7, 200), (37, 64), (8192, 1000)])
def test_tiles_change_no_bit(mx: ModuleType, monkeypatch: pytest.MonkeyPatch, outputs: int, floats: int) -> None:
    from gnomon.gpu import mlx_math

    monkeypatch.setattr(mlx_math, "TILE_OUTPUTS", outputs)
    monkeypatch.setattr(mlx_math, "TILE_FLOATS", floats)
    rng = np.random.default_rng(3)
    x, w = (settle(rng.standard_normal((n, 300)).astype(np.float32)) for n in (5, 37))
    got = mlx_math.matrix_dot(mx.array(x), mlx_math.pack_matrix(w))
    assert_same_bytes(np.array(got), chunked_dot(x.T[:, :, None], w.T[:, None]))

    reference = Engine("numpy", micro(), NumpyOps())
    expected, expected_state = reference.forward(IDS, want="all")
    engine = mlx_array.engine(micro())
    logits, state = engine.forward(IDS, want="all")
    assert_same_bytes(logits, expected)
    for name, array in reference.export(expected_state).items():
        assert_same_bytes(engine.export(state)[name], array)


def test_an_engine_and_a_state_go_on_in_other_threads(mx: ModuleType) -> None:
    engine = mlx_array.engine(micro())  # an array left lazy here, or in a step, could not be computed over there
    state = engine.new()
    for ids in (IDS[:4], IDS[4:]):
        with ThreadPoolExecutor(1) as fresh:
            logits, _ = fresh.submit(engine.forward, ids, state).result()
    expected, _ = mlx_array.engine(micro()).forward(IDS)
    assert_same_bytes(logits, expected)


def test_a_cut_state_goes_on_in_another_thread(mx: ModuleType) -> None:
    engine = mlx_array.engine(attention_only())
    _, state = engine.forward(IDS)
    engine.truncate(state, 4)
    with ThreadPoolExecutor(1) as fresh:
        logits, _ = fresh.submit(engine.forward, [5, 6], state).result()
    expected, _ = engine.forward([*IDS[:4], 5, 6])
    assert_same_bytes(logits, expected)


INTEGERS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Any]] = {  # the largest sums, and any others
    "all 127": lambda rng, shape: np.full(shape, 127),
    "all -127": lambda rng, shape: np.full(shape, -127),
    "either sign": lambda rng, shape: rng.choice([-127, 127], shape),
    "any": lambda rng, shape: rng.integers(-127, 128, shape),
    "all but one": lambda rng, shape: np.where(np.arange(shape[1]) == 3, 126, 127) * np.ones((shape[0], 1)),
}


@pytest.mark.parametrize("K", [1, 127, 1023, 1024, 1025, 2048, 5000])
@pytest.mark.parametrize("kind", INTEGERS)
def test_no_integer_product_is_rounded_before_its_end(mx: ModuleType, kind: str, K: int) -> None:
    """127 * 127 * 1024 is below 2^24: f32 holds every sum on the way, whatever its order. The end is rounded once."""
    from gnomon.gpu.mlx_arms import integer_dot

    rng = np.random.default_rng(K)
    x, w = INTEGERS[kind](rng, (4, K)), INTEGERS["all 127" if kind == "all but one" else kind](rng, (37, K))
    expected = (x.astype(np.int64) @ w.astype(np.int64).T).astype(np.float32)
    got = integer_dot(mx.array(x.astype(np.float32)), mx.array(np.ascontiguousarray(w.T.astype(np.float32))))
    assert_same_bytes(np.array(got), expected)


def test_the_pieces_of_an_integer_product_are_as_long_as_they_may_be(mx: ModuleType) -> None:
    from gnomon.gpu.mlx_arms import EXACT

    assert 127 * 127 * EXACT < 1 << 24 < 127 * 127 * (EXACT + 128)


def test_the_versions_are_those_that_run(mx: ModuleType) -> None:
    facts = mlx_array.engine(micro()).describe()
    assert facts["engine"] == "mlx-array"
    assert facts["mlx"] == mx.__version__
    assert facts["device"] == str(mx.default_device())
    assert (facts["metal"] == "available") == mx.metal.is_available()


@pytest.mark.parametrize("name", MODULES)
def test_nothing_but_the_primitives_is_called(mx: ModuleType, name: str) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(f"gnomon.gpu.{name}")))
    used: dict[str, set[str]] = {}  # attributes by the name they are taken from; "" where that is not a name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used.setdefault(node.value.id if isinstance(node.value, ast.Name) else "", set()).add(node.attr)
    assert used["mx"] - ARITHMETIC - LAYOUT - CONTROL == MODULES[name]
    assert {(owner, attr) for owner in used.keys() - {"math", "np"} for attr in used[owner] & OTHER_BYTES} == set()
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.MatMult)]
