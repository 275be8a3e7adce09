"""What a model does, as a list: each named tensor with the op that makes it, what it reads, and its numbers.

Found by running the model's own wiring on names instead of arrays, so that no family has to be known here.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Ops, Rows

ATTENTION = {"scores": "scores", "exp": "exp_scores", "denom": "denom", "z": "mix"}  # inner tensors of attention


@dataclass(frozen=True, eq=False)
class Call:
    """op: a method of the op table; arguments: by name: values, weights, numbers"""

    op: str
    arguments: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Value:
    """name: of the tensor, "" where no tap sees it; made: by which call"""

    name: str
    made: Call


class Script:
    """An op table that computes nothing and remembers every call by the name of its result."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}

    def __getattr__(self, op: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(Ops, op))

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            del arguments["self"]
            return self._made(op, arguments.pop("at"), arguments)

        return call

    def _made(self, op: str, at: Any, arguments: dict[str, Any]) -> Any:
        made = Call(op, arguments)
        if op == "split":
            self.calls |= {name: made for name in at if name}
            return [Value(name, made) for name in at]
        if op == "attention":
            self.calls |= {f"{at}.{name}": Call(inner, arguments) for name, inner in ATTENTION.items()}
            return Value(f"{at}.z", made)
        if at:
            self.calls[at] = made
        return Value(at, made)


def script(model: Model) -> dict[str, Call]:
    """Every tensor that a tap of this model sees, but for the state as it is appended."""
    ops, rope = Script(), model.config.rope
    tables = RopeTables(rope.theta, rope.dim, rope.scaling) if rope else None
    rows = Rows(np.zeros(0, np.int32), np.zeros(0, np.int64), ())
    family(model.config.family).wire(cast(Ops[Any], ops), model.config, dict(model.weights), tables, rows, "all")
    return ops.calls
