"""How an engine is broken from outside: its op table gets another method, on that one object."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.gate import AnyEngine, Fault, MakeEngine, Subject
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32

Damage = Callable[[AnyEngine], None]


def fault(damage: Damage, shared: bool = False) -> Fault:
    """Every engine under test is damaged as soon as it is made; shared: the reference too"""

    def broken(make: MakeEngine) -> MakeEngine:
        def made(model: Model, *forms: str) -> AnyEngine:
            engine = make(model, *forms)
            damage(engine)
            return engine

        return made

    def apply(subject: Subject) -> Subject:
        changed = replace(subject, engine=broken(subject.engine))
        return replace(changed, reference=broken(subject.reference)) if shared else changed

    return apply


def put(target: object, name: str, value: object) -> None:
    """Set a method on this one object only."""
    setattr(target, name, value)


def on_call(engine: AnyEngine, op: str, change: Callable[..., tuple[Any, ...]]) -> None:
    """The op gets other arguments: those that `change` makes of them (all but `at`)."""
    original = getattr(engine.ops, op)
    put(engine.ops, op, lambda at, *args, **named: original(at, *change(*args), **named))


def on_result(engine: AnyEngine, op: str, change: Callable[..., F32 | None], at: str = "") -> None:
    """The op gives `change(result, *arguments)`, in NumPy; None leaves the result; at: end of the names it concerns"""
    ops, original = engine.ops, getattr(engine.ops, op)

    def wrapped(name: str, *args: Any, **named: Any) -> Any:
        result = original(name, *args, **named)
        if not name.endswith(at):
            return result
        parts = result if isinstance(result, list) else [result]
        changed = [change(ops.numpy(part), *args) for part in parts]
        out = [p if c is None else ops.array(np.ascontiguousarray(c)) for p, c in zip(parts, changed, strict=True)]
        return out if isinstance(result, list) else out[0]

    put(ops, op, wrapped)


def flipped(x: F32) -> F32:
    """The lowest bit of the last value is another one."""
    x = np.array(x, np.float32)
    x.reshape(-1).view(np.uint32)[-1] ^= 1
    return x


def shaken(x: F32) -> F32:
    """The lowest bit of every value is another one: enough for what follows to feel it."""
    bits = np.array(x, np.float32).view(np.uint32)
    other: F32 = (bits ^ (bits != 0)).view(np.float32)
    return other
