"""A case: which sound file is mutated, how, and which verb reads it. `KINDS` names every kind of file."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz import formats, node
from fuzz import mutators as m
from fuzz.making import Case, Making, on_model, on_text, plain, sendable
from fuzz.odd import options


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


def requests(c: Making) -> Case:
    return Case("request", requests=node.requests(c.rng, c.seeds))


def templates(c: Making) -> Case:
    return Case("template", requests=node.conversation(c.rng))


# kind -> how often, of a hundred cases
KINDS: dict[str, tuple[Callable[[Making], Case], int]] = {
    "config": (configs, 14), "safetensors": (safetensors, 10), "gguf": (ggufs, 14), "tokenizer": (tokenizers, 8),
    "trace": (traces, 12), "dump": (dumps, 4), "state": (states, 9), "transcript": (transcripts, 5),
    "receipt": (receipts, 5), "ledger": (ledgers, 4), "batch": (batches, 4), "text": (texts, 2),
    "log": (logs, 1), "vector": (vectors, 2), "option": (options, 3),
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
