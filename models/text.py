"""The text the embedded models learn from, and the tokenizer made from it.

The text is a part of the Python source of the standard library of the interpreter that runs the training: it is there
wherever this can run, its licence is known (PSF), and a reader sees at a glance whether a completion is plausible.
Nothing is downloaded. It is a part, because a few minutes of two cores teach a small model some modules well or all of
them badly, and logits that are peaked where text is determined are what these models are for.
"""

import hashlib
import platform
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"  # stands before, between and after documents, so it serves as bos and as eos
END_ID = 0
HELD_OUT_EVERY = 20

# Plain code of many authors that does what people know; modules, or packages with all their files.
MODULES = frozenset(
    """argparse ast base64 bisect calendar cmd code collections colorsys concurrent configparser contextlib copy csv
    dataclasses difflib enum fnmatch fractions functools getopt glob gzip heapq hmac io json keyword linecache logging
    numbers operator pathlib pprint queue random reprlib sched secrets shelve shlex shutil statistics string tempfile
    textwrap threading timeit token tokenize traceback types urllib uuid warnings weakref zipfile""".split()  # noqa: SIM905 - sixty quoted words are no list to read
)


@dataclass(frozen=True)
class Corpus:
    """Documents by sorted path: `train` and `held_out`, every 20th file being held out."""

    train: list[str]
    held_out: list[str]

    @property
    def train_bytes(self) -> int:
        """UTF-8 bytes of the training documents, separators not counted."""
        return count_bytes(self.train)

    @property
    def held_out_bytes(self) -> int:
        """UTF-8 bytes of the held-out documents, separators not counted."""
        return count_bytes(self.held_out)

    def describe(self) -> dict[str, str | int]:
        """What `training.json` says of the text; the digest tells whether another machine has the same."""
        digest = hashlib.sha256()
        for document in (*self.train, *self.held_out):
            digest.update(hashlib.sha256(document.encode()).digest())
        return {
            "source": f"standard library of {platform.python_implementation()} {platform.python_version()}, "
            f"{len(MODULES)} modules",
            "license": "PSF-2.0",
            "sha256": digest.hexdigest(),
            "train_files": len(self.train),
            "train_bytes": self.train_bytes,
            "held_out_files": len(self.held_out),
            "held_out_bytes": self.held_out_bytes,
        }


def count_bytes(documents: Iterable[str]) -> int:
    """UTF-8 bytes of all documents together."""
    return sum(len(document.encode()) for document in documents)


def library_files(root: Path) -> list[Path]:
    """The `.py` files of MODULES under `root`, sorted by their path relative to it."""
    chosen = []
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0].removesuffix(".py") in MODULES:
            chosen.append(path)
    return sorted(chosen, key=lambda path: path.relative_to(root).as_posix())


def read_corpus(root: Path | None = None) -> Corpus:
    """Read the library at `root` (default: that of this interpreter); files not in UTF-8 are left out."""
    root = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    documents = []
    for path in library_files(root):
        try:
            document = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        document = document.replace("\r\n", "\n")
        if document.strip():
            documents.append(document)
    if len(documents) < HELD_OUT_EVERY:
        raise ValueError(f"root = {root}: {len(documents)} readable .py files, expected at least {HELD_OUT_EVERY}")
    held_out = documents[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    train = [text for index, text in enumerate(documents) if index % HELD_OUT_EVERY != HELD_OUT_EVERY - 1]
    return Corpus(train, held_out)


def train_tokenizer(documents: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE of `vocab_size` symbols: `END` as id 0, the 256 bytes, then merges.

    Every byte is a symbol from the start, so that any text encodes and decodes to itself.
    """
    if vocab_size <= 257:
        raise ValueError(f"vocab_size = {vocab_size}: expected more than 257, the end symbol and 256 bytes")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    if tokenizer.get_vocab_size() != vocab_size or tokenizer.token_to_id(END) != END_ID:
        raise ValueError(
            f"vocabulary has {tokenizer.get_vocab_size()} symbols and {END} as {tokenizer.token_to_id(END)}: "
            f"expected {vocab_size} and {END_ID}"
        )
    return tokenizer


def encode(tokenizer: Tokenizer, documents: list[str]) -> NDArray[np.int64]:
    """One stream of ids [N]: END document END document ... END."""
    stream = [END_ID]
    for encoding in tokenizer.encode_batch(documents):
        stream.extend(encoding.ids)
        stream.append(END_ID)
    return np.array(stream, dtype=np.int64)
