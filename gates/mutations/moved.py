"""States that lose something on their way, and checkpoints that are found by the wrong key."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gnomon.gates.faults import restoring as broken
from gnomon.gates.faults.breaking import fault, put
from gnomon.gates.gate import AnyEngine, Array
from gnomon.gates.mutations.mutation import NONE, Mutation, only, these
from gnomon.reference.state import State


def without_conv(arrays: broken.Arrays) -> broken.Arrays:
    """The convolution of a loaded layer starts from zeros."""
    return {n: np.zeros_like(a) if n == "rec.conv" else a for n, a in arrays.items()}


@fault
def conv_forgotten(engine: AnyEngine) -> None:
    """States leave without their convolutions and are taken without them."""
    export, load, config = engine.ops.export_cache, engine.load_layers, engine.model.config

    def exported(state: State, i: int) -> dict[str, Array]:
        return {n: a for n, a in export(state, i).items() if n != "rec.conv"}

    def mended(arrays: dict[str, Array], i: int) -> dict[str, Array]:
        name, d = f"blocks.{i}.rec.conv", config.delta
        if config.kinds[i] != "delta" or d is None:
            return arrays
        return {name: np.zeros((d.conv - 1, d.channels), np.float32), **arrays}

    def load_layers(layers: Iterable[Any], ids: Sequence[int]) -> State:
        return load((mended(dict(arrays), i) for i, arrays in enumerate(layers)), ids)

    put(engine.ops, "export_cache", exported)
    put(engine, "load_layers", load_layers)
    put(engine, "load", lambda arrays, ids: load_layers(by_layer(arrays, config.layers), ids))


def by_layer(arrays: dict[str, Array], layers: int) -> list[dict[str, Array]]:
    return [{n: a for n, a in arrays.items() if n.startswith(f"blocks.{i}.")} for i in range(layers)]


MUTATIONS = (
    Mutation(
        "M24 restore_partial_load", "a state is loaded without its convolution", "state path",
        broken.loads(without_conv), *these({"shadow", "state-bytes", "restore"}),
        "Only these load states: shadow puts the known answer of a convolution to the op table through one.",
        "blocks.2.delta.conv_out, position 9", "moved",
    ),
    Mutation(
        "M24b restore_partial_both", "states are saved and loaded without their convolution", "state path",
        conv_forgotten, *these({"golden", "shadow", "state-bytes", "restore"}),
        "An engine that compares its states with its own finds nothing missing. The oracle and the reference have the "
        "array.", "blocks.2.delta.conv_out, position 9", "moved",
    ),
    Mutation(
        "M25 restore_pos_shift", "rows after a loaded state are turned for the next position", "state path",
        broken.goes_on_late, *these({"state-bytes", "restore"}),
        "The state itself has its bytes; what follows from it has not. No other gate loads one.",
        "blocks.0.attn.q_rot, position 9", "moved",
    ),
    Mutation(
        "M27 restore_noop", "an import makes the state from its ids and looks at nothing else", "state path",
        broken.computed_again, *only("state-bytes"),
        "The honest state comes out, so what follows is right, and restore is blind: its counters are those of "
        "checkpoints. state-bytes sends a state with keys and values exchanged and gets another one back. A walk sees "
        "the step that makes the state again.",
        "embed, position 9", "moved",
        corrected="No tensor was held to differ, as the catalogue has it: every tensor of a restored run is there, and "
        "before them those of a step that has no business in it.",
    ),
    Mutation(
        "X08 states_cached_by_ids", "the first state for some ids is given for all with the same ids", "state path",
        broken.cached_by_ids, *only("state-bytes"),
        "Only state-bytes sends two states of the same ids.", NONE, "moved",
    ),
    Mutation(
        "X50 config_untold", "every engine says that its rope has the base 10000", "both engines",
        broken.says_theta, *only("restore"),
        "Each engine turns its rows as it should. Only restore offers a state of the same weights under another base, "
        "which is then taken into use.", NONE, "moved", says="a state of another rope.theta: not refused",
    ),
    Mutation(
        "X09 checkpoint_by_position", "prefix checkpoints are found by their position", "checkpoints",
        broken.checkpoints(broken.ByPosition), *only("restore"), "Only restore asks for checkpoints.",
        "embed, position 0", "checkpointed",
    ),
    Mutation(
        "X10 checkpoint_by_last_id", "prefix checkpoints are found by position and last id", "checkpoints",
        broken.checkpoints(broken.ByLastId), *only("restore"), "Only restore asks for checkpoints.",
        says="counted",
    ),
    Mutation(
        "X11 fork_shares", "a copy of a state is the state itself", "engine", broken.fork_shares,
        *these({"speculative", "restore"}),
        "A checkpoint goes on with its caller, and the copy that a generation keeps to take a recurrent state back to "
        "runs on with it. No other gate copies a state.", "",
    ),
)  # fmt: skip
