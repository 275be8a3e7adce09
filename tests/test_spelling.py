"""Text in pieces: joined, it is the text that all ids spell up to the first stop text; no piece takes one back."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.decode.spelling import Spelling
from gnomon.decode.stops import Stops, until
from gnomon.loading import load
from gnomon.models import micro

TEXTS = [
    "def main(args):\n    return None",
    "na\u00efve caf\u00e9 \u2014 \u65e5\u672c\u8a9e \U0001f600\U0001f680!",
    "aaaaaaab",
]
STOPS = [(), ("(",), ("ret", "return"), ("None", "n N"), ("\u672c",), ("aab", "b"), ("xab", "aa"), ("never",)]


@pytest.mark.parametrize("stops", STOPS, ids=range(len(STOPS)))
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_no_piece_is_missing_or_too_early(text: str, stops: tuple[str, ...]) -> None:
    """Ids of single bytes and of words; whatever was said is a beginning of the whole."""
    model = load("tiny-dense")
    assert model.tokenizer is not None
    bytewise = [model.tokenizer.encode(chr(33))[0]] * 0
    for one in text:
        bytewise += model.tokenizer.encode(one, add_special=False)
    for ids in (model.tokenizer.encode(text, add_special=False), bytewise):
        spelling = Spelling(model, stops)
        pieces = [spelling.add(one) for one in ids]
        whole = "".join(until([text], stops))
        assert whole.startswith("".join(pieces))
        assert "".join([*pieces, spelling.end()]) == whole
        assert all("\ufffd" not in piece for piece in pieces)


def test_bytes_that_are_no_character_come_at_the_end() -> None:
    model = load("tiny-dense")
    assert model.tokenizer is not None
    first = model.tokenizer.encode("\u65e5", add_special=False)[:1]
    spelling = Spelling(model)
    assert [spelling.add(one) for one in first] == [""]
    assert spelling.end() == "\ufffd"


def test_without_a_tokenizer_ids_are_numbers() -> None:
    spelling = Spelling(micro())
    assert [spelling.add(one) for one in (5, 12)] + [spelling.end()] == ["5", " 12", ""]


def test_no_id_takes_longer_than_those_before_it() -> None:
    """Of 8,000 ids; all of them decoded again for each took 39 seconds."""
    model = load("tiny-dense")
    spelling = Spelling(model, ("never in it", "\u65e5\u672c"))
    began = time.process_time()
    pieces = [spelling.add(300 + n % 1500) for n in range(8000)]
    assert time.process_time() - began < 2
    assert model.tokenizer is not None
    assert "".join([*pieces, spelling.end()]) == model.tokenizer.decode(300 + n % 1500 for n in range(8000))


def test_no_length_of_a_stop_text_is_tried_for_each_piece() -> None:
    """Every beginning of a stop text of a million characters was held against the end of the text."""
    began = time.process_time()
    seen = Stops(["x" * 1_000_000])
    assert "".join(seen.add("xxxy") for _ in range(5000)) + seen.end() == "xxxy" * 5000
    assert time.process_time() - began < 3


@given(
    st.lists(st.text("ab", max_size=4), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
)
def test_no_stop_text_is_found_later_or_elsewhere_than_by_searching(pieces: list[str], stops: list[str]) -> None:
    """After each piece: all that was said is what a search in the whole text leaves, less what may yet become one."""
    seen, text, said = Stops(stops), "", ""
    for piece in pieces:
        text += piece
        said += seen.add(piece)
        found = [at for stop in stops if (at := text.find(stop)) >= 0]
        assert seen.found == bool(found)
        if found:
            assert said == text[: min(found)]
            return
        assert said == text[: len(text) - max(n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n]))]
    assert said + seen.end() == text
