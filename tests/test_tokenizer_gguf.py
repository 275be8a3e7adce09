"""What the metadata of a GGUF file may say of a tokenizer: the same as tokenizer.json, or it is refused."""

from pathlib import Path
from typing import Any

import pytest

from gnomon.reference.errors import ModelError
from gnomon.reference.tokenizer import Tokenizer
from trained import SAMPLE, STYLES, changed, gguf, read, trained


@pytest.mark.parametrize("style", STYLES)
def test_gguf_and_json_do_not_differ(style: str, tmp_path: Path) -> None:
    def plain(parts: dict[str, Any]) -> None:
        """GGUF has no place for the flags of an added token."""
        for token in parts["added_tokens"]:
            token.update(lstrip=False, rstrip=False, normalized=False)

    from_json = read(tmp_path, changed(plain, style))
    from_gguf = Tokenizer.from_gguf(*gguf(style), bos_id=1, eos_ids=[2])

    assert from_gguf.digest == from_json.digest
    assert [from_gguf.encode(text) for text in SAMPLE] == [from_json.encode(text) for text in SAMPLE]
    assert from_gguf.decode(range(from_gguf.vocab_size)) == from_json.decode(range(from_json.vocab_size))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "t5"}, "tokenizer.ggml.model to be gpt2 or llama but got 't5'"),
        ({"pre": "deepseek-llm"}, "a known tokenizer.ggml.pre but got 'deepseek-llm'"),
        ({"token_types": [1]}, "a type per token but got 1506 tokens, 1 types"),
        ({"token_types": [6] * 1506}, "token types from 1 to 5 but '<.endoftext.>' has 6"),
        ({"tokens": ["a"] * 1506}, "tokens to differ but 0 and 1 are both 'a'"),
        ({"tokens": [1] * 1506}, "tokens to be text but token 0 is 1"),
        ({"tokens": [], "token_types": []}, "every byte of plain text but 0x0A has none"),
        ({"merges": ["qqq a"]}, "merge 0 needs 'qqq', which is none"),
        ({"merges": ["a"]}, "merges like"),
        ({"add_bos": True}, "to name the bos or eos token"),
        ({"add_eos": True}, "to name the bos or eos token"),
        ({"bos_id": 1506}, "an id below 1506 but got bos_id=1506"),
        ({"eos_ids": [2, -1]}, "an id below 1506 but got eos_ids=-1"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_no_broken_gguf_tokenizer_is_read(change: dict[str, Any], message: str) -> None:
    tokens, merges, types, pre = gguf("gpt-2")
    values: dict[str, Any] = {"tokens": tokens, "merges": merges, "token_types": types, "pre": pre} | change

    with pytest.raises(ModelError, match=message):
        Tokenizer.from_gguf(**values)


def test_unused_tokens_are_not_found_in_text() -> None:
    tokens, merges, types, pre = gguf("gpt-2")
    padded = Tokenizer.from_gguf([*tokens, "[PAD]", "\u0120law"], merges, [*types, 5, 5], pre)

    assert padded.vocab_size == 1508
    assert [padded.encode(text) for text in [*SAMPLE, "[PAD]"]] == [
        trained("gpt-2").encode(text).ids for text in [*SAMPLE, "[PAD]"]
    ]
    assert padded.decode([1506, 1507]) == ""
    assert padded.digest == Tokenizer.from_gguf(tokens, merges, types, pre).digest


def test_bos_and_eos_stand_where_the_file_says() -> None:
    tokens, merges, types, _ = gguf("gpt-2")

    def ids(pre: str, **metadata: Any) -> list[int]:
        made = Tokenizer.from_gguf(tokens, merges, types, pre, bos_id=1, eos_ids=[2, 0], **metadata)
        plain = made.encode("a", add_special=False)
        return [i for i in made.encode("a") if i not in plain]

    assert ids("gpt-2") == []
    assert ids("gpt-2", add_bos=True) == [1]
    assert ids("gpt-2", add_bos=True, add_eos=True) == [1, 2]
    assert ids("llama-bpe") == [1]
    assert ids("llama-bpe", add_bos=False) == []
