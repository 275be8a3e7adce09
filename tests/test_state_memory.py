"""Moving a state takes little memory beside it. Allocations are counted (NumPy tells tracemalloc of its own)."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnomon.decode.state_file import PIECE, read_state, receive, write_state
from gnomon.reference.config import Config, Rope
from gnomon.reference.engine import Engine
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.state import state_specs
from gnomon.reference.weights import Weight

MIB = 1 << 20
STATE = 64 * MIB
POSITIONS = STATE // (8 * 2 * 8 * 64 * 4)  # 8 layers, keys and values, 8 heads of 64 f32

CONFIG = Config(
    family="llama",
    vocab=97,
    width=16,
    layers=8,
    heads=8,
    kv_heads=8,
    head_dim=64,
    ffn=16,
    eps=1e-5,
    rope=Rope(theta=10000.0, dim=64),
    max_positions=1 << 20,
    windows=(None,) * 8,
)


def model() -> Model:
    """Small weights under a large state; nothing is computed with them."""
    weights = {}
    for name, spec in family("llama").specs(CONFIG).items():
        data = np.ones(spec.shape, "<f4").view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    return Model("wide", CONFIG, weights)


@pytest.fixture(scope="module")
def engine() -> Engine[np.ndarray]:
    return Engine("numpy", model(), NumpyOps())


@pytest.fixture(scope="module")
def path(engine: Engine[np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("memory") / "state"
    ids = [i % 97 for i in range(POSITIONS)]
    arrays = {n: np.full(s, i, d) for i, (n, (s, d)) in enumerate(state_specs(CONFIG, "f32", len(ids)).items())}
    assert sum(array.nbytes for array in arrays.values()) == STATE
    write_state(engine, engine.load(arrays, ids), out)
    return out


def growth(work: Callable[[], object]) -> int:
    """The most that was held at one time beside what was there before."""
    tracemalloc.start()
    try:
        kept = work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept is not None
    return peak


def test_a_reader_holds_the_state_once(engine: Engine[np.ndarray], path: Path) -> None:
    assert STATE <= growth(lambda: read_state(engine, path)) <= STATE + 2 * PIECE + MIB


def test_a_sender_holds_the_state_once(engine: Engine[np.ndarray], path: Path) -> None:
    state = read_state(engine, path)
    assert growth(lambda: write_state(engine, state, path.with_name("again"))) <= STATE + 2 * PIECE + MIB
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_what_is_counted_above_is_seen_to_grow(engine: Engine[np.ndarray], path: Path) -> None:
    """The whole file in memory, then the state: the plain way, which the bound must not admit."""
    assert growth(lambda: receive(engine, [path.read_bytes()])) > 1.1 * STATE + 32 * MIB
