"""The engines that the shared test bodies run on."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from gnomon.cli import main
from gnomon.engines import engine, engines
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.protocol import Ops

# engine -> the package that makes it available; None: a program outside Python, which may be absent
NEEDS = {"numpy": "numpy", "host": None, "mlx-array": "mlx", "mlx-metal": None, "cupy": None}


@pytest.fixture(params=NEEDS, scope="session")
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return running(request.param)


@pytest.fixture(params=NEEDS, scope="session")
def other_name(request: pytest.FixtureRequest) -> str:
    """Each engine in turn, for tests that move something from one to another."""
    return running(request.param)


def running(name: str) -> str:
    """The name. An engine whose package is absent is skipped; one whose package is there has to run."""
    reason, package = engines()[name], NEEDS[name]
    if reason:
        if package is None:
            pytest.skip(f"engine {name}: {reason}")
        try:
            version(package)
        except PackageNotFoundError:
            pytest.skip(f"engine {name}: {reason}")
        pytest.fail(f"Expected engine {name} to run, since {package} is installed, but {reason}")
    return name


@pytest.fixture(scope="session")
def ops(engine_name: str) -> Ops[Any]:
    """The op table of the engine."""
    return engine(engine_name, micro()).ops


@pytest.fixture(scope="session")
def new_engine(engine_name: str) -> Callable[..., Engine[Any]]:
    """Makes an engine that shares nothing with any other: of a model, an arm and a kv storage."""
    return partial(engine, engine_name)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`gnomon check-op` with some words -> exit code, what it printed, what it complained of"""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["gnomon", "check-op", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, out, err

    return run
