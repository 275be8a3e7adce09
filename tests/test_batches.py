"""A text in a batch has the ids, the logits and the state of the text alone, whoever joins and leaves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decoding import MODELS, SEEDS, Plain, assert_as_plain, plainly
from gnomon.decode.batch import Batch
from gnomon.decode.generate import Generation, generate
from gnomon.decode.text import GREEDY, Request, Text
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import F32, Rows
from running import LONG, assert_same_state

NewEngine = Callable[[Model], Engine[Any]]
# Step at which it joins, where its prompt starts and stops, ids at most, sampling, ids after which it is taken out.
TEXTS = [
    (0, 0, 5, 6, GREEDY, 0),
    (0, 9, 20, 3, SEEDS[0], 0),
    (2, 3, 4, 7, GREEDY, 4),
    (2, 30, 33, 5, SEEDS[1], 0),
    (3, 50, 64, 2, GREEDY, 0),
    (5, 7, 9, 6, SEEDS[2], 3),
    (5, 1, 8, 1, GREEDY, 0),
    (6, 70, 72, 4, SEEDS[4], 0),
]


def request(text: tuple[Any, ...]) -> Request:
    _, first, last, tokens, sampling, _ = text
    return Request(LONG[first:last], tokens, sampling)


@pytest.fixture(scope="module")
def alone(new_engine: NewEngine) -> Callable[[int], Plain]:
    """Each of TEXTS by itself, decoded once."""
    engine, known = new_engine(micro()), dict[int, Plain]()

    def plain(n: int) -> Plain:
        if n not in known:
            asked = request(TEXTS[n])
            known[n] = plainly(engine, asked.ids, asked.max_tokens, asked.sampling)
        return known[n]

    return plain


def together(batch: Batch, count: int) -> list[tuple[Text, list[F32]]]:
    """The first texts of TEXTS in one batch."""
    texts: list[Text] = []
    rows: list[list[F32]] = []
    step = 0
    while len(texts) < count or batch.active or batch.waiting:
        for text in [text for text in TEXTS[:count] if text[0] == step]:
            texts.append(batch.join(request(text)))
            rows.append([])
        for drawn in batch.step():
            rows[texts.index(drawn.text)].append(drawn.row)
        for text, (*_, after) in zip(texts, TEXTS, strict=False):
            if after and len(text.ids) == after:
                batch.leave(text)
        step += 1
    return list(zip(texts, rows, strict=True))


@pytest.mark.parametrize(
    ("size", "slots", "rows"), [(1, 8, 256), (2, 8, 256), (3, 2, 4), (8, 8, 256), (8, 3, 4)], ids=str
)
def test_no_neighbour_changes_a_bit(
    new_engine: NewEngine, alone: Callable[[int], Plain], size: int, slots: int, rows: int
) -> None:
    batch = Batch(new_engine(micro()), slots, rows)
    for n, (text, got) in enumerate(together(batch, size)):
        left = TEXTS[n][-1]
        drawn = left or len(alone(n).ids)
        assert text.ids == alone(n).ids[:drawn]
        assert text.reason == ("left" if left else "length")
        assert_as_plain(batch.engine, text, got, alone(n), drawn)


def test_no_tie_goes_to_a_higher_id_in_a_batch(new_engine: NewEngine) -> None:
    engine = new_engine(MODELS["ties"])
    batch = Batch(engine)
    texts = [batch.join(Request(LONG[n : n + 3], 5)) for n in range(2)]
    for drawn in batch.run():
        assert drawn.id % 2 == 0
        assert drawn.row[drawn.id] == drawn.row[drawn.id + 1] == drawn.row.max()
    assert [len(text.ids) for text in texts] == [5, 5]


@pytest.fixture
def engine() -> Engine[Any]:
    return Engine("numpy", micro(), NumpyOps())


def test_no_step_goes_over_its_budget(engine: Engine[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text that decodes has one row in every step, and a step is one step of the engine."""
    steps: list[Rows] = []
    step = engine.step

    def spy(rows: Rows, *rest: Any) -> F32:
        steps.append(rows)
        return step(rows, *rest)

    monkeypatch.setattr(engine, "step", spy)
    batch = Batch(engine, slots=3, rows=4)
    for n in range(5):
        batch.join(Request(LONG[n : n + 9], 4))
    while batch.active or batch.waiting:
        decoding = [text.state for text in batch.active if text.ids]
        batch.step()
        assert [span.stop - span.start for span in steps[-1].spans if span.state in decoding] == [1] * len(decoding)
    assert len(steps) == batch.steps
    assert max(len(rows.ids) for rows in steps) == 4
    assert max(len(rows.spans) for rows in steps) == 3


def test_a_text_that_fails_takes_no_neighbour_along() -> None:
    model = micro()
    table = model.weights["embed.weight"]
    data = table.data.copy()
    data.view("<f4")[13] = np.nan
    poisoned = replace(model, weights={**model.weights, "embed.weight": replace(table, data=data)})
    engine = Engine("numpy", poisoned, NumpyOps())
    batch = Batch(engine)
    sound, other = (batch.join(Request(LONG[first : first + 4], 4)) for first in (0, 7))
    batch.step()
    bad = batch.join(Request([1, 13, 2], 4))
    rows = [drawn.row for drawn in batch.run() if drawn.text is sound]
    assert [text.reason for text in (sound, bad, other)] == ["length", "nonfinite", "length"]
    assert bad.ids == []
    plain = plainly(engine, LONG[:4], 4)
    assert_same_state(engine.export(sound.state), plain.states[7])
    assert [row.tobytes() for row in rows] == [row.tobytes() for row in plain.rows[1:]]


def test_who_waits_can_leave(engine: Engine[Any]) -> None:
    batch = Batch(engine, slots=1)
    first, second = batch.join(Request([1, 2], 3)), batch.join(Request([3], 3))
    batch.step()
    batch.leave(second)
    assert {drawn.text.request.ids[0] for drawn in batch.run()} == {1}
    assert (first.reason, second.reason, second.ids) == ("length", "left", [])
    assert batch.step() == []


def test_positions_that_run_out_end_a_text(engine: Engine[Any]) -> None:
    """Alone, with drafts and in a batch alike, and no id is drawn that plain decoding could not draw."""
    model = replace(micro(), config=replace(micro().config, max_positions=12))
    short = Engine("numpy", model, NumpyOps())
    expected = plainly(engine, LONG[:7], 6).ids
    batch = Batch(short)
    text = batch.join(Request(LONG[:7], 50))
    list(batch.run())
    made = generate(short, LONG[:7], 50)
    assert list(made) == text.ids == expected
    assert made.text.reason == text.reason == "positions"
    assert text.state.length == 12


@pytest.mark.parametrize("length", [1, 5, 8])
def test_a_state_that_holds_a_beginning_changes_no_bit(engine: Engine[Any], length: int) -> None:
    plain = plainly(engine, LONG[:9], 4, SEEDS[3])
    for made in (Generation, Batch):
        _, state = engine.forward(LONG[:length], want="none")
        asked = Request(LONG[:9], 4, SEEDS[3])
        if made is Batch:
            batch = Batch(engine)
            text = batch.join(asked, state)
            rows = [drawn.row for drawn in batch.run()]
        else:
            one = Generation(engine, asked, state=state)
            text, rows = one.text, []
            while not text.reason:
                rows.extend(one.round().logits)
        assert text.ids == plain.ids
        assert_as_plain(engine, text, rows, plain, 4)


REFUSED: dict[str, tuple[Request, str]] = {
    "no ids": (Request([], 3), "1 to max_positions=4096 token ids but got 0"),
    "too many ids": (Request([1] * 4097, 3), "got 4097"),
    "an id beyond the vocabulary": (Request([1, 97], 3), "from 0 to 96 but got 97"),
    "a stop text without tokenizer": (Request([1], 3, stop_texts=["x"]), "model micro has none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_prompt_fails_beside_others(engine: Engine[Any], case: str) -> None:
    asked, message = REFUSED[case]
    batch = Batch(engine)
    with pytest.raises(UsageError, match=message):
        batch.join(asked)
    assert not batch.waiting


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 2], [4]], ids=["longer", "all of it", "another"])
def test_no_state_of_another_prompt_is_taken(engine: Engine[Any], ids: list[int]) -> None:
    _, state = engine.forward(ids)
    with pytest.raises(UsageError, match="Expected a state that holds a beginning of the 2 ids"):
        Text(engine, Request([1, 2], 3), state)


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"slots": 4, "rows": 3}], ids=str)
def test_no_slot_is_without_a_row(engine: Engine[Any], wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="Expected at least one slot"):
        Batch(engine, **wrong)


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"max_tokens": 1, "stop_texts": [""]}], ids=str)
def test_no_request_without_an_end_is_taken(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Expected"):
        Request([1], **wrong)
