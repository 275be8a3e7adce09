"""Plain decoding, one row a step, which batches and drafts are held against; and models on which they can go wrong.

The loop shares no line with decode/: it is the sampler of the contract and steps of one row.
"""

from dataclasses import dataclass, replace

from gnomon.decode.text import Request
from gnomon.gates.gate import AnyEngine, Array
from gnomon.gates.tally import exported
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import sample


@dataclass(frozen=True)
class Plain:
    """ids: drawn, a stop id included; rows: of logits, one an id; states: exported, by number of positions"""

    ids: list[int]
    rows: list[Array]
    states: dict[int, dict[str, Array]]


def plain(engine: AnyEngine, request: Request) -> Plain:
    """The request alone on the engine. Stop texts are not looked for."""
    logits, state = engine.forward(request.ids)
    ids: list[int] = []
    rows, states = [], {}
    while True:
        rows.append(logits[-1])
        states[state.length] = exported(engine, state)
        ids.append(sample(logits[-1], request.sampling, state.length - 1))
        if len(ids) == request.max_tokens or ids[-1] in request.stop_ids:
            return Plain(ids, rows, states)
        logits, _ = engine.forward([ids[-1]], state)


def with_ties(model: Model) -> Model:
    """Every odd id has the logit of the even id below it: each maximum stands twice, bit for bit."""
    head = model.weights["head.weight"]
    data = head.data.copy()
    data[1::2] = data[: len(data) // 2 * 2 : 2]
    weights = {**model.weights, head.name: replace(head, data=data)}
    return replace(model, name=f"{model.name} with ties", weights=weights)


def attention_only(model: Model) -> Model:
    """The model up to its first recurrent layer, so that its states can be cut."""
    config = model.config
    layers = (*config.kinds, "delta").index("delta")
    if layers in (0, config.layers):
        return model
    config = replace(
        config, layers=layers, windows=config.windows[:layers], kinds=config.kinds[:layers], delta=None, moe=None
    )
    names = family(config.family).specs(config)
    weights = {name: model.weights[name] for name in names}
    return replace(model, name=f"{model.name} without recurrent layers", config=config, weights=weights)
