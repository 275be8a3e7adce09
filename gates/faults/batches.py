"""Engines whose sequences feel one another, or the memory around them."""

from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.faults.breaking import fault, on_call, on_result, put
from gnomon.gates.gate import AnyEngine
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State


@fault
def later_sequences_skipped(engine: AnyEngine) -> None:
    """The convolution is done for the first sequence of a batch alone."""

    def first(y: F32, x: Any, w: Any, rows: Rows, i: int) -> F32:
        y[rows.spans[0].stop :] = 0.0
        return y

    on_result(engine, "causal_conv", first)


@fault
def positions_of_the_first(engine: AnyEngine) -> None:
    """Every position of a batch is counted from the start of its first sequence."""

    def counted(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        return (x, replace(rows, pos=np.arange(len(rows.ids)) + rows.pos[0]), *rest)

    on_call(engine, "rope", counted)


@fault
def recurrent_state_kept(engine: AnyEngine) -> None:
    """Cutting a state to nothing leaves what its delta layers carry."""
    truncate = engine.truncate

    def kept(state: State, length: int) -> None:
        caches = list(state.caches)
        truncate(state, length)
        for i, kind in enumerate(engine.model.config.kinds):
            if kind == "delta":
                state.caches[i] = caches[i]

    put(engine, "truncate", kept)


@fault
def memory_read(engine: AnyEngine) -> None:
    """What free memory holds is multiplied by zero and added, as a kernel does that pads without writing."""
    on_result(engine, "embed", lambda x, *args: x + np.float32(0.0) * np.float32(engine.ops.scratch_fill))
