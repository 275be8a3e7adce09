"""Texts and ids against the `tokenizers` library, which shares nothing with ours but the file."""

import functools
import os
import random
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gnomon.models import folder
from gnomon.reference.bpe import REMEMBERED, Bpe, merge
from gnomon.reference.pretokenize import ALPHABET
from gnomon.reference.tokenizer import Tokenizer
from trained import SPECIAL, STYLES, TEXTS, around, read, trained, tree

CACHED = Path(__file__).parents[1] / ".cache" / "SmolLM2-135M-Instruct.Q4_1.gguf"
Both = tuple[Tokenizer, Any]  # ours and the library's

CASES = [pytest.param(text, id=f"{kind}-{i}") for kind, texts in TEXTS.items() for i, text in enumerate(texts)]
# Characters of Unicode 3.2: what they are is the same in every table.
SETTLED = st.characters(codec="utf-8").filter(lambda c: unicodedata.ucd_3_2_0.category(c) != "Cn")


@pytest.fixture(scope="module", params=[*STYLES, "tiny-dense", pytest.param("SmolLM2", marks=pytest.mark.real)])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """One tokenizer, read by us and read by the library."""
    if request.param == "SmolLM2":
        return smollm2()
    if request.param == "tiny-dense":
        path = folder("tiny-dense") / "tokenizer.json"
        return Tokenizer.from_json(path), tokenizers.Tokenizer.from_file(str(path))
    return read(tmp_path_factory.mktemp("tokenizer"), tree(request.param)), trained(request.param)


@functools.cache
def smollm2() -> Both:
    """Ours from the metadata of the real file, the library's built from its vocabulary and merges."""
    path = Path(os.environ.get("GNOMON_SMOLLM2", CACHED))
    if not path.exists():
        pytest.skip(f"no {path}: fetch it with `make test-real` or name it in GNOMON_SMOLLM2")
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    tokens, merges, types, pre, bos, eos, add_bos = (
        fields[f"tokenizer.ggml.{name}"].contents()
        for name in ("tokens", "merges", "token_type", "pre", "bos_token_id", "eos_token_id", "add_bos_token")
    )
    ours = Tokenizer.from_gguf(tokens, merges, types, pre, bos_id=bos, eos_ids=[eos], add_bos=add_bos)
    vocab = {token: i for i, token in enumerate(tokens)}
    library = around(vocab, [tuple(pair.split(" ")) for pair in merges], "smollm")
    library.add_special_tokens([token for token, kind in zip(tokens, types, strict=True) if kind == 3])
    return ours, library


def test_texts_are_many_and_of_many_kinds() -> None:
    assert len(CASES) >= 200
    assert len(TEXTS) >= 12


@pytest.mark.parametrize("text", CASES)
def test_ids_and_their_text_are_those_of_the_library(both: Both, text: str) -> None:
    ours, library = both
    ids = library.encode(text).ids

    assert ours.encode(text) == ids
    assert ours.encode(text, add_special=False) == library.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == library.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids, skip_special=True) == library.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("seed", range(8))
def test_random_ids_decode_as_in_the_library(both: Both, seed: int) -> None:
    """Ids in any order break UTF-8 in every way; the single bytes come up often."""
    ours, library = both
    random_ids = random.Random(seed)
    single = [i for i in range(ours.vocab_size) if len(ours.token_bytes(i)) == 1]
    for length in range(40):
        ids = [
            random_ids.choice(single) if random_ids.random() < 0.7 else random_ids.randrange(ours.vocab_size)
            for _ in range(length)
        ]
        for skip in (False, True):
            decoded = ours.decode(ids, skip_special=skip)

            assert decoded == library.decode(ids, skip_special_tokens=skip)
            assert "".join(ours.stream(ids, skip_special=skip)) == decoded


@settings(deadline=None, derandomize=True, max_examples=150)
@given(text=st.lists(st.text(SETTLED) | st.sampled_from([*SPECIAL, "<left>", " ", "\n", "12", "'s"])).map("".join))
def test_no_text_has_other_ids_than_in_the_library(both: Both, text: str) -> None:
    ours, library = both

    assert ours.encode(text) == library.encode(text).ids


def test_every_style_is_read_by_our_code(both: Both) -> None:
    ours, library = both

    assert ours.kind == "bpe"
    assert ours.vocab_size == library.get_vocab_size()


def test_alphabet_is_that_of_the_library() -> None:
    """Its ByteLevel writes the bytes of a text in the alphabet; these characters have all that can occur."""
    assert sorted(ALPHABET) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for character in map(chr, [*range(0x800), 0x800, 0x1000, 0xFFFF, *range(0x10000, 0x110000, 0x1000)]):
        written = "".join(piece for piece, _ in split.pre_tokenize_str(character))

        assert written == "".join(ALPHABET[byte] for byte in character.encode())


def by_definition(symbols: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Looks at every pair anew before each merge."""
    while found := [(ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks]:
        _, i = min(found)
        symbols = [*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :]]
    return symbols


PIECES = st.sampled_from(["a", "b", "c", "aa", "ab", "ba", "bc", "aab", "aba", "abab"])


@settings(deadline=None, derandomize=True, max_examples=500)
@given(
    word=st.text("abc", max_size=12),
    pairs=st.lists(st.tuples(PIECES, PIECES), unique=True, max_size=30),
)
@example(word="aaaaa", pairs=[("a", "a"), ("aa", "a")])
@example(word="abab", pairs=[("ab", "a"), ("a", "b")])  # a pair ranked before the merge that makes its part
def test_merges_keep_rank_then_place(word: str, pairs: list[tuple[str, str]]) -> None:
    ranks = {pair: i for i, pair in enumerate(pairs)}

    assert merge(list(word), ranks) == by_definition(list(word), ranks)


def test_stream_never_shows_half_a_character() -> None:
    ours = Tokenizer.from_json(folder("tiny-dense") / "tokenizer.json")
    single = {ours.token_bytes(i): i for i in range(ours.vocab_size)}

    def arriving(data: bytes) -> Iterator[int]:
        for byte in data:
            arrived.append(byte)
            yield single[bytes([byte])]

    arrived: list[int] = []
    seen = [(piece, len(arrived)) for piece in ours.stream(arriving("aé😀".encode() + b"\xe2\x82"))]

    assert seen == [("a", 1), ("é", 3), ("😀", 7), ("\ufffd", 9)]


@pytest.mark.real
def test_real_smollm2_has_the_ids_of_its_authors() -> None:
    """Written down, so that no other program's reading of the file has a part in it."""
    ours, _ = smollm2()

    assert ours.encode("The first law of thermodynamics states that") == [
        504,
        808,
        1525,
        282,
        39361,
        2496,
        338,
    ]
    assert (ours.bos_id, ours.eos_ids, ours.vocab_size) == (1, (2,), 49152)


def test_no_memory_of_words_grows_with_their_length() -> None:
    """Prompts of one word that were refused stayed there, a megabyte each."""
    tiny = Tokenizer.from_json(folder("tiny-dense") / "tokenizer.json")
    core = tiny._core
    assert isinstance(core, Bpe)
    before = len(core.remembered)
    for n in range(3):
        tiny.encode("x" * 50_000 + str(n))
    assert max(map(len, core.remembered)) <= 256
    assert len(core.remembered) <= before + 3
    core.remembered, core.room = {}, 100_000
    for n in range(2000):
        tiny.encode("abcdefgh" * 20 + str(n % 7) * (n % 50) + chr(0x4E00 + n))
    assert sum(4 * len(word) + 8 * len(ids) for word, ids in core.remembered.items()) < REMEMBERED
    core.room = 0
    tiny.encode("zyx")
    assert list(core.remembered) == ["zyx"]
