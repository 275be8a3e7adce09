"""Small tokenizers of the four pre-tokenizer styles, trained by the `tokenizers` library; texts to try."""

import argparse
import difflib
import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from gnomon.reference.tokenizer import Tokenizer

# Kind of text -> texts. The escapes show what an editor would not: composition, joiners, spaces, controls.
TEXTS: dict[str, list[str]] = json.loads((Path(__file__).parent / "data" / "tokenizer_texts.json").read_text("utf-8"))

SAMPLE = [text for texts in TEXTS.values() for text in texts[:3]]

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED = (
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("<tool", normalized=False),
    AddedToken("<tool_call>", normalized=False),
    AddedToken("Vi\u1ec7t", normalized=True),
)

# Copied from the tokenizer.json of meta-llama/Meta-Llama-3-8B and Qwen/Qwen2-0.5B.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(use_regex: bool) -> Any:
    """The last step of every style."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern: str) -> Any:
    """The first step of two styles."""
    return pre_tokenizers.Split(Regex(pattern), "isolated")


STYLES = {
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
    "gpt-2": byte_level(True),
    "llama-bpe": pre_tokenizers.Sequence([split(LLAMA3), byte_level(False)]),
    "qwen2": pre_tokenizers.Sequence([split(QWEN2), byte_level(False)]),
}


def around(vocab: dict[str, int], merges: list[tuple[str, str]], style: str, ignore_merges: bool = False) -> Any:
    """A tokenizer of the library with the surroundings that the originals of a style have."""
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    made.normalizer = normalizers.NFC() if style == "qwen2" else None
    made.pre_tokenizer = STYLES[style]
    made.decoder = decoders.ByteLevel()
    return made


# Training leaves no merge across the cuts of the pre-tokenizer: these tell whether it does cut there.
ACROSS = (["1", "2"], ["\u0120", "1"], ["\u00b2", "\u00c2"])


@functools.cache
def trained(style: str) -> Any:
    """A tokenizer of 1,506 ids, in a fraction of a second."""
    made = around({}, [], style)
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = [inspect.getsource(module) for module in (argparse, difflib, inspect)]
    made.train_from_iterator([*sources, *(text for texts in TEXTS.values() for text in texts * 3)], trainer)
    parts = json.loads(made.to_str())
    vocab, merges = parts["model"]["vocab"], parts["model"]["merges"]
    new = [pair for pair in ACROSS if pair not in merges]
    for _ in new:  # in place of the last ones
        del vocab["".join(merges.pop())]
    merges[:0] = new
    # The last can be reached as a whole word only: no merge makes it.
    for token in [*map("".join, new), "\u0120thermodynamics"]:
        vocab[token] = len(vocab)
    parts["model"]["ignore_merges"] = style == "llama-bpe"
    made = tokenizers.Tokenizer.from_str(json.dumps(parts))
    made.add_tokens(list(ADDED))
    if style == "llama-bpe":
        start = processors.TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
        made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), start])
    return made


@functools.cache
def tree(style: str) -> str:
    """The tokenizer.json of a trained tokenizer."""
    text: str = trained(style).to_str()
    return text


def changed(change: Callable[[dict[str, Any]], object], style: str = "gpt-2") -> str:
    """The tokenizer.json of a trained tokenizer after `change` to it."""
    parts = json.loads(tree(style))
    change(parts)
    return json.dumps(parts)


def read(folder: Path, content: str | bytes) -> Tokenizer:
    """Our tokenizer, from a tokenizer.json with that content."""
    path = folder / "tokenizer.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Tokenizer.from_json(path)


def gguf(style: str) -> tuple[list[str], list[str], list[int], str]:
    """Tokens, merges, token types and pre-tokenizer of a trained tokenizer as a GGUF file holds them."""
    parts = json.loads(tree(style))
    ids = parts["model"]["vocab"] | {token["content"]: token["id"] for token in parts["added_tokens"]}
    types = {token["id"]: 3 if token["special"] else 4 for token in parts["added_tokens"]}
    tokens = sorted(ids, key=lambda token: ids[token])
    merges = [" ".join(pair) for pair in parts["model"]["merges"]]
    return tokens, merges, [types.get(i, 1) for i in range(len(tokens))], style
