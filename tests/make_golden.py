"""Make the data in gates/golden/: `python tests/make_golden.py`. Run it when micro or an embedded model changes.

micro.json      tensors of micro by the scalar oracle (tests/oracle), which shares no line with the package
stored.json     the same of a GPT-2, of micro in the other arms, and of a Llama in every stored type
tokenizer.json  ids of texts by the tokenizers library; hashes of the parts of the embedded tokenizer
models.json     digests of the weights of the embedded models, and the fields of their configs that touch arithmetic
headers.json    digests of the headers of the gates, so that none changes unseen

And api/vectors/runs/micro.json: every row of logits and the state of a long run of micro, for `gnomon selftest`.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE.parent / "gates" / "golden"
RUNS = HERE.parent / "api" / "vectors" / "runs" / "micro.json"
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402 - the oracle lies beside this script
import tokenizers  # noqa: E402

from blocks_oracle import read_blocks  # noqa: E402
from gnomon import models  # noqa: E402
from gnomon.gates import stored_files  # noqa: E402
from gnomon.loading import load  # noqa: E402
from gnomon.reference.identity import arithmetic  # noqa: E402
from gnomon.reference.model import Model  # noqa: E402
from oracle import f32, gpt2, model  # noqa: E402

LAST_ROWS = 1  # of some tensors, stored as bits
VOCAB = 97
CASES = {
    "short": [(7 * i * i + 3 * i + 11) % VOCAB for i in range(14)],  # longer than the window of 5
    "long": [(5 * i * i + 13 * i + 2) % VOCAB for i in range(131)],  # longer than a chunk of 128 positions
}
# Of the long case, enough to know that all the rest was right.
KEPT_OF_LONG = ("logits", "resid_post", "exp")


def stored_weights(of: Model | None = None) -> dict[str, Any]:
    """Weights stored as f32, of micro or another model, as nested lists, read as bits."""
    out = {}
    for name, w in (of or models.micro()).weights.items():
        words = np.ascontiguousarray(w.data).view("<u4").reshape(w.shape)
        flat = [f32.from_bits(word) for word in words.reshape(-1).tolist()]
        out[name] = np.array(flat).reshape(w.shape).tolist()
    return out


def leaves(values: Any) -> Iterator[float]:
    """The numbers of nested lists in C order."""
    if isinstance(values, list):
        for value in values:
            yield from leaves(value)
    else:
        yield values


def shape(values: Any) -> list[int]:
    return [len(values), *shape(values[0])] if isinstance(values, list) else []


def entry(name: str, values: Any) -> dict[str, Any]:
    """Shape, digest of the little-endian bytes and, for some, the last row as bits."""
    numbers = list(leaves(values))
    out = {
        "shape": shape(values),
        "sha256": hashlib.sha256(struct.pack(f"<{len(numbers)}f", *numbers)).hexdigest(),
    }
    if name.endswith(("logits", "resid_post", "result", "rec.delta")):
        first = len(values) - LAST_ROWS
        out["rows"] = {str(r): [f"{f32.bits(x):08x}" for x in leaves(values[r])] for r in range(first, len(values))}
    return out


def micro_config() -> dict[str, Any]:
    """Names and numbers only."""
    return asdict(models.micro().config)


def micro() -> dict[str, Any]:
    config, weights, cases = micro_config(), stored_weights(), []
    for name, ids in CASES.items():
        run = model.run(config, weights, ids)
        kept = [n for n in run.tensors if name == "short" or n.endswith(KEPT_OF_LONG)]
        tensors = {n: entry(n, run.tensors[n]) for n in kept}
        tensors |= {f"state {n}": entry(n, values) for n, values in run.state.items()}
        tensors["result"] = entry("result", run.tensors["logits"])
        cases.append({"name": name, "partial": name != "short", "ids": ids, "tensors": tensors})
    return {
        "origin": "tests/make_golden.py: the scalar oracle in tests/oracle, Python floats rounded to f32 at every step",
        "model": "micro",
        "weights": models.micro().digest,
        "cases": cases,
    }


def runs() -> dict[str, Any]:
    """A run of more rows than a batcher computes at once and than two chunks of positions hold."""
    ids = [(11 * i * i + 29 * i + 5) % VOCAB for i in range(300)]
    run = model.run(micro_config(), stored_weights(), ids)
    return {
        "origin": "tests/make_golden.py: the scalar oracle in tests/oracle, Python floats rounded to f32 at every step",
        "model": "micro",
        "weights": models.micro().digest,
        "ids": ids,
        "rows": [digest_of(leaves(row)) for row in run.tensors["logits"]],
        "state": {name: digest_of(leaves(values)) for name, values in run.state.items()},
    }


def digest_of(numbers: Iterable[float]) -> str:
    """SHA-256 of little-endian f32."""
    values = list(numbers)
    return hashlib.sha256(struct.pack(f"<{len(values)}f", *values)).hexdigest()


def stored_blocks(dtype: str) -> dict[str, Any]:
    """The weights of a file of gates/stored_files.py, read block by block."""
    out = {}
    for name, tensor in stored_files.tensors(dtype).items():
        rows = [read_blocks(tensor.dtype, row.tobytes()) for row in tensor.data]
        out[name] = rows if len(stored_files.SHAPES[name]) == 2 else rows[0]
    return out


def of_files(names: Sequence[str] = ("gpt2", "bf16", "int8", *stored_files.FORMATS)) -> dict[str, Any]:
    """A case for each model: logits and state, of a GPT-2 every tensor."""
    return {
        "origin": "tests/make_golden.py: the scalar oracle in tests/oracle, and tests/blocks_oracle.py for blocks",
        "cases": [of_file(name) for name in names],
    }


def of_file(name: str) -> dict[str, Any]:
    ids = CASES["short"]
    if name == "gpt2":
        wired = stored_files.gpt2()
        run = gpt2.run(asdict(wired.config), stored_weights(wired), ids)
    elif name in ("bf16", "int8"):
        run = model.run(micro_config(), stored_weights(), ids, name)
    else:
        ids = [i % stored_files.SHAPES["embed.weight"][0] for i in ids[:8]]
        d = stored_files.SHAPES["blocks.0.attn.q.weight"][0] // stored_files.HEADS
        config = {
            "kinds": ["attention"], "windows": [None], "rope": {"theta": stored_files.THETA, "dim": d}, "head_dim": d,
            "heads": stored_files.HEADS, "kv_heads": stored_files.KV_HEADS, "eps": stored_files.EPS,
        }  # fmt: skip
        run = model.run(config, stored_blocks(name), ids)
    tensors = {n: entry(n, values) for n, values in run.tensors.items()} if name == "gpt2" else {}
    tensors |= {f"state {n}": entry(n, values) for n, values in run.state.items()}
    tensors["result"] = entry("result", run.tensors["logits"])
    return {"name": name, "partial": name != "gpt2", "ids": ids, "tensors": tensors}


def byte_symbols() -> dict[int, str]:
    """The alphabet of byte-level tokenizers, as GPT-2's encoder.py builds it."""
    printing = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    symbols, n = {b: chr(b) for b in printing}, 0
    for b in range(256):
        if b not in symbols:
            symbols[b] = chr(256 + n)
            n += 1
    return symbols


def tokenizer() -> dict[str, Any]:
    name = "tiny-dense"
    path = models.folder(name) / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(path))
    kinds = json.loads((HERE / "data" / "tokenizer_texts.json").read_text("utf-8"))
    texts = [text for kind in kinds.values() for text in kind]
    prompts = json.loads((HERE / "prompts.json").read_text("utf-8"))["prompts"]
    texts += [prompt["text"] for prompt in prompts]
    added = {token.content for token in library.get_added_tokens_decoder().values()}
    symbols = byte_symbols()
    byte_of = {symbol: byte for byte, symbol in symbols.items()}
    pieces = []
    for i in range(library.get_vocab_size()):
        token = library.id_to_token(i)
        pieces.append(token.encode() if token in added else bytes(byte_of[c] for c in token))
    alphabet = [library.token_to_id(symbols[byte]) for byte in range(256)]
    written = ",".join(str(-1 if i is None else i) for i in alphabet)
    ours = load(name).tokenizer
    assert ours is not None
    return {
        "origin": f"tests/make_golden.py: ids by tokenizers {version('tokenizers')} from the embedded tokenizer.json",
        "model": name,
        "alphabet": hashlib.sha256(written.encode()).hexdigest(),
        "vocabulary": hashlib.sha256(b"".join(len(p).to_bytes(4, "little") + p for p in pieces)).hexdigest(),
        "merges": ours.digest,  # of all parts, merges included, in a form that only the package defines
        "texts": [[text, library.encode(text).ids] for text in texts],
    }


def digests() -> dict[str, Any]:
    return {
        "origin": "tests/make_golden.py: SHA-256 over name, type, shape and bytes of every weight; what of the config "
        "touches arithmetic",
        "weights": {name: load(name).digest for name in ("micro", *models.TRAINED)},
        "configs": {name: arithmetic(load(name)) for name in ("micro", *models.TRAINED)},
    }


def headers() -> dict[str, Any]:
    from gnomon.gates.all import EXPERIMENTS, GATES

    return {"headers": {name: gate.header.digest for name, gate in (GATES | EXPERIMENTS).items()}}


MAKE = {"micro": micro, "runs": runs, "stored": of_files, "tokenizer": tokenizer, "models": digests, "headers": headers}


def written(value: Any, indent: str = "") -> str:
    """JSON in which objects and lists of lists have a line per entry: a change shows as the line it is in."""
    if isinstance(value, dict):
        lines = [f"{indent} {json.dumps(key)}: {written(v, indent + ' ')}" for key, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        if isinstance(value[0], list):
            return "[\n" + ",\n".join(f"{indent} {json.dumps(v)}" for v in value) + f"\n{indent}]"
        return "[\n" + ",\n".join(f"{indent} {written(v, indent + ' ')}" for v in value) + f"\n{indent}]"
    return json.dumps(value)


def main(names: Iterable[str]) -> None:
    """Write the named files, or all."""
    for name in names or MAKE:
        path = RUNS if name == "runs" else OUT / f"{name}.json"
        path.write_text(written(MAKE[name]()) + "\n", "utf-8")
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
