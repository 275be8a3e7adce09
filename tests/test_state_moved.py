"""A state moves between engines as named arrays, and no byte shows it; what is not the state of this model is refused.

Every test runs on each engine in each kv storage.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.numpy_ops import NumpyOps
from running import LONG, SHORT, STORAGES, Exported, assert_continues, assert_same_state, fresh

NewEngine = Callable[..., Engine[Any]]


@pytest.fixture(params=STORAGES, scope="module")
def kv(request: pytest.FixtureRequest) -> str:
    storage: str = request.param
    return storage


@pytest.fixture(scope="module")
def engine(new_engine: NewEngine, kv: str) -> Engine[Any]:
    return new_engine(micro(), kv=kv)


@pytest.mark.parametrize("length", [1, 9, 130])
def test_a_move_changes_no_byte(new_engine: NewEngine, other_name: str, kv: str, length: int) -> None:
    """From each engine to each, and back."""
    source, target = engine_of(other_name, micro(), kv=kv), new_engine(micro(), kv=kv)
    ids = LONG[:length]
    _, state = source.forward(ids)
    exported = source.export(state)
    moved = target.load(exported, ids)
    assert (moved.length, moved.ids) == (length, ids)
    assert_same_state(target.export(moved), exported)
    back = source.load(target.export(moved), ids)
    assert_same_state(source.export(back), exported)
    expected, after = source.forward([3], state)
    for engine, at in ((target, moved), (source, back)):
        assert_same_bytes(engine.forward([3], at)[0], expected, "logits")
        assert_same_state(engine.export(at), source.export(after))


def test_an_empty_state_can_be_moved(engine: Engine[Any]) -> None:
    state = engine.load({}, [])
    assert_continues(engine, state, SHORT)


def test_neither_export_nor_load_shares_memory(engine: Engine[Any]) -> None:
    _, state = engine.forward(SHORT)
    exported = engine.export(state)
    loaded = engine.load(exported, SHORT)
    for array in exported.values():
        array.fill(1)
    assert_continues(engine, loaded, [3, 1])
    assert_continues(engine, state, [3, 1])


def test_the_order_of_the_arrays_does_not_matter(engine: Engine[Any]) -> None:
    _, exported = fresh(engine, SHORT)
    turned = {name: np.asfortranarray(exported[name]) for name in reversed(exported)}
    assert_continues(engine, engine.load(turned, SHORT), [3, 1])


KEYS, CONV, DELTA = "blocks.1.kv.k", "blocks.2.rec.conv", "blocks.2.rec.delta"
Broken = Callable[[Exported], Exported]
BROKEN: dict[str, tuple[Broken, str]] = {  # what is wrong, and what the sentence says
    "keys missing": (lambda a: {n: x for n, x in a.items() if n != KEYS}, f"Expected an array {KEYS} .* missing"),
    "delta missing": (lambda a: {n: x for n, x in a.items() if n != DELTA}, f"Expected an array {DELTA} .* missing"),
    "nothing": (lambda a: {}, r"Expected an array blocks\.0\.kv\.k .* missing"),
    "another layer": (lambda a: a | {"blocks.3.kv.k": a[KEYS]}, r"Expected no array blocks\.3\.kv\.k"),
    "keys of the delta layer": (lambda a: a | {"blocks.2.kv.k": a[KEYS]}, r"Expected no array blocks\.2\.kv\.k"),
    "one position less": (
        lambda a: a | {KEYS: a[KEYS][1:]},
        rf"{KEYS} to be .* \[14, 2, 10\] but got .* \[13, 2, 10\]",
    ),
    "one position more": (lambda a: a | {KEYS: a[KEYS].repeat(2, 0)[:15]}, rf"{KEYS} .* but got .* \[15, 2, 10\]"),
    "heads and width swapped": (lambda a: a | {KEYS: a[KEYS].swapaxes(1, 2)}, rf"{KEYS} .* but got .* \[14, 10, 2\]"),
    "flat": (lambda a: a | {KEYS: a[KEYS].reshape(14, -1)}, rf"{KEYS} .* but got .* \[14, 20\]"),
    "float64": (lambda a: a | {KEYS: a[KEYS].astype(np.float64)}, rf"{KEYS} .* but got float64"),
    "the other byte order": (lambda a: a | {CONV: a[CONV].astype(">f4")}, f"{CONV} to be float32"),
    "conv of all taps": (lambda a: a | {CONV: a[CONV].repeat(2, 0)[:4]}, rf"{CONV} .* \[3, 60\] but got .* \[4, 60\]"),
    "delta transposed": (
        lambda a: a | {DELTA: a[DELTA].swapaxes(1, 2)},
        rf"{DELTA} .* \[4, 6, 9\] but got .* \[4, 9, 6\]",
    ),
    "delta in float16": (lambda a: a | {DELTA: a[DELTA].astype(np.float16)}, f"{DELTA} .* but got float16"),
}


@pytest.fixture
def strict(engine: Engine[Any], monkeypatch: pytest.MonkeyPatch) -> Engine[Any]:
    """The engine, which fails as soon as it takes memory."""

    def allocates(*args: Any) -> Any:
        raise AssertionError("memory was taken before everything was checked")

    monkeypatch.setattr(engine.ops, "load_cache", allocates)
    monkeypatch.setattr(engine.ops, "new_cache", allocates)
    return engine


@pytest.fixture(scope="module")
def exported(engine: Engine[Any]) -> Exported:
    return fresh(engine, SHORT)[1]


@pytest.mark.parametrize("broken", BROKEN)
def test_no_wrong_array_is_loaded(strict: Engine[Any], exported: Exported, broken: str) -> None:
    change, sentence = BROKEN[broken]
    with pytest.raises(UsageError, match=sentence) as raised:
        strict.load(change(exported), SHORT)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("further", [1, 2])
def test_no_state_of_another_storage_is_loaded(strict: Engine[Any], kv: str, further: int) -> None:
    other = STORAGES[(STORAGES.index(kv) + further) % 3]
    arrays = fresh(Engine("numpy", micro(), NumpyOps(kv=other)), SHORT)[1]  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"Expected (no array )?blocks\.0\.kv\.k"):
        strict.load(arrays, SHORT)


@pytest.mark.parametrize("ids", [SHORT[:-1], [*SHORT, 1], []], ids=len)
def test_no_other_number_of_ids_is_taken(strict: Engine[Any], exported: Exported, ids: list[int]) -> None:
    with pytest.raises(UsageError, match="Expected"):
        strict.load(exported, ids)


@pytest.mark.parametrize("wrong", [-1, 97])
def test_no_id_outside_the_vocabulary_is_taken(strict: Engine[Any], exported: Exported, wrong: int) -> None:
    with pytest.raises(UsageError, match=f"Expected token ids from 0 to 96 but got {wrong}$"):
        strict.load(exported, [*SHORT[:-1], wrong])


@pytest.mark.parametrize("verb", ["fork", "nbytes", "export"])
def test_no_state_of_another_engine_is_taken(engine: Engine[Any], verb: str) -> None:
    _, state = Engine("numpy", micro(), NumpyOps()).forward(SHORT)
    with pytest.raises(UsageError, match="Expected a state of this"):
        getattr(engine, verb)(state)
    with pytest.raises(UsageError, match="Expected a state of this"):
        engine.truncate(state, 3)
