"""micro with a mixture of experts in its second layer, for the one mutation that needs routing."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from gnomon.gates.gate import Subject
from gnomon.models import micro
from gnomon.reference.config import Moe
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.weights import Weight

MOE = Moe(experts=4, top_k=2, ffn=12, normalise=False, layers=(0,))


def experts() -> Model:
    """Its other weights are those of micro; the new ones come from NumPy's PCG64, whose stream is stable."""
    base, rng = micro(), np.random.Generator(np.random.PCG64(1))
    config = replace(base.config, moe=MOE)
    weights = {}
    for name, spec in family(config.family).specs(config).items():
        if name in base.weights:
            weights[name] = base.weights[name]
            continue
        values = (rng.random(spec.shape) * 2.0 - 1.0) * (3.0 / spec.shape[1]) ** 0.5
        data = np.ascontiguousarray(values.astype("<f4")).view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    return Model("experts", config, weights)


def with_experts(subject: Subject) -> Subject:
    """The subject knows the model "experts" and has the prompt of micro for it."""

    def load(source: str | Path) -> Model:
        return experts() if source == "experts" else subject.load(source)

    return replace(subject, load=load, prompts={**subject.prompts, "experts": subject.prompts["micro"]})
