"""Known answers: cases stored as bits, run through the op table of an engine.

One JSON object per file: `op`, `note`, `params`, `inputs`, `outputs`; an array is {"dtype": "f32", "shape", "bits"} or
{"dtype": "i64", "shape", "values"}. The longest runner name that begins `op` decides how a case is run, so
"linear_tiny" is one more case of "linear". A case whose op the engine does not have is NOT RUN, never passed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.same import assert_same_bytes
from gnomon.compare.vector_runners import RUNNERS, Arrays
from gnomon.reference.errors import GnomonError, ModelError, UsageError
from gnomon.reference.own_code import OwnCodeError
from gnomon.reference.protocol import Ops
from gnomon.reference.strict_json import parse_object, read_bytes


@dataclass(frozen=True)
class Result:
    """verdict: "PASS", "FAIL" or "NOT RUN"; values: how many were compared; detail: the mismatch, or the reason"""

    case: str
    verdict: str
    values: int
    detail: str = ""


def run_vectors(folder: Path, ops: Ops[Any]) -> Iterator[Result]:
    """Every *.json case of the folder, in order. Raises UsageError for an empty folder or a file of another format."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UsageError(f"Expected vector files (*.json) in {str(folder)!r} but there are none")
    for file in files:
        yield run_case(*read_case(file), ops)


def read_case(file: Path) -> tuple[str, dict[str, Any], Arrays, Arrays]:
    """Name, params, inputs and expected outputs of one file."""
    try:
        case = parse_object(read_bytes(file), "it")
        inputs = {name: read_array(spec) for name, spec in case["inputs"].items()}
        outputs = {name: read_array(spec) for name, spec in case["outputs"].items()}
        name, params = case["op"], case["params"]
        if not isinstance(name, str) or not isinstance(params, dict) or not outputs:
            raise ValueError("op, params or outputs")
    except (ModelError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = f"{error!r:.300}"
        raise UsageError(f"Expected a vector file at {str(file)!r} but reading it failed: {said}") from error
    return name, params, inputs, outputs


def read_array(spec: dict[str, Any]) -> NDArray[Any]:
    """An array of the format above, exactly."""
    if spec["dtype"] == "f32":
        words = [int(word, 16) for word in spec["bits"]]
        return np.array(words, np.uint32).view(np.float32).reshape(spec["shape"])
    if spec["dtype"] == "i64":
        return np.array(spec["values"], np.int64).reshape(spec["shape"])
    raise ValueError(f"dtype {spec['dtype']!r}")


def run_case(name: str, params: dict[str, Any], inputs: Arrays, expected: Arrays, ops: Ops[Any]) -> Result:
    """Run one case and compare every output bit for bit."""
    runner = max((key for key in RUNNERS if re.match(rf"{key}(_|$)", name)), key=len, default=None)
    if runner is None:
        return Result(name, "NOT RUN", 0, f"no op of the contract is called {name!r}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            got = RUNNERS[runner](ops, inputs, params)
    except OwnCodeError as error:
        return Result(name, "FAIL", 0, str(error))
    except (GnomonError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Result(name, "FAIL", 0, f"{type(error).__name__}: {error}")
    if got is None:
        return Result(name, "NOT RUN", 0, f"the engine does not have {runner} yet")
    try:
        for key, value in expected.items():
            ways = [way for way in got if way.partition(",")[0] == key]  # "y", "y, composed": one answer for both
            if not ways:
                return Result(name, "NOT RUN", 0, f"the engine gives no output {key!r}")
            for way in ways:
                assert_same_bytes(got[way], value, name=f"{name} {way}", sparse=True)  # a known answer may be zero
    except AssertionError as error:
        return Result(name, "FAIL", 0, str(error))
    return Result(name, "PASS", sum(value.size for value in expected.values()))
