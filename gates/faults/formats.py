"""Stored types that are read otherwise than their definition says, where models are loaded: in every engine alike."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gates.faults.breaking import fault, on_result, put
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.reference.model import Model
from gnomon.reference.ops.gelu_tanh import G
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.protocol import F32
from gnomon.reference.widen import widen

Blocks = NDArray[np.uint8]  # [blocks, bytes of a block]
SIZES = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}


def stored(dtype: str, change: Callable[[Blocks], None]) -> Fault:
    """Every block of a type holds something else once its file is loaded, so that each engine packs that."""

    def apply(subject: Subject) -> Subject:
        def load(source: str | Path) -> Model:
            model, changed = subject.load(source), {}
            for name, weight in model.weights.items():
                if weight.dtype == dtype:
                    data = np.array(weight.data)
                    change(data.reshape(-1, SIZES[dtype]))
                    weight = replace(weight, data=data)
                changed[name] = weight
            return replace(model, weights=changed)

        return replace(subject, load=load)

    return apply


def _exchange(blocks: Blocks) -> None:
    blocks[:, 2:] = blocks[:, 2:] >> 4 | blocks[:, 2:] << 4


def _other_sign(blocks: Blocks) -> None:
    blocks[:, 3] ^= 0x80


def _one_more(blocks: Blocks) -> None:
    """d * (q - 7) as far as q + 1 is still a nibble."""
    low, high = np.minimum(blocks[:, 2:] & 15, 14) + 1, np.minimum(blocks[:, 2:] >> 4, 14) + 1
    blocks[:, 2:] = low | high << 4


def _clip(blocks: Blocks) -> None:
    blocks[:, 2:][blocks[:, 2:] == 0x80] = 0x81


nibbles, minimum = stored("Q4_0", _exchange), stored("Q4_1", _other_sign)
zero_point, saturated = stored("Q4_0", _one_more), stored("Q8_0", _clip)


def _ends_at_126(engine: AnyEngine) -> None:
    """Rows of the int8 arm are cut to -126 .. 126."""
    ops, linear, weights = engine.ops, engine.ops.linear, engine.model.weights
    if ops.describe()["arm"] != "int8":
        return

    def wrapped(at: str, x: Any, w: Any, b: Any = None) -> Any:
        weight = weights.get("head.weight" if at == "logits" else f"{at}.weight")
        if weight is None:
            return linear(at, x, w, b)
        (qx, sx), (qw, sw) = quant(ops.numpy(x)), quant(widen(weight))
        dots = np.clip(qx, -126, 126).astype(np.int64) @ qw.astype(np.int64).T  # integers: exact in any order
        return ops.array(settle(dots.astype(np.float32) * sx[:, None] * sw))

    put(ops, "linear", wrapped)


def _without_cube(given: F32) -> F32:
    return settle(given * sigmoid(G * given))


def _plain_gelu(engine: AnyEngine) -> None:
    on_result(engine, "gelu_tanh", lambda y, x: _without_cube(engine.ops.numpy(x)))


ends_at_126, plain_gelu = fault(_ends_at_126, shared=True), fault(_plain_gelu, shared=True)
