"""Tokenizers that bpe.py does not name (Unigram, WordPiece, ...), by way of the `tokenizers` library."""

import hashlib
import json
from collections.abc import Iterable, Iterator

import tokenizers
from gnomon.reference.errors import ModelError


class LibraryTokenizer:
    """The interface of `Bpe`, from the text of a tokenizer.json. Raises ModelError where it is refused."""

    kind = "library"

    def __init__(self, text: str) -> None:
        try:
            self.library = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises the bare class
            raise ModelError(f"Expected a known tokenizer but the library says: {error!s:.200}") from None
        # They belong to a training batch, and a file may claim any length.
        self.library.no_padding()
        self.library.no_truncation()
        self.start: list[int] = []
        self.size: int = self.library.get_vocab_size()

    def encode(self, text: str, add_special: bool) -> list[int]:
        """Ids of a text."""
        ids: list[int] = self.library.encode(text, add_special_tokens=add_special).ids
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool) -> str:
        """The text of all ids."""
        text: str = self.library.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def stream(self, ids: Iterable[int], skip_special: bool) -> Iterator[str]:
        """The text that each id adds, held back while it may end in half a character."""
        seen: list[int] = []
        said = text = ""
        for token_id in ids:
            seen.append(token_id)
            text = self.decode(seen, skip_special)
            if text.startswith(said) and not text.endswith("\ufffd"):
                yield text[len(said) :]
                said = text
        yield text[len(said) :]

    def token_bytes(self, token_id: int) -> bytes:
        """UTF-8 of what the id decodes to alone."""
        return self.decode([token_id], skip_special=False).encode()

    def __contains__(self, token_id: int) -> bool:
        return 0 <= token_id < 1 << 32 and self.library.id_to_token(token_id) is not None

    def digest(self) -> str:
        """SHA-256 over the tokenizer as the library writes it, keys sorted."""
        described = json.loads(self.library.to_str())
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
