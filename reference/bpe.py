"""Byte-level byte pair encoding, the plain way.

    pieces = text cut at its added tokens, each of which is an id at once
    words  = every other piece, cut by the pre-tokenizer
    ids    = every word as UTF-8, one symbol per byte; neighbours merged, lowest rank first and leftmost first

Bytes that no token spells are left out before merging, as in the `tokenizers` library; `lacks` names them.
SmolLM2 lacks 13 that never occur in UTF-8, two that start unassigned characters, and six control characters.
Source: Sennrich et al. 2016, arXiv 1508.07909; Radford et al. 2019 (GPT-2).
"""

import hashlib
import json
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from gnomon.reference.errors import ModelError
from gnomon.reference.pieces import BytePieces, Pieces
from gnomon.reference.pretokenize import ALPHABET, Added, Finder, PreTokenizer, spelled, unspelled, words

Pair = tuple[str, str]
REQUIRED = b"\n" + bytes(range(0x20, 0x7F))  # a vocabulary without these cannot be one in the byte alphabet
REMEMBERED, LONGEST = 16 << 20, 256  # bytes of all words whose ids are kept, about; characters of one of them

LONGEST_ADDED = 1024  # characters: each place of a text is held against every length of an added token


def merge(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Merge neighbours until none are a listed pair: lowest rank first, of equal ranks the leftmost first."""
    symbols, end = [*symbols], len(symbols)
    before, after = array("q", range(-1, end - 1)), array("q", range(1, end + 1))  # neighbours of symbol i
    # Rank and place in one integer: a word may be as long as a prompt, and a tuple of both takes four times as much.
    waiting = [ranks[pair] << 40 | i for i, pair in enumerate(pairwise(symbols)) if pair in ranks]
    heapify(waiting)
    while waiting:
        rank, i = divmod(heappop(waiting), 1 << 40)
        j = after[i]
        if j == end or ranks.get((symbols[i], symbols[j])) != rank:
            continue  # one of them has merged with another neighbour meanwhile
        symbols[i], symbols[j] = symbols[i] + symbols[j], ""
        after[i] = after[j]
        if after[i] < end:
            before[after[i]] = i
        for left, right in ((before[i], i), (i, after[i])):
            if left >= 0 and right < end and (pair := (symbols[left], symbols[right])) in ranks:
                heappush(waiting, ranks[pair] << 40 | left)
    return [symbol for symbol in symbols if symbol]


class Bpe:
    """A byte-level tokenizer. Raises ModelError where ids have a hole or the parts contradict each other.

    vocab:  ids of tokens, which are spelled in the byte alphabet
    merges: pairs of tokens, lowest rank first
    added:  tokens found in the text beforehand
    start:  ids before a text where special tokens are asked for; stop: those after it
    unused: ids that no text encodes to and that decode to nothing
    """

    kind = "bpe"

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[Pair],
        added: Sequence[Added],
        pre: PreTokenizer,
        start: Sequence[int] = (),
        stop: Sequence[int] = (),
        unused: Iterable[int] = (),
    ) -> None:
        self.vocab, self.pre = vocab, pre
        self.bytes = table(vocab, added, unused)  # [id] -> bytes
        self.added = {token.id: token for token in added}
        self.size = len(self.bytes)
        self.lacks = bytes(byte for byte, symbol in enumerate(ALPHABET) if symbol not in vocab)
        if missing := sorted(set(REQUIRED) & set(self.lacks)):
            raise ModelError(f"Expected a token for every byte of plain text but 0x{missing[0]:02X} has none")
        self.ranks = rank(merges, vocab)
        for token_id in (*start, *stop):
            if type(token_id) is not int or token_id not in self:
                raise ModelError(f"Expected ids below {self.size} around a text but got {token_id!r:.80}")
        self.start, self.stop = list(start), list(stop)
        self.find_raw = Finder({t.content: t for t in added if not t.normalized})
        self.find_normal = Finder({self.normal(t.content): t for t in added if t.normalized})
        self.remembered: dict[str, list[int]] = {}
        self.room = REMEMBERED

    def normal(self, text: str) -> str:
        """NFC where the pre-tokenizer asks for it."""
        return unicodedata.normalize("NFC", text) if self.pre.nfc else text

    def encode(self, text: str, add_special: bool) -> list[int]:
        """Ids of a text."""
        ids: list[int] = []
        for piece in self.find_raw(text):
            for part in (piece,) if isinstance(piece, Added) else self.find_normal(self.normal(piece)):
                if isinstance(part, Added):
                    ids.append(part.id)
                else:
                    for word in words(self.pre.patterns, part):
                        ids.extend(self.word(word))
        return [*self.start, *ids, *self.stop] if add_special else ids

    def word(self, word: str) -> list[int]:
        """Ids of a word, which no merge crosses."""
        if (known := self.remembered.get(word)) is not None:
            return known
        symbols = spelled(word.encode())
        if self.pre.ignore_merges and symbols in self.vocab:
            tokens = [symbols]
        else:
            tokens = merge([symbol for symbol in symbols if symbol in self.vocab], self.ranks)
        ids = [self.vocab[token] for token in tokens]
        if len(word) <= LONGEST:
            size = 200 + 4 * len(word) + 8 * len(ids)
            if size > self.room:
                self.remembered, self.room = {}, REMEMBERED
            self.remembered[word] = ids
            self.room -= size
        return ids

    def pieces(self, skip_special: bool) -> Pieces:
        """The text of ids as they come; invalid UTF-8 becomes U+FFFD."""
        special = {i for i, token in self.added.items() if token.special} if skip_special else frozenset[int]()
        return BytePieces(lambda token_id: b"" if token_id in special else self.bytes[token_id])

    def decode(self, ids: Iterable[int], skip_special: bool) -> str:
        """The text of all ids."""
        made = self.pieces(skip_special)
        return "".join(map(made.add, ids)) + made.end()

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes an id stands for."""
        return self.bytes[token_id]

    def id_of(self, token: str) -> int | None:
        """The id of an added token, or of one in the byte alphabet."""
        added = [i for i, one in self.added.items() if one.content == token]
        return added[0] if added else self.vocab.get(token)

    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(map(len, self.bytes))

    def __contains__(self, token_id: int) -> bool:
        return 0 <= token_id < self.size

    def digest(self) -> str:
        """SHA-256 over everything that decides ids and text, in a form that no file format shows through."""
        described = {
            "alphabet": ALPHABET,
            "vocab": sorted((i, token) for token, i in self.vocab.items() if i not in self.added),
            "merges": sorted(self.ranks, key=lambda pair: self.ranks[pair]),
            # Without a normaliser, "before" and "after normalisation" are the same.
            "added": [
                (i, t.content, t.special, t.lstrip, t.rstrip, t.normalized and self.pre.nfc)
                for i, t in sorted(self.added.items())
            ],
            "patterns": self.pre.patterns,
            "nfc": self.pre.nfc,
            "ignore_merges": self.pre.ignore_merges,
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def table(vocab: Mapping[str, int], added: Sequence[Added], unused: Iterable[int]) -> list[bytes]:
    """The bytes of every id, after checking that the ids are 0 to n - 1 and each belongs to one token."""
    owners: dict[int, str] = {}
    for token, token_id in (*vocab.items(), *((t.content, t.id) for t in added)):
        if type(token_id) is not int or token_id < 0:
            raise ModelError(f"Expected token ids of at least 0 but {token!r:.80} has {token_id!r:.80}")
        if (other := owners.setdefault(token_id, token)) != token:
            raise ModelError(f"Expected one token per id but {token_id} is {other!r:.80} and {token!r:.80}")
    contents = [t.content for t in added]
    for t in added:
        if vocab.get(t.content, t.id) != t.id:
            raise ModelError(f"Expected one id per token but {t.content!r:.80} is {vocab[t.content]} and {t.id}")
        if not t.content:
            raise ModelError(f"Expected added tokens of at least one character but id {t.id} has none")
        if len(t.content) > LONGEST_ADDED:
            raise ModelError(f"Expected added tokens of at most {LONGEST_ADDED} characters but id {t.id} has more")
    if len(set(contents)) < len(contents):
        twice = next(content for content, n in Counter(contents).items() if n > 1)
        raise ModelError(f"Expected added tokens to differ but {twice!r:.80} stands there twice")
    owners.update(dict.fromkeys(unused, ""))
    for token_id in range(len(owners)):  # as long as the vocabulary, whatever the largest id claims
        if token_id not in owners:
            raise ModelError(f"Expected {len(owners)} ids without a hole but no token has id {token_id}")
    try:
        data = [unspelled(owners[token_id]) for token_id in range(len(owners))]
        for t in added:  # they stand in the text as they are
            data[t.id] = t.content.encode()
        return data
    except UnicodeEncodeError as error:
        raise ModelError(f"Expected tokens to be Unicode text but one is {error.object!r:.80}") from None


def rank(merges: Sequence[Pair], vocab: Mapping[str, int]) -> dict[Pair, int]:
    """Merges by rank, after checking that they name tokens and that none stands there twice."""
    ranks: dict[Pair, int] = {}
    for i, pair in enumerate(merges):
        for token in (*pair, "".join(pair)):
            if token not in vocab:
                raise ModelError(f"Expected merges of tokens but merge {i} needs {token!r:.80}, which is none")
        if ranks.setdefault(pair, i) != i:  # readers disagree on which rank counts
            raise ModelError(f"Expected every merge once but {ranks[pair]} and {i} are both {pair!r:.80}")
    return ranks
