"""Text in pieces: joined, it is the text that all ids spell up to the first stop text; no piece takes one back."""

import pytest

from gnomon.decode.spelling import Spelling
from gnomon.decode.stops import until
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
