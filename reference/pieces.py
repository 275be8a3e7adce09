"""The text of ids pushed one by one, in pieces that join to what decoding all of them gives.

Each id takes time that does not grow with those before it. A piece never takes one back, so what later ids may still
change is held back: half a character, or a run of byte tokens, whose end decides whether it is text at all.
"""

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol


class Pieces(Protocol):
    """add: the text that one more id makes sure, which may be ""; end: what was held back"""

    def add(self, token_id: int) -> str: ...
    def end(self) -> str: ...


class BytePieces:
    """Tokens stand for bytes; what is no valid UTF-8 becomes U+FFFD."""

    def __init__(self, data: Callable[[int], bytes]) -> None:
        """data: the bytes of an id"""
        self._data = data
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token_id: int) -> str:
        return self._decoder.decode(self._data(token_id))

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


class FallbackPieces:
    """Tokens stand for text, some for one byte. A run of bytes that is no valid UTF-8 is a U+FFFD for each of them, as
    in the `tokenizers` library: so a run is held back until it ends.

    data: the text of an id, or its one byte; strip: a character, and how many of it are left out at the start
    """

    def __init__(self, data: Callable[[int], str | bytes], strip: tuple[str, int]) -> None:
        self._data, (self._strip, self._left) = data, strip
        self._run = bytearray()

    def add(self, token_id: int) -> str:
        piece = self._data(token_id)
        if isinstance(piece, bytes):
            self._run += piece
            return ""
        return self._stripped(self._flushed() + piece)

    def end(self) -> str:
        return self._stripped(self._flushed())

    def _flushed(self) -> str:
        run, self._run = bytes(self._run), bytearray()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run)

    def _stripped(self, text: str) -> str:
        if not text or not self._left:
            return text
        out = text
        while self._left and out.startswith(self._strip):
            out, self._left = out[1:], self._left - 1
        if out:
            self._left = 0
        return out


class MetaspacePieces:
    """Tokens stand for text with another sign for spaces; if `lead`, those of the first token are left out."""

    def __init__(self, token: Callable[[int], str], sign: str, lead: bool) -> None:
        self._token, self._sign, self._first = token, sign, lead

    def add(self, token_id: int) -> str:
        text = self._token(token_id).replace(self._sign, "" if self._first else " ")
        self._first = False
        return text

    def end(self) -> str:
        return ""


class WholePieces:
    """For a decoder of which nothing is known but what it gives: all ids are decoded again whenever there are an eighth
    more of them, and at the end. This is linear all in all, and the text comes that much later."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._due = 1
        self._said = ""

    def add(self, token_id: int) -> str:
        self._ids.append(token_id)
        if len(self._ids) < self._due:
            return ""
        self._due += 1 + len(self._ids) // 8
        text = self._decode(self._ids)
        if not text.startswith(self._said) or text.endswith("\ufffd"):
            return ""
        return self._more(text)

    def end(self) -> str:
        return self._more(self._decode(self._ids)) if self._ids else ""

    def _more(self, text: str) -> str:
        more, self._said = text[len(self._said) :], text
        return more
