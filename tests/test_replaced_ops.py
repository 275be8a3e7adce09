"""An op that somebody puts in the place of an engine's own shows, also where the engine has it inside a fused one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.models import micro
from gnomon.reference.engine import Engine

IDS = [3, 1, 4, 15, 92]
STEPS = ("silu", "mul", "rms_norm", "scores", "exp_scores", "denom", "mix", "kv_append")


@pytest.mark.parametrize("op", STEPS)
def test_no_replaced_op_is_passed_over(new_engine: Callable[..., Engine[Any]], op: str) -> None:
    model = micro()
    engine = new_engine(model)
    original, calls = getattr(engine.ops, op), list[str]()

    def counted(at: str, *arguments: Any, **named: Any) -> Any:
        calls.append(at)
        return original(at, *arguments, **named)

    setattr(engine.ops, op, counted)
    logits, _ = engine.forward(IDS)
    assert calls, f"{op} was replaced and never called"
    expected, _ = gnomon.engine("numpy", model).forward(IDS)
    assert np.array_equal(logits, expected)
