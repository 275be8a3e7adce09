"""Token ids are whole numbers, wherever they are given; and an engine has one thread at a time."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.compare.bisect import bisect
from gnomon.compare.isolate import isolate
from gnomon.compare.trace_write import write_trace
from gnomon.decode.batch import Batch
from gnomon.decode.checkpoints import Checkpoints
from gnomon.decode.text import Request
from gnomon.decode.transcript import produce
from gnomon.models import micro
from gnomon.reference.errors import UsageError
from gnomon.reference.protocol import Rows
from gnomon.reference.token_ids import token_ids

NO_IDS = ["def", b"def", {1, 2}, {1: 2}, 5, [True], [1.0], ["1"], [[1]], [None], [1 << 31], np.array([1.0]),
          np.array(3), np.array([True]), np.array([[1, 2]]), "1"]  # fmt: skip


def engine() -> Any:
    return gnomon.engine("numpy", micro())


ENTRIES: dict[str, Callable[[Any, Path], object]] = {
    "forward": lambda ids, out: engine().forward(ids),
    "step": lambda ids, out: (e := engine()).step(Rows.of([(e.new(), ids)])),
    "Engine.generate": lambda ids, out: list(engine().generate(ids, 1)),
    "load": lambda ids, out: engine().load({}, ids),
    "generate": lambda ids, out: list(gnomon.generate(engine(), ids, 1)),
    "batch": lambda ids, out: Batch(engine()).join(Request(ids, 1)),
    "stop": lambda ids, out: Request([1], 1, stop_ids=[1.5]),  # type: ignore[list-item]
    "diff": lambda ids, out: gnomon.diff(engine(), engine(), ids, 0),
    "isolate": lambda ids, out: isolate(engine(), engine(), ids, 0),
    "bisect": lambda ids, out: bisect(engine(), engine(), ids, 0),
    "trace": lambda ids, out: write_trace(engine(), ids, out / "trace"),
    "transcript": lambda ids, out: produce(engine(), ids, 1),
    "checkpoints": lambda ids, out: Checkpoints(engine(), 1 << 20).extend(ids),
}


@pytest.mark.parametrize("ids", NO_IDS, ids=repr)
def test_no_other_thing_is_taken_for_ids(ids: Any) -> None:
    with pytest.raises(UsageError, match="Expected token ids as whole numbers") as caught:
        token_ids(ids)
    assert repr(ids) in str(caught.value) or repr(ids[0]) in str(caught.value)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("ids", ["def", b"def", [1, 2.0], [True]], ids=repr)
def test_no_entry_takes_other_things_for_ids(entry: str, ids: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected token ids as whole numbers"):
        ENTRIES[entry](ids, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ids", [(1, 2), range(1, 3), np.array([1, 2], np.uint8), [np.int64(1), 2], iter([1, 2])])
def test_whole_numbers_of_any_sequence_are_ids(ids: Any) -> None:
    found = token_ids(ids)
    assert found == [1, 2]
    assert all(type(i) is int for i in found)


def test_no_second_thread_is_let_into_an_engine(new_engine: Any) -> None:
    """While a step runs: not into another step, nor into the states. The step itself is not disturbed."""
    engine = new_engine(micro())
    state, expected = engine.new(), engine.forward([1, 2, 3])[0]
    refused: list[str] = []

    def try_all() -> None:
        for work in (
            lambda: engine.forward([1]),
            lambda: engine.export(state),
            lambda: engine.fork(state),
            lambda: engine.truncate(state, 0),
            lambda: engine.load({}, []),
        ):
            try:
                work()
            except UsageError as error:
                refused.append(str(error))

    class Meanwhile:
        def wants(self, name: str) -> bool:
            return name == "logits"

        def __call__(self, *shown: Any) -> None:
            second = Thread(target=try_all)
            second.start()
            second.join()

    logits = engine.step(Rows.of([(state, [1, 2, 3])]), tap=Meanwhile())
    assert len(refused) == 5
    assert all(said.startswith("Expected one thread at a time in engine") for said in refused)
    assert logits.tobytes() == expected.tobytes()
    engine.export(state)


def test_an_engine_may_be_used_from_one_thread_after_another() -> None:
    engine, made = gnomon.engine("numpy", micro()), list[bytes]()
    for _ in range(2):
        thread = Thread(target=lambda: made.append(engine.forward([1, 2])[0].tobytes()))
        thread.start()
        thread.join()
    assert made == [engine.forward([1, 2])[0].tobytes()] * 2
