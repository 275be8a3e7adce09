"""What a tokenizer.json may hold: its parts that make the digest, and the faults that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnomon.reference.errors import ModelError
from gnomon.reference.tokenizer import Tokenizer
from trained import SAMPLE, changed, read, trained, tree

Tree = dict[str, Any]


def test_digest_does_not_show_how_json_is_written(tmp_path: Path) -> None:
    def strings(parts: Tree) -> None:
        parts["model"]["merges"] = [" ".join(pair) for pair in parts["model"]["merges"]]
        parts["model"]["vocab"] = dict(reversed(parts["model"]["vocab"].items()))

    text = changed(strings)

    assert read(tmp_path, text).digest == read(tmp_path, tree("gpt-2")).digest
    assert [read(tmp_path, text).encode(sample) for sample in SAMPLE] == [
        trained("gpt-2").encode(sample).ids for sample in SAMPLE
    ]


DIFFERENT: dict[str, Callable[[Tree], object]] = {
    "vocabulary": lambda t: t["model"]["vocab"].update({"\u0120thermodynamics": 1499, **swapped(t, 1499, 1500)}),
    "order of merges": lambda t: t["model"]["merges"].insert(0, t["model"]["merges"].pop(1)),
    "one merge less": lambda t: t["model"]["merges"].pop(),
    "special": lambda t: t["added_tokens"][0].update(special=False),
    "lstrip": lambda t: t["added_tokens"][0].update(lstrip=True),
    "content": lambda t: t["added_tokens"][-1].update(content="<other>"),
    "normalizer": lambda t: t.update(normalizer={"type": "NFC"}),
    "pattern": lambda t: t.update(pre_tokenizer=json.loads(tree("smollm"))["pre_tokenizer"]),
    "ignore_merges": lambda t: t["model"].update(ignore_merges=True),
}


def swapped(parts: Tree, a: int, b: int) -> dict[str, int]:
    """The tokens of two ids with each other's id."""
    of = {i: token for token, i in parts["model"]["vocab"].items()}
    return {of[a]: b, of[b]: a}


@pytest.mark.parametrize("part", DIFFERENT)
def test_digest_misses_no_part(part: str, tmp_path: Path) -> None:
    other = read(tmp_path, changed(DIFFERENT[part]))

    assert other.kind == "bpe"
    assert other.digest != read(tmp_path, tree("gpt-2")).digest


def rename(old: str, new: str) -> Callable[[Tree], object]:
    """A token gets another spelling, and the merges that need it go."""

    def change(parts: Tree) -> None:
        model = parts["model"]
        model["vocab"] = {new if token == old else token: i for token, i in model["vocab"].items()}
        model["merges"] = [pair for pair in model["merges"] if old not in pair]

    return change


def vocab(**tokens: Any) -> Callable[[Tree], object]:
    """Entries added to the vocabulary, or put in the place of those there."""
    return lambda t: t["model"]["vocab"].update(tokens)


def add(**token: Any) -> Callable[[Tree], object]:
    """An added token more."""
    return lambda t: t["added_tokens"].append({"id": 1506, "content": "<new>", "special": True} | token)


def merged(*merges: Any) -> Callable[[Tree], object]:
    """Merges more."""
    return lambda t: t["model"]["merges"].extend(merges)


BROKEN: dict[str, tuple[Callable[[Tree], object], str]] = {
    "two tokens, one id": (vocab(extra=7), "one token per id but 7 is"),
    "hole": (
        lambda t: t["model"]["vocab"].pop("\u0120thermodynamics"),
        "without a hole but no token has id 1500",
    ),
    "enormous id": (vocab(extra=10**12), "without a hole but no token has id 1506"),
    "negative id": (vocab(extra=-1), "at least 0 but 'extra' has -1"),
    "float id": (vocab(extra=1506.0), "'extra' has 1506.0"),
    "id as text": (vocab(extra="1506"), "'extra' has '1506'"),
    "id as bool": (vocab(a=True), "'a' has True"),
    "id as list": (vocab(extra=[]), "'extra' has \\[\\]"),
    "surrogate": (vocab(**{"\ud800": 1506}), "Unicode text but one is '.ud800'"),
    "no symbol for a byte": (rename("~", "~missing~"), "every byte of plain text but 0x7E has none"),
    "no symbol for the space": (rename("\u0120", "\u2581"), "every byte of plain text but 0x20 has none"),
    "merge of an unknown": (merged(["qqq", "a"]), "needs 'qqq', which is none"),
    "merge into an unknown": (
        merged(["q", "\u0120thermodynamics"]),
        "needs 'q.thermodynamics', which is none",
    ),
    "merge twice": (
        lambda t: t["model"]["merges"].append(t["model"]["merges"][0]),
        "every merge once but 0 and",
    ),
    "merge of one": (merged("ab"), "merges like .* but got 'ab'"),
    "merge of three": (merged(["a", "b", "c"]), "merges like .* but got \\['a', 'b', 'c'\\]"),
    "merge of numbers": (merged([1, 2]), "merges like .* but got \\[1, 2\\]"),
    "added token elsewhere": (add(content="~", id=1506), "one id per token but '~' is .* and 1506"),
    "added token in place of another": (add(id=7), "one token per id but 7 is"),
    "added token twice": (
        add(content="<tool", id=1506),
        "one token per id|one id per token|stands there twice",
    ),
    "added token without text": (add(content=""), "at least one character but id 1506 has none"),
    "added token without id": (lambda t: t["added_tokens"].append({"content": "x"}), "added tokens with id"),
    "added token with a list as id": (add(id=[]), "'<new>' has \\[\\]"),
    "unknown model": (lambda t: t["model"].update(type="Oracle"), "the library says"),
    "merges without their prefix": (
        lambda t: t["model"].update(continuing_subword_prefix="##"),
        "second part in '##' but got",
    ),
    "vocabulary as list": (lambda t: t["model"].update(vocab=["a"]), "the library says"),
    "no model": (lambda t: t.pop("model"), "the library says"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_no_broken_tokenizer_is_read(fault: str, tmp_path: Path) -> None:
    change, message = BROKEN[fault]

    with pytest.raises(ModelError, match=message) as refusal:
        read(tmp_path, changed(change))

    assert str(refusal.value).startswith("tokenizer.json: Expected")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"<|im_start|>": {"ids": [10**9]}}, "ids below 1506 around a text but got 1000000000"),
        ({"<|im_start|>": {"ids": ["1"]}}, "ids below 1506 around a text but got '1'"),
        ({"<|im_start|>": {}}, "ids of '<.im_start.>' in the template but got {}"),
        ({}, "ids of '<.im_start.>' in the template but got None"),
    ],
    ids=["unknown", "text", "none", "no token"],
)
def test_no_id_around_a_text_is_unknown(tokens: Tree, message: str, tmp_path: Path) -> None:
    def change(parts: Tree) -> None:
        parts["post_processor"]["processors"][1]["special_tokens"] = tokens

    with pytest.raises(ModelError, match=message):
        read(tmp_path, changed(change, "llama-bpe"))


MALFORMED: dict[str, str | bytes] = {
    "empty": "",
    "cut off": tree("gpt-2")[:5000],
    "not UTF-8": b'{"model": "\xff"}',
    "nested too deeply": "[" * 100_000,
    "key twice": '{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}}}',
    "integer of 10,000 digits": '{"model": ' + "1" * 10_000 + "}",
    "array": "[]",
    "null": "null",
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_no_malformed_json_is_read(fault: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^Expected .*tokenizer\.json.* but ") as refusal:
        read(tmp_path, MALFORMED[fault])

    assert "\n" not in str(refusal.value)


def test_no_file_is_read_that_is_none_or_too_large(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelError, match=r"Expected a file tokenizer\.json in .* but there is none"):
        Tokenizer.from_json(path)
    with pytest.raises(ModelError, match=r"Expected a file .* but that is a directory"):
        Tokenizer.from_json(tmp_path)
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ModelError, match="at most 67108864 bytes but it has 1099511627776"):
        Tokenizer.from_json(path)
