"""Loaders that help where they should refuse: each wraps the honest one and mends the file or the model on the way."""

import json
import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from gnomon.gates.gate import Subject
from gnomon.reference.errors import ModelError
from gnomon.reference.model import Model

Load = Callable[[str | Path], Model]
UNKNOWN = ("logit_softcap",)


def mending(subject: Subject, mend: Callable[[Path], None]) -> Subject:
    """Where a directory is refused, a mended copy of it is loaded in its place."""

    def load(source: str | Path) -> Model:
        try:
            return subject.load(source)
        except ModelError as refusal:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "copy"
                shutil.copytree(source, copy)
                try:
                    mend(copy)
                except Exception:  # there is nothing to mend
                    raise refusal from None
                model = subject.load(copy)
                return replace(model, weights={n: replace(w, data=w.data.copy()) for n, w in model.weights.items()})

    return replace(subject, load=load)


def fills_missing(subject: Subject) -> Subject:
    def mend(path: Path) -> None:
        held = load_file(path / "model.safetensors")
        name = "model.layers.0.self_attn.q_proj.weight"
        save_file({name: np.zeros((8, 8), np.float32), **held}, path / "model.safetensors")

    return mending(subject, mend)


def ignores_tail(subject: Subject) -> Subject:
    def mend(path: Path) -> None:
        data = (path / "model.safetensors").read_bytes()
        end = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:end])
        last = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        (path / "model.safetensors").write_bytes(data[: end + last])

    return mending(subject, mend)


def ignores_options(subject: Subject) -> Subject:
    def mend(path: Path) -> None:
        given = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({k: v for k, v in given.items() if k not in UNKNOWN}))

    return mending(subject, mend)


def changing(subject: Subject, change: Callable[[Model], Model]) -> Subject:
    """What is loaded is changed."""
    return replace(subject, load=lambda source: change(subject.load(source)))


def stale(subject: Subject) -> Subject:
    def change(model: Model) -> Model:
        name, weight = next(iter(model.weights.items()))
        data = weight.data.copy()
        data[0, 0] ^= 1
        return replace(model, weights={**model.weights, name: replace(weight, data=data)})

    return changing(subject, change)


def other_eps(subject: Subject) -> Subject:
    """The epsilon of the norms is read as another number."""
    return changing(subject, lambda model: replace(model, config=replace(model.config, eps=2.0 * model.config.eps)))


def transposes(subject: Subject) -> Subject:
    def change(model: Model) -> Model:
        square = (n for n, w in model.weights.items() if len(w.shape) == 2 and w.shape[0] == w.shape[1])
        name = next(square, None)
        if name is None:
            return model
        weight = model.weights[name]
        n = weight.shape[0]
        data = np.ascontiguousarray(weight.data.reshape(n, n, -1).swapaxes(0, 1)).reshape(n, -1)
        return replace(model, weights={**model.weights, name: replace(weight, data=data)})

    return changing(subject, change)


def crashes(subject: Subject) -> Subject:
    def load(source: str | Path) -> Model:
        try:
            return subject.load(source)
        except ModelError as error:
            raise KeyError(str(error)) from error

    return replace(subject, load=load)
