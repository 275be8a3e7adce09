"""What happens to text before byte pair encoding: added tokens, patterns, the byte alphabet.

The patterns are those of the Hugging Face originals; llama.cpp has equivalents under the names used here.
Letters and numbers are those of the Unicode version of the `regex` package, composition is that of Python: about
a character newer than Unicode 13, another implementation with older tables may think otherwise.
Source: Radford et al. 2019 (GPT-2); llama.cpp, src/llama-vocab.cpp.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGIT = r"\p{N}"
_CONTRACTION_OR_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS_OR_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{_CONTRACTION_OR_WORD}|\p{{N}}{{1,3}}|{_SIGNS_OR_SPACES}"
QWEN2 = rf"{_CONTRACTION_OR_WORD}|\p{{N}}|{_SIGNS_OR_SPACES}"

_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

# The characters of the Unicode property White_Space. str.strip() would take U+001C to U+001F as well.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def byte_alphabet() -> str:
    """The symbols of bytes 0 to 255: the byte itself where it prints, else the next one from U+0100 on."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    free = count(0x100)
    return "".join(chr(byte if byte in prints else next(free)) for byte in range(256))


ALPHABET = byte_alphabet()
BYTE_OF = {symbol: byte for byte, symbol in enumerate(ALPHABET)}


def spelled(data: bytes) -> str:
    """Bytes in the alphabet: b"a b" is "aĠb"."""
    return "".join(ALPHABET[byte] for byte in data)


def unspelled(token: str) -> bytes:
    """The bytes a token stands for; one with a character outside the alphabet stands for its own UTF-8."""
    try:
        return bytes(BYTE_OF[symbol] for symbol in token)
    except KeyError:
        return token.encode()


@dataclass(frozen=True)
class PreTokenizer:
    """How text becomes words: `nfc` first, then each of `patterns` cuts the pieces that the one before left.

    ignore_merges: a word that is a token is taken whole, whatever the merges would make of it
    """

    patterns: tuple[str, ...]
    nfc: bool = False
    ignore_merges: bool = False


# The names that `tokenizer.ggml.pre` gives them. Several names of llama.cpp mean one pattern; left out are those whose
# pattern is another one, or whose originals do more to a text than llama.cpp does.
_SMOLLM, _GPT2 = PreTokenizer((DIGIT, GPT2)), PreTokenizer((GPT2,))
_LLAMA3, _QWEN2 = PreTokenizer((LLAMA3,), ignore_merges=True), PreTokenizer((QWEN2,), nfc=True)
NAMED = {
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell", "minerva-7b"), _SMOLLM),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "a.x-4.0", "mellum", "trillion"), _GPT2),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), PreTokenizer((LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"), _QWEN2),
    "tekken": PreTokenizer((TEKKEN,), ignore_merges=True),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, DIGIT)),
    "deepseek-v3": PreTokenizer((r"\p{N}{1,3}", HAN, DEEPSEEK3)),
}
ADDS_BOS = tuple(name for name, pre in NAMED.items() if pre.ignore_merges)  # where the file does not say


def isolate(pattern: str, text: str) -> Iterator[str]:
    """Cut `text` into the matches of `pattern` and what lies between them; nothing is lost."""
    end = 0
    for match in regex.finditer(pattern, text):
        if end < match.start():
            yield text[end : match.start()]
        yield match.group()
        end = match.end()
    if end < len(text):
        yield text[end:]


def words(patterns: Iterable[str], text: str) -> list[str]:
    """`text` cut by every pattern in turn."""
    pieces = [text] if text else []
    for pattern in patterns:
        pieces = [part for piece in pieces for part in isolate(pattern, piece)]
    return pieces


@dataclass(frozen=True)
class Added:
    """A token that is found in the text itself and never merged.

    special: decoding may leave it out; lstrip, rstrip: it swallows white space on that side;
    normalized: it is looked for after normalisation, not before
    """

    id: int
    content: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


class Finder:
    """Cuts text at added tokens: the leftmost first, and of those that start there the longest."""

    def __init__(self, tokens: dict[str, Added]) -> None:
        """tokens: by the text to look for"""
        self.tokens = tokens
        lengths: dict[str, set[int]] = {}
        for content in tokens:
            lengths.setdefault(content[0], set()).add(len(content))
        self.lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        # Where one may start. A pattern of all of them takes minutes to compile where they are many.
        self.first = regex.compile("[" + "".join(map(regex.escape, self.lengths)) + "]") if tokens else None

    def __call__(self, text: str) -> Iterator[str | Added]:
        """Added tokens and the text between them, in order."""
        end = 0
        for token, start, stop in self.found(text):
            if token.lstrip:
                start = max(end, len(text[:start].rstrip(WHITE_SPACE)))
            if token.rstrip:
                stop = len(text) - len(text[stop:].lstrip(WHITE_SPACE))
            if end < start:
                yield text[end:start]
            yield token
            end = stop
        if end < len(text):
            yield text[end:]

    def found(self, text: str) -> Iterator[tuple[Added, int, int]]:
        """Every token, where it starts and where it stops."""
        at = 0
        while self.first is not None and (match := self.first.search(text, at)):
            start = at = match.start()
            at += 1
            for length in self.lengths[text[start]]:
                if token := self.tokens.get(text[start : start + length]):
                    at = start + length
                    yield token, start, at
                    break
