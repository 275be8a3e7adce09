"""Read a Hugging Face tokenizer.json: byte-level BPE where bpe.py names all its parts, else the library."""

from pathlib import Path
from typing import Any

from gnomon.reference.bpe import Bpe, Pair
from gnomon.reference.errors import ModelError
from gnomon.reference.library_tokenizer import LibraryTokenizer
from gnomon.reference.pretokenize import DIGIT, GPT2, LLAMA3, QWEN2, Added, PreTokenizer
from gnomon.reference.strict_json import parse_object, read_bytes

LIMIT = 64 << 20  # bytes: twice the largest in use
NAMED_CUTS = (DIGIT, GPT2, LLAMA3, QWEN2)
# Options of model BPE that would change the ids.
CHANGES = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")

Frame = tuple[list[int], list[int]]  # ids before and after a text


def read(path: Path) -> Bpe | LibraryTokenizer:
    """Raises ModelError, with the name of the file in it."""
    data = read_bytes(path, LIMIT)
    tree = parse_object(data, path.name)
    try:
        return bpe(tree) or library(tree, data.decode("utf-8"))
    except ModelError as error:
        raise ModelError(f"{path.name}: {error}") from None


def bpe(tree: Any) -> Bpe | None:
    """None where a part of the tokenizer is not named here. Raises ModelError where a named one is broken."""
    match tree:
        case {
            "model": {"type": "BPE", "vocab": dict(vocab), "merges": list(merges), **options},
            "normalizer": None | {"type": "NFC"} as normalizer,
            "pre_tokenizer": dict(pre_tokenizer),
            "decoder": {"type": "ByteLevel"},
            "added_tokens": list(nodes),
            **rest,
        } if not any(options.get(name) for name in CHANGES):
            patterns, frame = cuts(pre_tokenizer), framed(rest.get("post_processor"))
            added = [token for token in map(added_token, nodes) if token]
        case _:
            return None
    if patterns is None or frame is None or len(added) < len(nodes):
        return None
    ignore_merges = options.get("ignore_merges") is True
    pre = PreTokenizer(patterns, nfc=normalizer is not None, ignore_merges=ignore_merges)
    out = Bpe(vocab, [pair(node) for node in merges], added, pre, *frame)
    # The library puts an unknown token, if there is one, for a byte without a token; bpe.py does not.
    return None if out.lacks and options.get("unk_token") is not None else out


def library(tree: Any, text: str) -> LibraryTokenizer:
    """By the library, after a check that it omits: it would not refuse such merges but end the process."""
    match tree:
        case {"model": {"continuing_subword_prefix": str(prefix), "merges": list(merges)}}:
            for merge in map(pair, merges):
                if not merge[1].startswith(prefix):
                    raise ModelError(f"Expected merges with a second part in {prefix!r:.80} but got {merge!r:.80}")
    return LibraryTokenizer(text)


def pair(node: Any) -> Pair:
    """A merge, written as "a b" or as ["a", "b"]."""
    match node.split(" ") if isinstance(node, str) else node:
        case [str(left), str(right)]:
            return left, right
    raise ModelError(f'Expected merges like "a b" or ["a", "b"] but got {node!r:.80}')


def cuts(node: dict[str, Any]) -> tuple[str, ...] | None:
    """The patterns of a ByteLevel pre-tokenizer and of what precedes it in a Sequence."""
    patterns = []
    match node.get("pretokenizers") if node.get("type") == "Sequence" else [node]:
        case [*steps, {"type": "ByteLevel", "add_prefix_space": False, **options}]:
            patterns = [cut(step) for step in steps] + [GPT2] * bool(options.get("use_regex", True))
    return tuple(patterns) if patterns and all(pattern in NAMED_CUTS for pattern in patterns) else None


def cut(step: Any) -> Any:
    """The pattern that a step of a pre-tokenizer isolates, if that is what it does."""
    match step:
        case {"type": "Digits", "individual_digits": True}:
            return DIGIT
        case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return pattern
    return None


def framed(node: Any) -> Frame | None:
    """What a post-processor puts around one text. ByteLevel only moves offsets, which nobody asks for."""
    match node:
        case {"type": "Sequence", "processors": [*steps]}:
            pass
        case _:
            steps = [node]
    match [step for step in steps if not (isinstance(step, dict) and step.get("type") == "ByteLevel")]:
        case [] | [None]:
            return [], []
        case [{"type": "TemplateProcessing", "single": [*pieces], "special_tokens": dict(tokens)}]:
            return template(pieces, tokens)
    return None


def template(pieces: list[Any], tokens: dict[str, Any]) -> Frame | None:
    """The ids before and after the text in a template; None where the text stands there twice or never."""
    sides: list[list[int]] = [[]]
    for piece in pieces:
        match piece:
            case {"Sequence": {"id": "A"}}:
                sides.append([])
            case {"SpecialToken": {"id": str(name)}}:
                match tokens.get(name):
                    case {"ids": [*ids]}:
                        sides[-1].extend(ids)
                    case other:
                        raise ModelError(f"Expected ids of {name!r:.80} in the template but got {other!r:.80}")
            case _:
                return None
    return (sides[0], sides[1]) if len(sides) == 2 else None


def added_token(node: Any) -> Added | None:
    """An entry of `added_tokens`; None where it must be a word of its own, which bpe.py does not name."""
    match node:
        case {"id": token_id, "content": str(content), "special": bool(special), **options}:
            flags = {name: options.get(name) is True for name in ("lstrip", "rstrip", "normalized")}
            return None if options.get("single_word") else Added(token_id, content, special, **flags)
    raise ModelError(f"Expected added tokens with id, content and special but got {node!r:.80}")
