"""What a case is, and what kinds of files have in common to make one."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from fuzz import mutators as m
from fuzz import node

TEXT = "he said: hell\u00e9 \u4f60"


@dataclass
class Case:
    """words: the command line without `gnomon`; requests: instead of it, what a node is sent; out: what the verb may
    write"""

    kind: str
    words: list[str] = field(default_factory=list)
    requests: node.Requests | None = None
    out: Path | None = None


class Making:
    """What a kind has to make a case with. `folder` is empty and the case's own."""

    def __init__(self, rng: Random, seeds: Path, folder: Path) -> None:
        self.rng, self.seeds, self.folder = rng, seeds, folder
        self.out = folder / "out" / "written"
        self.out.parent.mkdir()

    def copy(self, source: Path, name: str | None = None) -> Path:
        """A folder or a file of the seeds in the case's folder."""
        to = self.folder / (name or source.name)
        if source.is_dir():
            shutil.copytree(source, to, copy_function=os.link)
        else:
            os.link(source, to)
        return to

    def put(self, path: Path, data: bytes) -> Path:
        """Other content, which leaves the seeds as they are."""
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        return path

    def mutate(self, path: Path, how: Callable[[Random, bytes], bytes]) -> Path:
        """Other content; sometimes no file at all, or something that is none."""
        data = path.read_bytes()
        if not self.chance(0.03):
            return self.put(path, how(self.rng, data))
        path.unlink()
        self.rng.choice([path.mkdir, partial(os.mkfifo, path), partial(path.symlink_to, path), lambda: None])()
        return path

    def one(self, folder: str) -> Path:
        return self.rng.choice(sorted((self.seeds / folder).iterdir()))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share


def on_model(c: Making, model: Path | str) -> list[str]:
    """A verb that loads a model; most often the cheap ones."""
    ids, engine = ["--ids", "3,1,4"], ["-e", c.rng.choice(["numpy", "fast"])]
    arm = c.rng.choice([[], [], ["--arm", "bf16"], ["--arm", "int8"], ["--kv", "int8"], ["--kv", "bf16"]])
    two, m_ = ["-e", "numpy", "-e", "fast"], str(model)
    kind = c.rng.random()
    if kind < 0.4:
        return ["inspect", "model", m_]
    if kind < 0.6:
        return ["digest", m_, *ids, *engine, *arm, "--steps", "1"]
    if kind < 0.8:
        return ["run", m_, *ids, *engine, *arm, "-n", "3"]
    if kind < 0.88:
        return ["state", "export", m_, *ids, *engine, *arm, "-o", str(c.out)]
    if kind < 0.94:
        return ["transcript", "produce", m_, *ids, *engine, *arm, "-n", "2", "-o", str(c.out)]
    if kind < 0.95:
        return ["trace", m_, *ids, *engine, "-o", str(c.out)]
    if kind < 0.96:
        return ["diff", m_, *ids, *two, *c.rng.choice([[], ["--html", str(c.out)]])]
    if kind < 0.97:
        return ["bisect", m_, *ids, *two]
    if kind < 0.98:
        return ["run", m_, *ids, "-e", "numpy", "-n", "3", "--draft", c.rng.choice(["ngram", f"model:{m_}"])]
    if kind < 0.99:
        return ["serve", m_, *engine, "--port", "0"]
    return ["bench", m_, "-e", "numpy", "--seconds", "0", "--position", "0", "--prefill", "2"]


def on_text(c: Making, model: Path) -> list[str]:
    """A verb that encodes a text or decodes ids."""
    engine = ["-e", c.rng.choice(["numpy", "fast"])]
    text = ["-p", c.rng.choice([TEXT, "hell", "a", " ", "", "<end>", m.text(c.rng, TEXT)])]
    verb = c.rng.choice(["inspect", "run", "run", "run", "digest", "export", "transcript"])
    if verb == "inspect":
        return ["inspect", "model", str(model)]
    if verb == "export":
        return ["state", "export", str(model), *text, *engine, "-o", str(c.out)]
    if verb == "transcript":
        return ["transcript", "produce", str(model), *text, *engine, "-n", "2", "-o", str(c.out)]
    return [verb, str(model), *text, *engine, *(["-n", "3", "--stop", "he"] if verb == "run" else [])]


def plain(rng: Random, data: bytes) -> bytes:
    """A file of text."""
    if rng.random() < 0.4:
        return m.raw_bytes(rng, data)
    return m.text(rng, data.decode()).encode("utf-8", "surrogatepass")


def sendable(word: str) -> str:
    """As a shell could hand it on: no zero, no half of a surrogate pair but those that stand for a byte."""
    return word.replace("\0", "\u0001").replace("\ud800", "\udc80")[:100_000]
