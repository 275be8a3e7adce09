"""`micro`: a model small enough to follow by hand, made from a seed. For tests, mutations and teaching.

Three layers: attention that sees a window of 5 positions; attention that sees everything; convolution and delta
rule. Grouped queries, grouped values; width 40, head width 10, vocabulary 97, so that no size is a multiple of a tile.
Weights are f32 from NumPy's PCG64, whose stream is stable across versions.
"""

import numpy as np

from gnomon.reference.config import Config, Delta, Rope
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.weights import Weight

SEED = 20261129

CONFIG = Config(
    family="llama",
    vocab=97,
    width=40,
    layers=3,
    heads=4,
    kv_heads=2,
    head_dim=10,
    ffn=72,
    eps=1e-5,
    rope=Rope(theta=10000.0, dim=10),
    max_positions=4096,
    windows=(5, None, None),
    kinds=("attention", "attention", "delta"),
    delta=Delta(key_heads=2, value_heads=4, dk=6, dv=9, conv=4),
)


def micro(config: Config = CONFIG) -> Model:
    """The model, without a tokenizer: token ids only. config: another shape, whose weights are other ones"""
    rng = np.random.Generator(np.random.PCG64(SEED))
    weights = {}
    for name, spec in family(config.family).specs(config).items():
        unit = rng.random(spec.shape) * 2.0 - 1.0  # uniform, by exact steps only
        if spec.role == "decay":
            values = 1.5 * unit  # half the heads forget slowly, half at once
        elif spec.role == "vector":
            values = 1.0 + 0.25 * unit
        else:
            values = unit * (2.0 if spec.role == "table" else (3.0 / spec.shape[1]) ** 0.5)
        data = np.ascontiguousarray(values.astype("<f4")).view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    return Model("micro", config, weights)
