"""Tokenizers of other kinds, which the `tokenizers` library runs behind our interface; arguments refused."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from gnomon.models import folder
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.tokenizer import Tokenizer
from trained import SAMPLE, read, tree


def unigram() -> Any:
    made = tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), ("\u2581", -2.0), ("a", -3.0), ("\u2581ab", -4.0)], 0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return made


def byte_fallback() -> Any:
    pieces = {"<unk>": 0} | {f"<0x{byte:02X}>": byte + 1 for byte in range(256)} | {"\u2581": 257, "a": 258}
    made = tokenizers.Tokenizer(models.BPE(pieces, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


def word_piece() -> Any:
    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2, "b": 3}, unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return made


def changed_library(change: Callable[[Any], object]) -> Callable[[], Any]:
    """A trained tokenizer with something that our code does not name."""

    def make() -> Any:
        made = tokenizers.Tokenizer.from_str(tree("gpt-2"))
        change(made)
        return made

    return make


def set_part(**parts: Any) -> Callable[[], Any]:
    """A trained tokenizer with another part."""

    def change(made: Any) -> None:
        for name, part in parts.items():
            setattr(made, name, part)

    return changed_library(change)


def pad(made: Any) -> None:
    """Lengths that only a training batch could mean."""
    made.normalizer = normalizers.Lowercase()
    made.enable_padding(length=1 << 40)
    made.enable_truncation(2)


OTHERS: dict[str, Callable[[], Any]] = {
    "unigram": unigram,
    "byte fallback": byte_fallback,
    "word piece": word_piece,
    "prefix space": set_part(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "no pattern": set_part(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
    "other split": set_part(
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    ),
    "lower case": set_part(normalizer=normalizers.Lowercase()),
    "other decoder": set_part(decoder=decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])),
    "other post-processor": set_part(
        post_processor=processors.RobertaProcessing(("<|im_end|>", 2), ("<|im_start|>", 1))
    ),
    "whole word": changed_library(lambda made: made.add_tokens([AddedToken("law", single_word=True)])),
    "padded and truncated": changed_library(pad),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_our_code_does_not_name_is_left_to_the_library(name: str, tmp_path: Path) -> None:
    library = OTHERS[name]()
    ours = read(tmp_path, library.to_str())
    library.no_padding()
    library.no_truncation()
    texts = ["", "a ab b", "ab\u00e9\u4f60 a", *SAMPLE]

    assert ours.kind == "library"
    assert ours.vocab_size == library.get_vocab_size()
    for text in texts:
        ids = library.encode(text).ids

        assert ours.encode(text) == ids
        assert ours.encode(text, add_special=False) == library.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids, skip_special=True) == library.decode(ids)
        assert "".join(ours.stream(ids)) == ours.decode(ids)
    # The library strips the space of a token that stands first; within a text it is there.
    alone = {"unigram": ["<unk>", " ", "a", " ab"]}.get(name)
    for token_id in range(4):
        expected = alone[token_id] if alone else library.decode([token_id], skip_special_tokens=False)
        assert ours.token_bytes(token_id).decode() == expected
    with pytest.raises(UsageError, match="token ids from 0"):
        ours.decode([ours.vocab_size])


@pytest.mark.parametrize("strip", [0, 1, 2])
@pytest.mark.parametrize("first", [1, 0x80])
def test_no_run_of_bytes_is_streamed_otherwise_than_it_is_decoded(tmp_path: Path, strip: int, first: int) -> None:
    """Random ids, most of them bytes: whether a run of them is text shows at its end. The library is the judge."""
    library = byte_fallback()
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", strip, 0)] if strip else [])])
    ours, draw = read(tmp_path, library.to_str()), random.Random(strip)
    characters = "\u00e9\u65e5\U0001f600".encode()
    for _ in range(150):
        ids = [
            draw.choice([257, 258, 1 + draw.randrange(first, 256), 1 + draw.choice(characters)])
            for _ in range(draw.randrange(9))
        ]
        assert "".join(ours.stream(ids)) == library.decode(ids)


def test_a_decoder_of_spaces_is_streamed_as_it_decodes(tmp_path: Path) -> None:
    for scheme in ("always", "never", "first"):
        library = unigram()
        library.decoder = decoders.Metaspace(prepend_scheme=scheme)
        ours = read(tmp_path, library.to_str())
        for ids in ([1, 3, 2], [3, 1, 3], [2], [1, 1, 2], []):
            assert "".join(ours.stream(ids)) == library.decode(ids, skip_special_tokens=False)


def test_the_bytes_of_a_token_are_those_it_has_within_a_text(tmp_path: Path) -> None:
    """A byte of half a character is that byte, and a leading space is there."""
    ours = read(tmp_path, byte_fallback().to_str())
    assert [ours.token_bytes(i) for i in (1 + 0xE6, 257, 258)] == [b"\xe6", b" ", b"a"]
    assert read(tmp_path, unigram().to_str()).token_bytes(3) == b" ab"


def test_an_unknown_decoder_is_not_asked_for_each_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = read(tmp_path, word_piece().to_str())
    asked: list[int] = []
    decode = ours._core.decode

    def counted(ids: Any, skip_special: bool) -> str:
        asked.append(len(ids))
        return decode(ids, skip_special)

    monkeypatch.setattr(ours._core, "decode", counted)
    ids = [1, 2, 3] * 1000
    assert "".join(ours.stream(ids)) == decode(ids, False)
    assert sum(asked) < 12 * len(ids)


def test_a_flaw_met_while_encoding_is_no_traceback(tmp_path: Path) -> None:
    parts = json.loads(word_piece().to_str())
    parts["model"]["vocab"]["[OTHER]"] = parts["model"]["vocab"].pop("[UNK]")

    with pytest.raises(ModelError, match=r"the library says: .*UNK"):
        read(tmp_path, json.dumps(parts)).encode("never seen")


def test_a_panic_of_the_library_is_no_traceback(tmp_path: Path) -> None:
    library = set_part(normalizer=normalizers.Lowercase())()
    library.post_processor = processors.TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
    parts = json.loads(library.to_str())
    parts["post_processor"]["special_tokens"] = {}

    with pytest.raises(ModelError, match="the library says: "):
        read(tmp_path, json.dumps(parts)).encode("a")


@pytest.fixture(scope="module")
def tiny() -> Tokenizer:
    return Tokenizer.from_json(folder("tiny-dense") / "tokenizer.json")


@pytest.mark.parametrize("text", [b"bytes", None, 7, ["a"], "\ud83d", "a\udc80"], ids=ascii)
def test_no_text_but_unicode_is_encoded(tiny: Tokenizer, text: Any) -> None:
    with pytest.raises(UsageError, match=r"^Expected (text to be a str|Unicode text) but "):
        tiny.encode(text)


@pytest.mark.parametrize("token_id", [-1, 2003, 1 << 70, 1.0, "1", None, True], ids=repr)
def test_no_unknown_id_is_decoded(tiny: Tokenizer, token_id: Any) -> None:
    for use in (tiny.token_bytes, lambda i: tiny.decode([0, i]), lambda i: list(tiny.stream([0, i]))):
        with pytest.raises(UsageError, match=r"^Expected token ids from 0 to 2002 but got "):
            use(token_id)


def test_ids_may_come_from_numpy(tiny: Tokenizer) -> None:
    ids = tiny.encode("def main(")

    assert tiny.decode(np.array(ids, np.int32)) == "def main("
    assert b"".join(map(tiny.token_bytes, np.array(ids))) == b"def main("
