"""Tokenizers that bpe.py does not name (Unigram, WordPiece, ...), by way of the `tokenizers` library.

The library runs in a process of its own: a broken file may make it ask for any memory, run for hours, or end the
process.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gnomon.reference.confined import Confined, DiedError, RefusedError
from gnomon.reference.errors import ModelError
from gnomon.reference.pieces import BytePieces, FallbackPieces, MetaspacePieces, Pieces, WholePieces
from gnomon.reference.pretokenize import unspelled

# To load the largest tokenizers in use takes less than half of the memory and a tenth of the time.
MEBIBYTES, LOAD_SECONDS, SECONDS, CHARACTERS = 2048, 30.0, 5.0, 200_000  # one second more for so many characters
BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")


class LibraryTokenizer:
    """The interface of `Bpe`, from the text of a tokenizer.json. Raises ModelError where the library refuses."""

    kind = "library"

    def __init__(self, text: str) -> None:
        script = Path(__file__).with_name("library_child.py")
        self._library = Confined(script, MEBIBYTES, LOAD_SECONDS, first=["load", text])
        opened = self._asked(None)
        self.start: list[int] = []
        self.size: int = opened["size"]
        self.vocab: dict[str, int] = {token: token_id for token, token_id, _ in opened["tokens"]}
        self.tokens: dict[int, str] = {token_id: read for _, token_id, read in opened["tokens"]}
        self._special = frozenset(opened["special"])
        decoder = json.loads(text).get("decoder")
        self._decoders = parts(decoder)

    def encode(self, text: str, add_special: bool) -> list[int]:
        """Ids of a text."""
        ids: list[int] = self._asked(["encode", text, add_special])
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool) -> str:
        """The text of all ids."""
        text: str = self._asked(["decode", list(ids), skip_special])
        return text

    def pieces(self, skip_special: bool) -> Pieces:
        """The text of ids as they come."""
        made = self._pieces(skip_special)
        return Skipping(made, self._special) if skip_special else made

    def _pieces(self, skip_special: bool) -> Pieces:
        match self._decoders:
            case [{"type": "ByteLevel"}]:
                return BytePieces(self.token_bytes)
            case [{"type": "Metaspace", "replacement": str(sign), **options}]:
                lead = options.get("prepend_scheme") != "never" and options.get("add_prefix_space") is not False
                return MetaspacePieces(self.tokens.__getitem__, sign, lead)
            case [*replaced, {"type": "ByteFallback"}, {"type": "Fuse"}] if all(map(replacement, replaced)):
                return FallbackPieces(self._text_or_byte, ("", 0))
            case [
                *replaced,
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": str(sign), "start": int(count), "stop": 0},
            ] if all(map(replacement, replaced)):
                return FallbackPieces(self._text_or_byte, (sign, count))
        return WholePieces(lambda ids: self.decode(ids, skip_special))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes an id stands for within a text: with the space that a decoder strips from the start of one."""
        if any(part.get("type") == "ByteLevel" for part in self._decoders):
            return unspelled(self.tokens[token_id])
        piece = self._text_or_byte(token_id)
        return piece if isinstance(piece, bytes) else piece.encode()

    def _text_or_byte(self, token_id: int) -> str | bytes:
        """A token after what its decoder replaces in it."""
        token = self.tokens[token_id]
        for part in self._decoders:
            match part:
                case {"type": "Metaspace", "replacement": str(sign)}:
                    token = token.replace(sign, " ")
                case {"type": "ByteFallback"} if found := BYTE.fullmatch(token):
                    return bytes([int(found[1], 16)])
                case _ if pair := replacement(part):
                    token = token.replace(*pair)
        return token

    def id_of(self, token: str) -> int | None:
        """The id of a token."""
        return self.vocab.get(token)

    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(len(token.encode("utf-8", "replace")) for token in self.tokens.values())

    def __contains__(self, token_id: int) -> bool:
        return token_id in self.tokens

    def digest(self) -> str:
        """SHA-256 over the tokenizer as the library writes it, keys sorted."""
        told: str = self._asked(["digest"])
        return told

    def _asked(self, request: Any) -> Any:
        """request: None to start. What the library says of a broken file, at load or at the first text that meets the
        flaw, is a ModelError."""
        try:
            if request is None:
                return self._library.start()
            given = SECONDS + len(request[1]) // CHARACTERS if len(request) > 1 else LOAD_SECONDS
            return self._library.ask(request, given)
        except RefusedError as error:
            raise ModelError(f"Expected a known tokenizer but the library says: {error!s:.200}") from None
        except DiedError as error:
            what = "load this tokenizer" if request is None else f"{request[0]} with this tokenizer"
            raise ModelError(f"Expected the tokenizer library to {what} within bounds but {error}") from None


class Skipping:
    """Pieces without special tokens."""

    def __init__(self, pieces: Pieces, special: frozenset[int]) -> None:
        self._pieces, self._special = pieces, special
        self.end = pieces.end

    def add(self, token_id: int) -> str:
        return "" if token_id in self._special else self._pieces.add(token_id)


def parts(decoder: Any) -> list[dict[str, Any]]:
    """The decoders of a sequence in order, or the one there is."""
    inner = decoder.get("decoders") if isinstance(decoder, dict) and decoder.get("type") == "Sequence" else [decoder]
    if not isinstance(inner, list):
        return []
    return [one for part in inner for one in (parts(part) if part != decoder else [part]) if isinstance(one, dict)]


def replacement(part: Any) -> tuple[str, str] | None:
    """What a decoder replaces in every token, and by what; None for another decoder."""
    match part:
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return old, new
    return None
