"""Model files that are broken in one way each, and what the one sentence about them must name.

for case in CASES: path = case.sound(folder); case.damage(path); loading it must fail, naming case.says
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import broken_directory
import broken_gguf
from model_files import config, tensors, write_directory, write_gguf


@dataclass(frozen=True)
class Case:
    """kind: "directory" or "gguf"; damage: breaks the sound model at a path; says: a part of the message"""

    kind: str
    name: str
    damage: Callable[[Path], None]
    says: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}"

    def sound(self, folder: Path) -> Path:
        """A model that loads."""
        if self.kind == "gguf":
            return write_gguf(folder / "model.gguf", config(), tensors(config()), tokenizer=True)
        given = config(tie_word_embeddings=True) if "tied" in self.name else config()
        return write_directory(folder / "model", given, tensors(given), tokenizer=True)


CASES = [Case("directory", name, *case) for name, case in broken_directory.DAMAGES.items()]
CASES += [Case("gguf", name, *case) for name, case in broken_gguf.DAMAGES.items()]
