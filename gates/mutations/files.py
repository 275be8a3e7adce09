"""Files, comparators and the checkout: loaders that help, tokenizers that are nearly right, checks that cannot fail."""

import unicodedata
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

from gnomon.gates.faults import builds, checkouts, comparators, loaders, tokenizers
from gnomon.gates.gate import Fault, Subject
from gnomon.gates.mutations.mutation import Mutation, only
from gnomon.reference.model import Model
from gnomon.reference.tokenizer import Tokenizer

IDS = "The gates of engines run ids, not text. "
LOADED = "What all engines load is wrong for all of them alike"


def encodes(change: Callable[[Tokenizer, str], list[int]]) -> Fault:
    """Models come with a tokenizer that encodes by `change`."""

    def apply(subject: Subject) -> Subject:
        def load(source: str | Path) -> Model:
            model = subject.load(source)
            honest = model.tokenizer
            if honest is None:
                return model
            other = copy(honest)
            setattr(other, "encode", lambda text, **named: change(honest, text))  # noqa: B010
            return replace(model, tokenizer=other)

        return replace(subject, load=load)

    return apply


def longest_piece(tokenizer: Tokenizer, text: str) -> list[int]:
    """From left to right the longest piece of the vocabulary, whatever the merges say."""
    known = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.vocab_size))}
    data, ids = text.encode(), list[int]()
    while data:
        n = next(n for n in range(min(len(data), 64), 0, -1) if data[:n] in known)
        ids.append(known[data[:n]])
        data = data[n:]
    return ids


def decomposed(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(unicodedata.normalize("NFD", text))


MUTATIONS = (
    Mutation(
        "M05b load_square_transpose", "the loader transposes a square matrix", "loader", loaders.transposes,
        *only("loader", "golden"), LOADED + "; the pinned digest differs, and golden refuses to hold other weights "
        "against the oracle's bytes.", says="has weights",
    ),
    Mutation(
        "M34 tok_longest_piece", "the longest piece wins, not the first merge", "tokenizer", encodes(longest_piece),
        *only("tokenizer"), IDS + "Every text still comes back.", says="expected",
    ),
    Mutation(
        "M35 tok_decomposed", "text is decomposed before it is encoded", "tokenizer", encodes(decomposed),
        *only("tokenizer"), IDS, says="expected",
    ),
    Mutation(
        "M37 load_missing", "a missing tensor is taken for zeros", "loader", loaders.fills_missing, *only("loader"),
        "Sound files load as before.", says="tensor missing: loaded",
    ),
    Mutation(
        "M37b load_tail", "bytes after the end of a file are ignored", "loader", loaders.ignores_tail, *only("loader"),
        "Sound files load as before.", says="bytes after the end: loaded",
    ),
    Mutation(
        "M37c load_stale", "one bit of the weights is of another run", "loader", loaders.stale,
        *only("loader", "golden"), LOADED + ", as M05b.", says="has weights",
    ),
    Mutation(
        "X51 load_other_eps", "the epsilon of the norms is read as twice itself", "loader", loaders.other_eps,
        *only("loader", "golden"), LOADED + "; the pinned config and the norms of micro differ.", says="has eps",
    ),
    Mutation(
        "M38 cmp_nan", "NaN equals NaN", "comparator", comparators.lenient(comparators.equal_with_nan),
        *only("comparator"), "The gates of engines compare with the judge itself.", says="the same NaN on both sides",
    ),
    Mutation(
        "M38b cmp_tolerance", "values within a tolerance are equal", "comparator",
        comparators.lenient(comparators.close), *only("comparator"), "As M38.", says="one bit",
    ),
    Mutation(
        "M38c cmp_empty", "nothing equals nothing", "comparator", comparators.lenient(comparators.nothing_to_compare),
        *only("comparator"), "As M38.", says="empty on both sides",
    ),
    Mutation(
        "M38d cmp_broadcast", "a row equals the matrix of its copies", "comparator",
        comparators.lenient(comparators.broadcast), *only("comparator"), "As M38.", says="a row for a matrix",
    ),
    Mutation(
        "X20 tok_merge_skipped", "one merge is skipped", "tokenizer", tokenizers.without_merge, *only("tokenizer"), IDS,
        says="pins that differ: merges",
    ),
    Mutation(
        "X21 tok_merges_cut", "the last 100 merges are cut", "tokenizer", tokenizers.without_last_merges,
        *only("tokenizer"), IDS, says="pins that differ: merges",
    ),
    Mutation(
        "X22 tok_alphabet_byte", "one byte of the alphabet is another", "tokenizer", tokenizers.other_alphabet,
        *only("tokenizer"), IDS, says="pins that differ: alphabet",
    ),
    Mutation(
        "X23 import_upwards", "the reference imports a shadow", "checkout",
        checkouts.imports("reference/extra.py", "from gnomon.gpu import mlx_array"), *only("repository"),
        "Only repository reads the checkout.", says="reference may not import gpu",
    ),
    Mutation(
        "X24 kernels_contracted", "the compiler may contract", "compiler flags", builds.contracted, *only("kernels"),
        "The library that kernels is shown is not the one that an engine runs on.", says="contraction",
    ),
)  # fmt: skip
