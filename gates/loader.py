"""The strict loader: files that are broken in one way each are refused, and what is loaded is what was stored."""

import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from gnomon.gates.faults import loaders as broken
from gnomon.gates.gate import Array, FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.golden import golden
from gnomon.reference.errors import ModelError
from gnomon.reference.identity import arithmetic, differences

HEADER = Header(
    name="loader",
    question="Does the loader refuse what is broken, and give exactly the weights that are stored?",
    instrument="a sound model directory of known values, then copies of it with one damage each; the digests of "
    "the embedded models, and the fields of their configs that touch arithmetic, against gates/golden/models.json",
    threshold="each damage raises ModelError; each tensor of the sound one has its bytes; each digest is as pinned",
    disproof="a damaged file that loads",
    void="the sound directory does not load, nothing is pinned",
    numbers={"width": 8, "heads": 2, "ffn": 12, "vocab": 16, "layers": 1},
)
Arrays = dict[str, Array]
Q, EMBED = "model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight"


def run(subject: Subject) -> Outcome:
    stored = golden("models")
    pinned = stored["weights"]
    if not pinned:
        raise VoidError("no digest is pinned")
    for name, digest in pinned.items():
        model = subject.load(name)
        if model.digest != digest:
            return Outcome("FAIL", f"{name} has weights {model.digest[:12]}, pinned are {digest[:12]}")
        for field, ours, theirs in differences(arithmetic(model), stored["configs"][name]):
            return Outcome("FAIL", f"{name} has {field}={ours}, pinned is {theirs}")
    with tempfile.TemporaryDirectory() as folder:
        as_stored = sound_one(subject, Path(folder) / "sound")
        for name, damage in DAMAGES.items():
            path = write(Path(folder) / name)
            damage(path)
            refused(subject, name, path)
    return Outcome("PASS", "", {"digests": len(pinned), "tensors": as_stored, "refused": len(DAMAGES)})


def sound_one(subject: Subject, path: Path) -> int:
    """How many tensors of the sound directory were loaded as they are stored. Raises VoidError, FailedError."""
    try:
        model = subject.load(write(path))
    except ModelError as error:
        raise VoidError(f"the sound directory does not load: {error}") from error
    stored = sorted(array.tobytes() for array in tensors().values())
    if sorted(np.ascontiguousarray(w.data).tobytes() for w in model.weights.values()) != stored:
        raise FailedError("the sound directory was loaded with other bytes than are stored")
    return len(stored)


def refused(subject: Subject, name: str, path: Path) -> None:
    """Raises FailedError unless loading ends in ModelError."""
    try:
        subject.load(path)
    except ModelError:
        return
    except Exception as error:
        raise FailedError(f"{name}: {type(error).__name__} instead of ModelError: {error}") from error
    raise FailedError(f"{name}: loaded")


def config() -> dict[str, Any]:
    n = HEADER.numbers
    return {
        "model_type": "llama",
        "vocab_size": n["vocab"],
        "hidden_size": n["width"],
        "intermediate_size": n["ffn"],
        "num_hidden_layers": n["layers"],
        "num_attention_heads": n["heads"],
        "num_key_value_heads": n["heads"],
        "head_dim": n["width"] // n["heads"],
        "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }


def tensors() -> Arrays:
    """Every tensor of the directory: f32, all values different."""
    D, F, V = (HEADER.numbers[name] for name in ("width", "ffn", "vocab"))
    at = "model.layers.0"
    shapes: dict[str, tuple[int, ...]] = {
        EMBED: (V, D), "model.norm.weight": (D,), "lm_head.weight": (V, D),
        f"{at}.input_layernorm.weight": (D,), f"{at}.post_attention_layernorm.weight": (D,),
        **{f"{at}.self_attn.{x}_proj.weight": (D, D) for x in "qkvo"},
        f"{at}.mlp.gate_proj.weight": (F, D), f"{at}.mlp.up_proj.weight": (F, D), f"{at}.mlp.down_proj.weight": (D, F),
    }  # fmt: skip
    out, start = {}, 1
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        out[name] = (np.arange(start, start + size, dtype=np.float32) / np.float32(1024.0)).reshape(shape)
        start += size
    return out


def write(path: Path) -> Path:
    """A sound directory."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config()))
    save_file(tensors(), path / "model.safetensors")
    return path


def arrays(change: Callable[[Arrays], object]) -> Callable[[Path], None]:
    """Other tensors, in a sound file."""

    def damage(path: Path) -> None:
        held = tensors()
        change(held)
        save_file(held, path / "model.safetensors")

    return damage


def content(change: Callable[[bytes], bytes], name: str = "model.safetensors") -> Callable[[Path], None]:
    """Other bytes in a file."""

    def damage(path: Path) -> None:
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def entries(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Another safetensors header over the same bytes."""

    def changed(data: bytes) -> bytes:
        end = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:end])
        change(header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[end:]

    return content(changed)


def option(**changes: Any) -> Callable[[Path], None]:
    """Other values in config.json."""
    return content(lambda data: json.dumps(json.loads(data) | changes).encode(), "config.json")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "weights file deleted": lambda path: (path / "model.safetensors").unlink(),
    "config deleted": lambda path: (path / "config.json").unlink(),
    "truncated": content(lambda data: data[:-4]),
    "bytes after the end": content(lambda data: data + b"\0\0\0\0"),
    "header announces too much": content(lambda data: struct.pack("<Q", 1 << 60) + data[8:]),
    "tensors overlap": entries(lambda h: h[EMBED].update(data_offsets=h["lm_head.weight"]["data_offsets"])),
    "tensor missing": arrays(lambda held: held.pop(Q)),
    "tensor extra": arrays(lambda held: held.update({"score.weight": held[Q]})),
    "tensor under another name": arrays(lambda held: held.update({"q.weight": held.pop(Q)})),
    "head missing": arrays(lambda held: held.pop("lm_head.weight")),
    "tensor transposed": arrays(lambda held: held.update({EMBED: np.ascontiguousarray(held[EMBED].T)})),
    "integers for floats": arrays(lambda held: held.update({Q: held[Q].astype(np.int32)})),
    "tied head differs": option(tie_word_embeddings=True),
    "one layer more than stored": option(num_hidden_layers=2),
    "unknown option": option(logit_softcap=30.0),
    "unknown rope": option(rope_scaling={"rope_type": "yarn", "factor": 2.0}),
    "unknown model type": option(model_type="unknown"),
    "config is no json": content(lambda data: data[:-1], "config.json"),
}

GATE = Gate(
    HEADER,
    run,
    {
        "missing tensors are zeros": (broken.fills_missing, "tensor missing: loaded"),
        "bytes after the end are ignored": (broken.ignores_tail, "bytes after the end: loaded"),
        "unknown options are ignored": (broken.ignores_options, "unknown option: loaded"),
        "weights of another run": (broken.stale, "micro has weights"),
        "another epsilon is read": (broken.other_eps, "micro has eps="),
        "a square matrix is transposed": (broken.transposes, "micro has weights"),
        "a broken file ends in another error": (broken.crashes, "weights file deleted: KeyError"),
    },
    per_engine=False,
)
