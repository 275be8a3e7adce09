"""A case: which sound file is mutated, how, and which verb reads it. `KINDS` names every kind of file."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from fuzz import formats, node
from fuzz import mutators as m

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


def configs(c: Making) -> Case:
    path = c.copy(c.one("models"), "model")
    files = [f for f in sorted([*path.glob("*.json"), *path.glob("*.jinja")]) if f.name != "tokenizer.json"]
    file = c.rng.choice([f for f in files if f.name == "config.json"] if c.chance(0.7) else files)
    c.mutate(file, m.json_text if file.suffix == ".json" else plain)
    return Case(
        "config", on_text(c, path) if (path / "tokenizer.json").exists() and c.chance(0.3) else on_model(c, path)
    )


def safetensors(c: Making) -> Case:
    path = c.copy(c.one("models"), "model")
    file = c.rng.choice(sorted([*path.glob("*.safetensors"), *path.glob("*.index.json")]))
    c.mutate(file, m.json_text if file.suffix == ".json" else formats.safetensors)
    return Case("safetensors", on_model(c, path))


def ggufs(c: Making) -> Case:
    path = c.copy(c.one("gguf"))
    parts = [path] if path.is_file() else sorted(path.iterdir())
    c.mutate(c.rng.choice(parts), formats.gguf)
    return Case("gguf", on_text(c, parts[0]) if c.chance(0.3) else on_model(c, parts[0]))


def tokenizers(c: Making) -> Case:
    """The library's kinds start a process each: they are one in ten."""
    library = c.chance(0.1)
    sources = [s for s in sorted((c.seeds / "tokenizers").iterdir()) if s.name.startswith("library") == library]
    path = c.copy(c.rng.choice(sources), "model")
    c.mutate(path / "tokenizer.json", m.json_text)
    return Case("tokenizer", on_text(c, path))


def traces(c: Making) -> Case:
    sides = [c.copy(c.seeds / name) for name in c.rng.sample(["trace", "other", "digests"], 2)]
    changed = sides[0]
    file = c.rng.choice(sorted(changed.iterdir()))
    if file.name == "manifest.json":
        c.mutate(file, m.json_text)
    elif file.name == "tensors.jsonl":
        c.mutate(file, m.json_lines)
        if file.is_file() and c.chance(0.8):
            sealed(c, changed)
    else:
        c.mutate(file, formats.safetensors)
    one, two = map(str, c.rng.sample(sides, 2))
    name = c.rng.choice(["blocks.0.attn.q", "logits", "embed", "blocks.2.delta.out", "x"])
    return Case("trace", c.rng.choice([
        ["inspect", "trace", str(changed)],
        ["inspect", "trace", str(changed)],
        ["inspect", "tensor", str(changed), name, *c.rng.choice([[], ["--pos", "1"], ["--state"]])],
        ["compare", one, two],
        ["compare", one, two, "--digests"],
        ["compare", one, two, "--html", str(c.out)],
        ["explain", one, two],
        ["explain", one, two, "--model", "micro", "--tap", name],
    ]))  # fmt: skip


def sealed(c: Making, folder: Path) -> None:
    """The manifest of a trace as it would be for the records that are there."""
    lines = (folder / "tensors.jsonl").read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"records": len(lines.splitlines()), "records_sha256": hashlib.sha256(lines).hexdigest()}
    c.put(folder / "manifest.json", json.dumps(manifest).encode())


def dumps(c: Making) -> Case:
    """Tensors of other software, and the map of their names."""
    trace = c.copy(c.seeds / "trace")
    dump = c.copy(c.rng.choice([c.seeds / f"dump.{kind}" for kind in ("safetensors", "npz", "npy")]))
    names = c.copy(c.rng.choice([c.seeds / "map", c.seeds / "map.json"]))
    if c.chance(0.6):
        c.mutate(dump, formats.safetensors if dump.suffix == ".safetensors" else m.raw_bytes)
    else:
        c.mutate(names, m.json_text if names.suffix == ".json" else plain)
    other = [str(dump), "--map", str(names)] if c.chance(0.7) else [str(dump)]
    words = ["compare", str(trace), *other] if c.chance(0.8) else ["compare", str(dump), str(dump)]
    return Case("dump", words)


def plain(rng: Random, data: bytes) -> bytes:
    """A file of text."""
    if rng.random() < 0.4:
        return m.raw_bytes(rng, data)
    return m.text(rng, data.decode()).encode("utf-8", "surrogatepass")


def states(c: Making) -> Case:
    file = c.copy(c.seeds / c.rng.choice(["f32.state", "f32.state", "int8.state"]))
    second = c.copy(c.seeds / "second.state")
    c.mutate(file, formats.state)
    pair = [str(file), str(second)] if c.chance(0.5) else [str(second), str(file)]
    kv = ["--kv", "int8"] if file.name == "int8.state" else []
    going = c.rng.choice([[], ["--reexport", str(c.out)], ["--ids", "2", "--steps", "2"]])
    fault = c.rng.choice(["kv", "conv", "delta", "shift", "flip", "position", "truncated"])
    return Case("state", c.rng.choice([
        ["inspect", "state", str(file)],
        ["state", "import", "micro", str(file), *kv, "-e", c.rng.choice(["numpy", "fast"]), *going],
        ["state", "diff", *pair],
        ["state", "swap", str(file), "--fault", fault, "--other", str(second), "-o", str(c.out)],
        ["state", "swap", str(second), "--fault", fault, "--other", str(file), "-o", str(c.out)],
        ["state", "swap", str(file), "--fault", fault, "-o", str(c.out)],
    ]))  # fmt: skip


def public_key(c: Making) -> list[str]:
    """Sometimes the option, right or wrong."""
    return c.rng.choice([[], [], ["--public-key", "00" * 32], ["--public-key", "ff" * 32]])


def transcripts(c: Making) -> Case:
    file = c.copy(c.seeds / c.rng.choice(["greedy.transcript", "signed.transcript"]))
    c.mutate(file, formats.chain)
    engine = ["-e", c.rng.choice(["numpy", "fast"])]
    return Case("transcript", ["transcript", "verify", "micro", str(file), *engine, *public_key(c)])


def receipts(c: Making) -> Case:
    names = ["plain.receipt", "signed.receipt"]
    file, second = (c.copy(c.seeds / name) for name in c.rng.sample(names, 2))
    c.mutate(file, formats.chain)
    pair = map(str, c.rng.sample([file, second], 2))
    return Case("receipt", c.rng.choice([
        ["receipts", "verify", str(file), *public_key(c)], ["receipts", "compare", *pair],
    ]))  # fmt: skip


def ledgers(c: Making) -> Case:
    file = c.copy(c.seeds / "ledger")
    c.mutate(file, lambda rng, data: formats.chain(rng, data, ended=False))
    record = ["--record", c.rng.choice(["0" * 64, "x", "\u00e9"])] if c.chance(0.2) else []
    if c.chance(0.15):
        return Case("ledger", ["serve", "micro", "-e", "numpy", "--port", "0", "--ledger", str(file)])
    return Case("ledger", ["ledger", "verify", str(file), *record])


def batches(c: Making) -> Case:
    lines = c.chance(0.8)
    file = c.copy(c.seeds / ("batch.jsonl" if lines else "batch.txt"))
    c.mutate(file, m.json_lines if lines else plain)
    model = c.seeds / "models" / "whole"
    return Case("batch", ["run", str(model), "--batch", str(file), "-n", "2", "-e", c.rng.choice(["numpy", "fast"])])


def texts(c: Making) -> Case:
    """Files of ids, of a prompt, of a key."""
    file = c.copy(c.seeds / c.rng.choice(["ids", "batch.txt", "key"]))
    c.mutate(file, plain)
    if file.name == "key":
        out = ["--key", str(file), "-n", "2", "-o", str(c.out)]
        return Case("text", ["transcript", "produce", "micro", "--ids", "1", *out])
    option = "--ids-file" if file.name == "ids" else "--prompt-file"
    verb = c.rng.choice([["run", "-n", "2"], ["digest"], ["state", "export", "-o", str(c.out)]])
    model = str(c.seeds / "models" / "whole")
    at = 2 if verb[0] == "state" else 1
    return Case("text", [*verb[:at], model, *verb[at:], option, str(file), "-e", "numpy"])


def logs(c: Making) -> Case:
    """What a search for a broken op goes on from."""
    file = c.copy(c.seeds / "bisect.log")
    c.mutate(file, m.json_lines)
    two = ["-e", "numpy", "-e", "gnomon.planted:reordered"]
    return Case("log", ["bisect", "micro", *two, "--ids", "3,1", "--steps", "0", "--log", str(file)])


def vectors(c: Making) -> Case:
    """Known answers of one's own."""
    folder = c.folder / "vectors"
    folder.mkdir()
    file = c.copy(c.one("vectors"), "vectors/case.json")
    c.mutate(file, m.json_text)
    return Case("vector", ["selftest", "--vectors", str(folder), "-e", c.rng.choice(["numpy", "fast"])])


def options(c: Making) -> Case:
    """Odd values of options, which a shell hands on as they are."""
    odd = c.rng.choice([str(m.integer(c.rng)), *m.TEXTS, *m.RAW])
    model = str(c.seeds / "models" / "whole")
    state = str(c.seeds / "f32.state")
    trace = str(c.seeds / "trace")
    few = ["-n", "1"]
    words: list[list[str]] = [
        ["run", "micro", "--ids", odd, *few], ["run", model, "-p", odd, *few], ["run", model, "-p", "he", "--stop", odd, *few],
        ["run", "micro", "--ids", "1", "--temperature", odd, *few], ["run", "micro", "--ids", "1", "--draft", odd, *few],
        ["run", "micro", "--ids", "1", "--temperature", "1", c.rng.choice(["--top-k", "--top-p", "--seed"]), odd, *few],
        ["run", odd, "--ids", "1", *few], ["run", "micro", "--ids", "1", "-e", odd, *few],
        ["digest", "micro", "--ids", "1", c.rng.choice(["--arm", "--kv", "--steps"]), odd],
        ["diff", "micro", "-e", "numpy", "-e", odd, "--ids", "1"],
        ["diff", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1,2", "--schedule", odd],
        ["trace", "micro", "--ids", "1,2", "--schedule", odd, "-o", str(c.out)],
        ["trace", "micro", "--ids", "1,2", "-o", odd if "/" not in odd else "x/y"],
        ["compare", trace, trace, "--map", odd], ["compare", trace, odd], ["explain", trace, trace, "--tap", odd],
        ["inspect", "tensor", trace, odd], ["inspect", "tensor", trace, "logits", "--pos", odd], ["inspect", odd, trace],
        ["inspect", "tensor", trace, "logits", "--first", odd],
        ["state", "import", "micro", state, "--ids", odd], ["state", "swap", state, "--fault", odd, "-o", str(c.out)],
        ["state", "export", "micro", "--ids", "1", "-o", odd if "/" not in odd else "x/y"],
        ["transcript", "produce", "micro", "--ids", "1", "-n", odd, "-o", str(c.out)], ["gate", odd], ["gate", "--matrix", odd],
        ["receipts", "verify", str(c.seeds / "plain.receipt"), "--public-key", odd], ["check-op", odd, "x.py:f"],
        ["check-op", "rms_norm", odd], ["probe", "-e", odd], ["selftest", "-e", odd], [odd],
        ["serve", "micro", "--port", "0", c.rng.choice(["--host", "--token", "--peer", "--template-arg", "--queue"]), odd],
        ["ledger", "verify", str(c.seeds / "ledger"), "--record", odd], ["bisect", "micro", "-e", "numpy", "-e", odd],
    ]  # fmt: skip
    chosen = c.rng.choice(words)
    huge = chosen[:2] == ["transcript", "produce"] or "--steps" in chosen  # as many as are asked for
    return Case("option", ["selftest", "-e", "x"] if huge and odd.isdigit() and len(odd) > 2 else chosen)


def requests(c: Making) -> Case:
    return Case("request", requests=node.requests(c.rng, c.seeds))


def templates(c: Making) -> Case:
    return Case("template", requests=node.conversation(c.rng))


# kind -> how often, of a hundred cases
KINDS: dict[str, tuple[Callable[[Making], Case], int]] = {
    "config": (configs, 14), "safetensors": (safetensors, 10), "gguf": (ggufs, 14), "tokenizer": (tokenizers, 8),
    "trace": (traces, 12), "dump": (dumps, 4), "state": (states, 9), "transcript": (transcripts, 5),
    "receipt": (receipts, 5), "ledger": (ledgers, 4), "batch": (batches, 4), "text": (texts, 2), "log": (logs, 1), "vector": (vectors, 2), "option": (options, 3),
    "request": (requests, 4), "template": (templates, 2),
}  # fmt: skip


def made(seed: int, number: int, seeds: Path, folder: Path, only: str | None = None) -> Case:
    """Case `number` of a seed, its files in `folder`. only: of this kind"""
    rng = Random(f"{seed}/{number}")
    weights = [weight for _, weight in KINDS.values()]
    kind = rng.choices(list(KINDS), weights)[0]
    c = Making(rng, seeds, folder)
    case = KINDS[only or kind][0](c)
    case.out = c.out
    case.words = [sendable(word) for word in case.words]
    if case.words and rng.random() < 0.75:
        case.words.append("--json")
    return case


def sendable(word: str) -> str:
    """As a shell could hand it on: no zero, no half of a surrogate pair but those that stand for a byte."""
    return word.replace("\0", "\u0001").replace("\ud800", "\udc80")[:100_000]


def files(folder: Path) -> Iterator[Path]:
    """Whatever lies in a folder."""
    return (path for path in sorted(folder.rglob("*")) if not path.is_dir())


__all__ = ["KINDS", "Any", "Case", "files", "made"]
