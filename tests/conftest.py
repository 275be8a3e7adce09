"""The engines that the shared test bodies run on."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from gnomon.engines import engine, engines
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import Ops

NEEDS = {"numpy": "numpy", "mlx-array": "mlx"}  # engine -> the package that makes it available


@pytest.fixture(params=NEEDS, scope="session")
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn. One whose package is absent is skipped; one whose package is there has to run."""
    name: str = request.param
    reason = engines()[name]
    if reason:
        try:
            version(NEEDS[name])
        except PackageNotFoundError:
            pytest.skip(f"engine {name}: {reason}")
        pytest.fail(f"Expected engine {name} to run, since {NEEDS[name]} is installed, but {reason}")
    return name


@pytest.fixture(scope="session")
def ops(engine_name: str) -> Ops[Any]:
    """The op table of the engine."""
    return engine(engine_name, micro()).ops


@pytest.fixture(scope="session")
def new_engine(engine_name: str) -> Callable[[Model], Engine[Any]]:
    """Makes an engine that shares nothing with any other."""
    return lambda model: engine(engine_name, model)
