"""A config with every part that one can have, and every field of it with another value."""

import copy
from dataclasses import replace
from typing import Any

from gnomon.models import micro
from gnomon.models.micro import CONFIG
from gnomon.reference.config import Moe, Rope, RopeScaling
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps

IDS = [5, 80, 13, 2, 61, 7, 40, 33]
# micro with every part that a config can have.
FULL = replace(
    CONFIG,
    rope=Rope(10000.0, 10, RopeScaling("llama3", 8.0, 1.0, 4.0, 64)),
    moe=Moe(experts=3, top_k=2, ffn=24, normalise=True, layers=(1,), shared_ffn=16),
)
# Every field that touches arithmetic, with another value: what a refusal must name, and the values it must show.
TOUCHING: dict[str, Any] = {
    "family": "gpt2", "vocab": 96, "width": 44, "layers": 4, "heads": 8, "kv_heads": 1, "head_dim": 20, "ffn": 71,
    "eps": 2e-5, "rope.theta": 500000.0, "rope.dim": 8, "rope.scaling.kind": "linear", "rope.scaling.factor": 4.0,
    "rope.scaling.low": 2.0, "rope.scaling.high": 3.0, "rope.scaling.original_positions": 32,
    "windows": (6, None, None), "qkv_bias": True, "qk_norm": True, "gated": True,
    "kinds": ("delta", "attention", "delta"), "delta.key_heads": 4, "delta.value_heads": 2, "delta.dk": 7,
    "delta.dv": 8, "delta.conv": 3, "moe.experts": 4, "moe.top_k": 1, "moe.ffn": 25, "moe.normalise": False,
    "moe.layers": (0,), "moe.shared_ffn": 15,
}  # fmt: skip
# Every field that does not, with another value; a test below computes the same bytes under it.
UNTOUCHING: dict[str, Any] = {"max_positions": 512, "tied": True}
ABSENT = ("rope", "rope.scaling", "delta", "moe")  # parts that a config may lack as a whole
NORM = "plus_one"  # of the weights: the digest of their bytes does not say that a norm uses 1 + w


def perturbed(name: str, value: Any) -> Model:
    """The same weights under a config that differs in this field alone, even where no file could say so."""
    if name == NORM:
        weight = MODEL.weights["ln_final.weight"]
        return replace(MODEL, weights={**MODEL.weights, weight.name: replace(weight, plus_one=True)})
    config = copy.deepcopy(MODEL.config)
    *parts, last = name.split(".")
    owner: Any = config
    for part in parts:
        owner = getattr(owner, part)
    object.__setattr__(owner, last, value)
    return replace(MODEL, config=config)


MODEL = micro(FULL)
OTHERS = TOUCHING | dict.fromkeys(ABSENT) | {NORM: ["ln_final.weight"]}


def engine(model: Model) -> Engine[Any]:
    return Engine("numpy", model, NumpyOps())
