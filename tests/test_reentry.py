"""An engine is one call at a time: neither a second thread nor a tap of its own step gets in."""

from collections.abc import Callable
from typing import Any

import pytest

from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError


@pytest.mark.parametrize("what", ["step", "generate", "truncate", "fork", "export"])
def test_no_tap_enters_the_engine_whose_step_it_watches(new_engine: Callable[..., Engine[Any]], what: str) -> None:
    """It would share the buffers of the step: wrong logits in silence, or the end of the process."""
    model = micro()
    engine = new_engine(model)
    _, state = engine.forward([1, 2])
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: engine.forward([9] * 30),
        "generate": lambda: list(engine.generate([9, 8, 7], 3)),
        "truncate": lambda: engine.truncate(state, 1),
        "fork": lambda: engine.fork(state),
        "export": lambda: engine.export(state),
    }

    class Busy:
        def wants(self, name: str) -> bool:
            return name.endswith("resid_post")

        def __call__(self, *shown: Any) -> None:
            calls[what]()

    with pytest.raises(UsageError, match=r"leaves engine .* alone while its step runs"):
        engine.forward([3, 4], state, tap=Busy())
    logits, _ = engine.forward([3, 4], state)  # nothing was committed, and the engine goes on
    expected, _ = new_engine(model).forward([1, 2, 3, 4])
    assert logits.tobytes() == expected.tobytes()
