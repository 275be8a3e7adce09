"""Model files that are broken in one way each, and what the one sentence about them must name.

for case in CASES: path = case.sound(folder); case.damage(path); loading it must fail, naming case.says
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import broken_directory
import broken_families
import broken_gguf
from model_files import case_arrays, config, stored_cases, tensors, write_directory, write_gguf

STORED = {case["name"]: case for case in stored_cases(5)}


@dataclass(frozen=True)
class Case:
    """kind: "directory", "gguf" or the name of a stored case of transformers 5; damage: breaks the sound model at a
    path; says: a part of the message"""

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
        if self.kind in STORED:
            case = STORED[self.kind]
            return write_directory(folder / "model", case["config"], case_arrays(case))
        given = config(tie_word_embeddings=True) if "tied" in self.name else config()
        return write_directory(folder / "model", given, tensors(given), tokenizer=True)


CASES = [Case("directory", name, *case) for name, case in broken_directory.DAMAGES.items()]
CASES += [Case(kind, name, *case) for kind, name, *case in broken_families.DAMAGES]
CASES += [Case("gguf", name, *case) for name, case in broken_gguf.DAMAGES.items()]
