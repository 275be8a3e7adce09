"""Text to ids and back, for whatever tokenizer a model file brings."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from gnomon.reference import tokenizer_gguf, tokenizer_json, tokenizer_spm
from gnomon.reference.bpe import Bpe
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.library_tokenizer import LibraryTokenizer
from gnomon.reference.pieces import Pieces
from gnomon.reference.pretokenize import ADDS_BOS


class Tokenizer:
    """kind: "bpe" for the code in bpe.py, "library" for the `tokenizers` library

    vocab_size: number of ids; bos_id: id that starts a text, or None; eos_ids: ids that end a generation
    rows: of the embedding, which may be more: an id below it without a token spells nothing
    """

    def __init__(
        self,
        core: Bpe | LibraryTokenizer,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        rows: int = 0,
    ) -> None:
        self._core = core
        self.kind = core.kind
        self.vocab_size = core.size
        self.rows = rows
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        for name, ids in (("bos_id", [] if bos_id is None else [bos_id]), ("eos_ids", self.eos_ids)):
            for token_id in ids:
                if type(token_id) is not int or not (token_id in core or 0 <= token_id < rows):
                    raise ModelError(f"Expected an id below {self.vocab_size} but got {name}={token_id!r}")

    @classmethod
    def from_json(
        cls,
        path: str | Path,
        *,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        eos_token: str | None = None,
        rows: int = 0,
    ) -> "Tokenizer":
        """From a Hugging Face tokenizer.json. The ids, which stand in config.json, are the caller's to pass.

        Without bos_id it is the id that the post-processor puts first, if any. eos_token: the text of one more id that
        ends a generation, if the tokenizer has it. Raises ModelError.
        """
        core = tokenizer_json.read(Path(path))
        ends = [*eos_ids]
        named = None if eos_token is None else core.id_of(eos_token)
        ends += [named] if named is not None and named not in ends else []
        return cls(core, core.start[0] if bos_id is None and core.start else bos_id, ends, rows)

    @classmethod
    def from_gguf(
        cls,
        tokens: Sequence[str],
        merges: Sequence[str],
        token_types: Sequence[int],
        pre: str,
        *,
        model: str = "gpt2",
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        add_bos: bool | None = None,
        add_eos: bool = False,
        scores: Sequence[float] = (),
        space: bool = True,
        rows: int = 0,
    ) -> "Tokenizer":
        """From the metadata tokenizer.ggml.{tokens, merges, token_type, pre, model, ...} of a GGUF file.

        add_bos: None where the file is silent, which for Llama 3 and for SentencePiece (model "llama") means yes;
        add_eos: the first of eos_ids follows every text; scores: of tokens, and space: whether one precedes every text,
        SentencePiece only. Raises ModelError; UnknownTokenizerError for a kind that is not known here.
        """
        eos = tuple(eos_ids)
        start = [bos_id] if add_bos or (add_bos is None and (model == "llama" or pre in ADDS_BOS)) else []
        stop = [*eos[:1]] if add_eos else []
        if (add_eos and not eos) or None in start:
            raise ModelError("Expected the file to name the bos or eos token it asks to add but it does not")
        frame = [token_id for token_id in start if token_id is not None], stop
        core: Bpe | LibraryTokenizer
        if model == "llama":
            core = tokenizer_spm.spm(tokens, scores, token_types, frame, space)
        else:
            core = tokenizer_gguf.bpe(tokens, merges, token_types, pre, model, frame)
        return cls(core, bos_id, eos, rows)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Ids of a text; added tokens in it become their ids.

        add_special: with the ids that the file puts around every text (Llama 3: a first one; SmolLM2: none)
        """
        if not isinstance(text, str):
            raise UsageError(f"Expected text to be a str but got {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"Expected Unicode text but character {error.start} is the surrogate {text[error.start]!r}"
            ) from None
        return self._core.encode(text, add_special)

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Text of ids; bytes that are no valid UTF-8 become U+FFFD."""
        return self._core.decode(self._known(ids), skip_special)

    def stream(self, ids: Iterable[int], *, skip_special: bool = False) -> Iterator[str]:
        """The text of ids as they come, in non-empty pieces that join to what decode gives.

        A character whose bytes are not complete is held back; at the end U+FFFD takes its place.
        """
        made = self._core.pieces(skip_special)
        for token_id in self._known(ids):
            if piece := made.add(token_id):
                yield piece
        if piece := made.end():
            yield piece

    def pieces(self, *, skip_special: bool = False) -> Pieces:
        """What `stream` gives, for ids that are pushed one by one."""
        return Checked(self, self._core.pieces(skip_special))

    def known(self, token_id: int) -> bool:
        """Whether the id has a token. Raises UsageError where it cannot be an id."""
        return self._checked(token_id) in self._core

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one id stands for, which need not be whole characters."""
        return self._core.token_bytes(token_id) if self.known(token_id) else b""

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return self._core.longest()

    @cached_property
    def digest(self) -> str:
        """SHA-256 over alphabet, vocabulary, merges, added tokens and patterns, whatever their file."""
        return self._core.digest()

    def _known(self, ids: Iterable[int]) -> Iterator[int]:
        return (index for index in map(self._checked, ids) if index in self._core)

    def _checked(self, token_id: int) -> int:
        """The id as a plain int. Raises UsageError where it is none of this tokenizer's."""
        try:
            index = operator.index(token_id)
        except TypeError:
            index = -1
        if isinstance(token_id, bool) or not (index in self._core or 0 <= index < self.rows):
            most = max(self.vocab_size, self.rows) - 1
            raise UsageError(f"Expected token ids from 0 to {most} but got {token_id!r}")
        return index


class Checked:
    """Pieces of ids that are checked; an id without a token spells nothing."""

    def __init__(self, tokenizer: Tokenizer, pieces: Pieces) -> None:
        self._tokenizer, self._pieces = tokenizer, pieces
        self.end = pieces.end

    def add(self, token_id: int) -> str:
        return self._pieces.add(token_id) if self._tokenizer.known(token_id) else ""
