"""The tokenizer of a GGUF file whose tokenizer.ggml.model is "llama": byte pair encoding of SentencePiece.

A space is "▁", and one precedes every text. Neighbouring pieces merge, the best score first and leftmost first; a
character without a token becomes one token per byte. The `tokenizers` library runs it, from the tokenizer.json that
transformers would make of the same vocabulary: merges are all ways to split a token in two, by score.
Source: Kudo and Richardson 2018, arXiv 1808.06226; transformers, convert_slow_tokenizer.py
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.reference.errors import ModelError
from gnomon.reference.library_tokenizer import LibraryTokenizer

Frame = tuple[list[int], list[int]]  # ids before and after a text
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # values of tokenizer.ggml.token_type
MAX_CHARACTERS = 8 << 20  # of all tokens together: three times the largest vocabularies in use
MAX_TOKEN = 512  # characters


def spm(
    tokens: Sequence[str], scores: Sequence[float], token_types: Sequence[int], frame: Frame, prefix: bool
) -> LibraryTokenizer:
    """tokens, scores, token_types: [vocabulary] by id; prefix: a space precedes every text. Raises ModelError."""
    if not len(tokens) == len(scores) == len(token_types):
        raise ModelError(
            "Expected a score and a type per token but got "
            f"{len(tokens)} tokens, {len(scores)} scores, {len(token_types)} types"
        )
    ids: dict[str, int] = {}
    for i, token in enumerate(tokens):
        if not isinstance(token, str) or not 1 <= len(token) <= MAX_TOKEN:
            raise ModelError(f"Expected tokens of 1 to {MAX_TOKEN} characters but token {i} is {token!r:.80}")
        if ids.setdefault(token, i) != i:
            raise ModelError(f"Expected tokens to differ but {ids[token]} and {i} are both {token!r:.80}")
    if sum(map(len, tokens)) > MAX_CHARACTERS:
        raise ModelError(f"Expected tokens of at most {MAX_CHARACTERS} characters together but got more")
    if odd := [i for i, kind in enumerate(token_types) if kind not in range(NORMAL, BYTE + 1)]:
        raise ModelError(f"Expected token types from 1 to 6 but token {odd[0]} has {token_types[odd[0]]!r:.80}")
    if odd := [i for i, score in enumerate(scores) if not abs(score) < float("inf")]:
        raise ModelError(f"Expected finite scores but token {odd[0]} has {scores[odd[0]]!r}")
    if missing := [byte for byte in range(256) if token_types[ids.get(f"<0x{byte:02X}>", 0)] != BYTE]:
        raise ModelError(f"Expected a token of type 6 for every byte but 0x{missing[0]:02X} has none")
    for one in (*frame[0], *frame[1]):
        if type(one) is not int or not 0 <= one < len(tokens):
            raise ModelError(f"Expected ids below {len(tokens)} around a text but got {one!r:.80}")
    unknown = next((tokens[i] for i, kind in enumerate(token_types) if kind == UNKNOWN), None)
    pieces = {token: i for token, i in ids.items() if token_types[i] == NORMAL}
    return LibraryTokenizer(json.dumps(described(ids, pieces, scores, token_types, unknown, frame, prefix)))


def described(
    ids: Mapping[str, int],
    pieces: Mapping[str, int],
    scores: Sequence[float],
    token_types: Sequence[int],
    unknown: str | None,
    frame: Frame,
    prefix: bool,
) -> dict[str, Any]:
    """The content of a tokenizer.json."""
    around = [{"SpecialToken": {"id": str(i), "type_id": 0}} for i in frame[0]]
    around.append({"Sequence": {"id": "A", "type_id": 0}})
    around += [{"SpecialToken": {"id": str(i), "type_id": 0}} for i in frame[1]]
    tokens = list(ids)
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "version": "1.0",
        "added_tokens": [added(tokens[i], i, kind) for i, kind in enumerate(token_types) if kind in (2, 3, 4)],
        "normalizer": {"type": "Sequence", "normalizers": [*[{"type": "Prepend", "prepend": SPACE}] * prefix, replace]},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around,
            "pair": around,
            "special_tokens": {
                str(i): {"id": str(i), "ids": [i], "tokens": [tokens[i]]} for i in (*frame[0], *frame[1])
            },
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *[strip] * prefix],
        },
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": ids,
            "merges": merges(pieces, scores),
        },
    }


def added(content: str, token_id: int, kind: int) -> dict[str, Any]:
    """A token that is found in the text itself."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, "special": kind != USER_DEFINED, **flags}


def merges(pieces: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to split a piece into two: the best score of the whole first, then the longest left part."""
    found = [
        (scores[i], at, piece)
        for piece, i in pieces.items()
        for at in range(1, len(piece))
        if piece[:at] in pieces and piece[at:] in pieces
    ]
    return [(piece[:at], piece[at:]) for _, at, piece in sorted(found, reverse=True)]
