"""Engines whose states share memory with the arrays outside of them, made so from outside, by what any engine has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon.gates.faults.breaking import fault, put
from gnomon.gates.gate import AnyEngine, Array
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State

Arrays = Mapping[str, Array]
Known = dict[int, tuple[State, Arrays]]  # by the identity of a state: the arrays that share its memory
Stepped = Callable[[AnyEngine, State, Arrays], None]


def remembers(engine: AnyEngine, exports: bool) -> Known:
    """The arrays that leave the engine, or those that it is given, by the state they belong to."""
    known: Known = {}
    export, load = engine.export, engine.load

    def exported(state: State) -> dict[str, Array]:
        arrays = export(state)
        known[id(state)] = state, arrays
        return arrays

    def loaded(arrays: Arrays, ids: Sequence[int]) -> State:
        state = load(arrays, ids)
        known[id(state)] = state, arrays
        return state

    put(engine, "export" if exports else "load", exported if exports else loaded)
    return known


def writes_through(engine: AnyEngine, exports: bool) -> None:
    """A step overwrites the arrays with what the state has become."""
    export, step, known = engine.export, engine.step, remembers(engine, exports)

    def stepped(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
        out = step(rows, want, tap)
        for span in rows.spans:
            if id(span.state) in known:
                fresh = export(span.state)
                for name, array in known[id(span.state)][1].items():
                    array[...] = fresh[name][: len(array)]
        return out

    put(engine, "step", stepped)


def reads_through(engine: AnyEngine, exports: bool) -> None:
    """A step finds in its state what stands in the arrays."""
    load, step, known = engine.load, engine.step, remembers(engine, exports)

    def stepped(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
        for span in rows.spans:
            if id(span.state) in known:
                span.state.caches[:] = load(known.pop(id(span.state))[1], span.state.ids).caches
        return step(rows, want, tap)

    put(engine, "step", stepped)


live_export = fault(lambda engine: writes_through(engine, exports=True))
live_load = fault(lambda engine: writes_through(engine, exports=False))
writable_export = fault(lambda engine: reads_through(engine, exports=True))
writable_load = fault(lambda engine: reads_through(engine, exports=False))
