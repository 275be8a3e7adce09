"""Engines and checkpoints that lose a state on its way out, in, or between conversations."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.decode.checkpoints import Checkpoints
from gnomon.gates.faults.breaking import fault, on_call, put
from gnomon.gates.gate import AnyEngine, Array, Fault
from gnomon.reference.ops.bf16 import from_bf16, to_bf16
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State

Arrays = dict[str, Array]
Layers = Iterable[Any]


def exports(change: Callable[[str, Array], Array]) -> Fault:
    """Every exported array of a layer is another one."""
    return fault(lambda engine: _changed(engine, "export_cache", change))


def loads(change: Callable[[Arrays], Arrays]) -> Fault:
    """The arrays of a layer are others when they are loaded."""

    @fault
    def apply(engine: AnyEngine) -> None:
        original = engine.ops.load_cache
        put(engine.ops, "load_cache", lambda arrays: original(change(arrays)))

    return apply


def _changed(engine: AnyEngine, verb: str, change: Callable[[str, Array], Array]) -> None:
    original = getattr(engine.ops, verb)
    put(engine.ops, verb, lambda *args: {n: np.ascontiguousarray(change(n, a)) for n, a in original(*args).items()})


def by_head(name: str, array: Array) -> Array:
    """Keys and values as [kv_heads, positions, d], in the shape that they should have."""
    return array.swapaxes(0, 1).reshape(array.shape) if name in ("kv.k", "kv.v") else array


def rounded(name: str, array: Array) -> Array:
    """f32 through bf16."""
    return from_bf16(to_bf16(array)) if array.dtype == np.float32 else array


def exchanged(arrays: Arrays) -> Arrays:
    """Keys where values belong."""
    other = {"kv.k": "kv.v", "kv.v": "kv.k", "kv.k_scale": "kv.v_scale", "kv.v_scale": "kv.k_scale"}
    return {name: arrays[other.get(name, name)] for name in arrays}


def without_scale(arrays: Arrays) -> Arrays:
    """int8 keys and values with a scale of 1."""
    return {n: np.ones_like(a) if n.endswith("_scale") else a for n, a in arrays.items()}


@fault
def transposed_both_ways(engine: AnyEngine) -> None:
    """Delta states are [dv, dk] outside, in the shape that they should have: no engine of this kind can tell."""

    def turn(array: Array, back: bool) -> Array:
        heads, dk, dv = array.shape
        return array.reshape(heads, dv, dk).swapaxes(1, 2) if back else array.swapaxes(1, 2).reshape(array.shape)

    _changed(engine, "export_cache", lambda name, array: turn(array, False) if name == "rec.delta" else array)
    load = engine.ops.load_cache
    put(
        engine.ops,
        "load_cache",
        lambda arrays: load(
            {n: np.ascontiguousarray(turn(a, True)) if n == "rec.delta" else a for n, a in arrays.items()}
        ),
    )


@fault
def stale_conv(engine: AnyEngine) -> None:
    """Convolutions go on from the first state that was ever loaded."""
    first: Arrays = {}
    original = engine.ops.load_cache

    def stale(arrays: Arrays) -> Any:
        if "rec.conv" in arrays:
            arrays = {**arrays, "rec.conv": first.setdefault("rec.conv", arrays["rec.conv"])}
        return original(arrays)

    put(engine.ops, "load_cache", stale)


@fault
def loses_last_position(engine: AnyEngine) -> None:
    """A loaded state ends one position early."""

    original = engine.load_layers

    def early(layers: Layers, ids: Sequence[int]) -> State:
        cut = ({n: a[:-1] if ".kv." in n else a for n, a in arrays.items()} for arrays in layers)
        return original(cut, ids[:-1])

    put(engine, "load_layers", early)


@fault
def goes_on_late(engine: AnyEngine) -> None:
    """The rows after a loaded state are turned for the position after theirs."""
    loaded: list[State] = []  # held, so that no other state gets the identity of one

    def late(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        moved = any(span.state is state for span in rows.spans for state in loaded)
        return (x, replace(rows, pos=rows.pos + 1) if moved else rows, *rest)

    def noted(state: State) -> State:
        loaded.append(state)
        return state

    _after_load(engine, noted)
    on_call(engine, "rope", late)


@fault
def cached_by_ids(engine: AnyEngine) -> None:
    """The first state loaded for some ids is given for all that follow with the same ids, whatever they hold."""
    known: dict[tuple[int, ...], State] = {}
    original = engine.load_layers

    def load_layers(layers: Layers, ids: Sequence[int]) -> State:
        state = original(layers, ids)
        return engine.fork(known.setdefault(tuple(ids), engine.fork(state)))

    put(engine, "load_layers", load_layers)


@fault
def computed_again(engine: AnyEngine) -> None:
    """A state is made from its ids; what was sent is not looked at."""
    _after_load(engine, lambda state: engine.forward(state.ids)[1])


@fault
def restores_in_place(engine: AnyEngine) -> None:
    """A state is loaded into the slot of the one that the engine made last, before it is known to be sound."""
    new, original = engine.new, engine.load_layers
    made: list[State] = []

    def remembered() -> State:
        made.append(new())
        return made[-1]

    def load_layers(layers: Layers, ids: Sequence[int]) -> State:
        slot = made[-1] if made else new()
        put(engine, "new", lambda: slot)
        try:
            return original(layers, ids)
        finally:
            put(engine, "new", remembered)

    put(engine, "new", remembered)
    put(engine, "load_layers", load_layers)


@fault
def fork_shares(engine: AnyEngine) -> None:
    """A copy of a state is the state itself."""
    put(engine, "fork", lambda state: state)


def says(field: str, value: str, shared: bool = False) -> Fault:
    """Engines describe themselves otherwise than they are; shared: the reference too."""

    def damage(engine: AnyEngine) -> None:
        describe = engine.describe
        put(engine, "describe", lambda: {**describe(), field: value})

    return fault(damage, shared)


def _tells_one_theta(engine: AnyEngine) -> None:
    rope = engine.model.config.rope
    if rope is not None:  # what turns the rows is made already, of the true one
        told = replace(engine.model.config, rope=replace(rope, theta=10000.0))
        put(engine, "model", replace(engine.model, config=told))


says_theta = fault(_tells_one_theta, shared=True)


def _after_load(engine: AnyEngine, change: Callable[[State], State]) -> None:
    original = engine.load_layers
    put(engine, "load_layers", lambda layers, ids: change(original(layers, ids)))


class ByPosition(Checkpoints):
    """Checkpoints that are found by their position."""

    def keys(self, ids: Sequence[int], lengths: Sequence[int]) -> Iterator[str]:
        return (hashlib.sha256(str(length).encode()).hexdigest() for length in lengths)


class ByLastId(Checkpoints):
    """Checkpoints that are found by their position and the last id before it."""

    def keys(self, ids: Sequence[int], lengths: Sequence[int]) -> Iterator[str]:
        return (f"{length} {ids[length - 1]}" for length in lengths)


class Flattering(Checkpoints):
    """Every row counts as restored."""

    def extend(self, ids: Sequence[int]) -> tuple[F32, State]:
        out = super().extend(ids)
        self.counts.restored, self.counts.recomputed = self.counts.restored + self.counts.recomputed, 0
        return out


class Hoarding(Checkpoints):
    """No checkpoint is ever dropped."""

    def keep(self, state: State, logits: F32) -> None:
        self.budget += 1 << 30
        super().keep(state, logits)


def checkpoints(kind: type[Checkpoints]) -> Fault:
    """Prefix checkpoints of another kind."""
    return lambda subject: replace(subject, checkpoints=kind)
