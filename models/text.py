"""The text the embedded models learn from, and the tokenizer made from it.

The text is the Python source of the standard library of the interpreter that runs the training: it is there
wherever this can run, its licence is known (PSF), and a reader sees at a glance whether a completion is
plausible. Nothing is downloaded.
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

# Tests repeat themselves, and the codec folder is generated tables: both teach numbers rather than code.
SKIPPED_FOLDERS = frozenset({"site-packages", "test", "tests", "idle_test", "encodings", "__pycache__"})
# Written by the build of the interpreter: they hold the paths of the machine that built it.
SKIPPED_PREFIXES = ("config-", "_sysconfigdata")


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
            "*.py without tests and encodings",
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
    """The `.py` files under `root` worth learning from, sorted by their path relative to it."""
    chosen = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if SKIPPED_FOLDERS.intersection(parts) or any(part.startswith(SKIPPED_PREFIXES) for part in parts):
            continue
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
