"""Whatever chooses by the number of rows of a step is registered, and both sides of every such number are run."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.compare.same import assert_same_bytes
from gnomon.compare.vectors import read_case, run_case
from gnomon.gates.chunk import HEADER
from gnomon.gpu.host_build import kernel_number, kernel_sources
from gnomon.gpu.row_counts import both_sides, defined, row_choices, sides
from gnomon.models import micro
from gnomon.models.micro import CONFIG
from gnomon.reference.engine import Engine
from gnomon.reference.protocol import Ops
from running import LONG, assert_same_state, in_steps

PACKAGE = Path(gnomon.__file__).parent
PYTHON = [
    *PACKAGE.glob("gpu/*.py"),
    *PACKAGE.glob("reference/ops/*.py"),
    *(PACKAGE / "reference" / name for name in ("engine.py", "numpy_ops.py", "kv.py", "taps.py")),
    *(PACKAGE / "decode" / name for name in ("batch.py", "generate.py", "transcript.py")),
]
MOST = HEADER.numbers["highest"]
# Numbers that no path is chosen by, as far as rows of a step go, and what they are instead.
NOT_OF_ROWS = {
    "CHUNK": "terms of a chunk: the contract's", "STEP": "positions of a chunk", "LANES": "threads",
    "NL": "threads", "SIDE": "sums side by side", "VECTOR": "floats of a register", "VECTORS": "registers",
    "PLACES": "chunks of a matrix's terms", "SOON": "bytes", "AHEAD": "bytes", "HUGE": "bytes", "ALIGN": "bytes",
    "STACK": "bytes", "MOST": "threads", "PARTS": "threads", "MIX_PARTS": "threads", "SHARES": "tasks a thread takes",
    "WIDEST": "entries of a head", "WIDE": "chunks of a matrix's terms", "LEAST": "elements of an allocation",
    "POOL": "instructions", "EXACT": "terms", "INT8_TERMS": "terms", "TILE_OUTPUTS": "outputs of a matrix",
    "POOL_JOBS": "tiles: registered in floats behind it", "KEPT": "bound steps", "TILE_TASKS": "registered behind it",
    "OUT": "an index", "BIAS": "a bit", "RESIDUAL": "a bit", "PIECE_BYTES": "bytes", "_XOPEN_SOURCE": "a version",
    "DENSE_POSITIONS": "positions", "LEAST_E": "an exponent",
    "SCRATCH_FLOATS": "floats of scratch, thousands of rows: the tests of pieces set it small",
}  # fmt: skip
# The same of one file, where the name is another's.
NOT_OF_ROWS_IN = {("cupy_driver.py", "SMALL"): "bytes"}


def constants(path: Path) -> Iterator[tuple[str, bool]]:
    """Names of whole numbers that a module defines in capitals; and whether they are registered where they stand."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name):
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            if value.func.id in ("chooses_by_rows", "kernel_number"):
                yield name, True
        elif all(isinstance(n, ast.Constant | ast.BinOp | ast.operator) for n in ast.walk(value)) and isinstance(
            eval(compile(ast.Expression(value), "", "eval")),
            int,  # numbers and operators only
        ):
            yield name, False


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)
def test_no_number_of_a_module_chooses_by_rows_unregistered(path: Path) -> None:
    left = {name for name, registered in constants(path) if not registered}
    left -= {name for name in left if name in NOT_OF_ROWS or (path.name, name) in NOT_OF_ROWS_IN}
    assert not left, f"register it with chooses_by_rows, or say in NOT_OF_ROWS what it counts: {left}"


@pytest.mark.parametrize("name", sorted(kernel_sources()))
def test_no_number_of_a_kernel_chooses_by_rows_unregistered(name: str) -> None:
    text = kernel_sources()[name]
    numbers = set(re.findall(r"^ *#define (\w+) +\d+\b", text, re.MULTILINE))
    registered = {choice.name.removeprefix(f"{name}: ") for choice in defined({name: text})}
    left = numbers - registered - set(NOT_OF_ROWS)
    assert not left, f"register it with `// by rows: ...` behind it, or say in NOT_OF_ROWS what it counts: {left}"


COUNTED = re.compile(r"\b(rows|queries|count|size|spans|selected|tasks|total)\b *(<|>|<=|>=|==|!=|%|/) *(\d+)\b")
COUNTED_IN_PYTHON = re.compile(r"\b(rows|ids|count|work)\b\S* *(<|>|<=|>=|==|!=|%|//) *(\d+)\b")


@pytest.mark.parametrize("name", [*sorted(kernel_sources()), *sorted(str(p.relative_to(PACKAGE)) for p in PYTHON)])
def test_no_bare_number_is_compared_with_rows(name: str) -> None:
    """One row by itself is known to every gate; any other number has a name."""
    text = kernel_sources().get(name) or (PACKAGE / name).read_text("utf-8")
    found = (COUNTED_IN_PYTHON if name.endswith(".py") else COUNTED).findall(text)
    assert not [one for one in found if int(one[2]) > 1]


def test_a_kernel_that_chooses_by_a_new_number_is_seen() -> None:
    text = kernel_sources()["host_linear.h"].replace("if (l.rows == 1)", "if (l.rows >= 200)")
    assert [one for one in COUNTED.findall(text) if int(one[2]) > 1] == [("rows", ">=", "200")]
    assert [c.name for c in defined({"a.h": "#define HUGE_STEP 300  // by rows: of a step\n"})] == ["a.h: HUGE_STEP"]


def test_a_number_that_no_kernel_defines_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected a number TILES in kernels/host_tile\.h"):
        kernel_number("host_tile.h", "TILES")


def test_no_registered_number_is_out_of_reach_of_the_gate() -> None:
    """On micro, in one step, with rows on both sides."""
    model, rungs = micro(), set(both_sides(row_choices(), micro(), MOST))
    for choice in row_choices():
        reached = sides(choice, model) & rungs
        assert {n for n in reached if n + 1 in reached}, choice


@pytest.mark.parametrize("name", ["rows.h: SEGMENT", "host_linear.h: PIECE", "gpu.host_library.SMALL"])
def test_the_gate_runs_both_sides(name: str) -> None:
    expected = {"rows.h: SEGMENT": {5, 6}, "host_linear.h: PIECE": {63, 64, 65}, "gpu.host_library.SMALL": {647, 648}}
    (choice,) = [choice for choice in row_choices() if choice.name == name]
    assert expected[name] <= sides(choice, micro()) & set(both_sides(row_choices(), micro(), MOST))


# Both sides, on every engine.

SHAPE = replace(CONFIG, layers=2, windows=(5, None), kinds=("attention", "attention"), delta=None)
NewEngine = Callable[..., Engine[Any]]


def test_no_number_of_rows_changes_a_bit_in_other_forms(new_engine: NewEngine) -> None:
    """bf16 products and int8 keys and values: the gate runs f32."""
    model = micro(SHAPE)
    rungs = [n for n in both_sides(row_choices(), model, 258) if n > 5]
    ids = (LONG * 2)[:258]
    engine, few = (new_engine(model, arm="bf16", kv="int8") for _ in range(2))
    state = few.new()
    expected = in_steps(few, state, ids, [5] * 51 + [3])
    for rows in rungs:
        got, reached = engine.forward(ids[:rows], want="all")
        assert_same_bytes(got, expected[:rows], f"logits of {rows} rows")
    got, reached = engine.forward(ids, want="all")
    assert_same_state(engine.export(reached), few.export(state))


ROWWISE = ("linear", "rms_norm", "layer_norm", "rope", "swiglu")
BY_ROWS = {"x", "pos", "gate", "up", "y", "y_nobias"}
VECTORS = [
    file
    for file in sorted((PACKAGE / "vectors").glob("*.json"))
    if re.match("|".join(ROWWISE), file.stem) and file.stem != "rope_tables"
]


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_no_known_answer_hangs_on_how_many_rows_are_asked_at_once(ops: Ops[Any], file: Path) -> None:
    """The rows of the answer, again and again, up to 513."""
    name, params, inputs, outputs = read_case(file)
    for count in (63, 64, 65, 255, 256, 257, 511, 512, 513):

        def many(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
            return {
                key: np.take(a, np.arange(count) % len(a), axis=0) if key in BY_ROWS else a  # noqa: B023
                for key, a in arrays.items()
            }

        expected = {key: a for key, a in outputs.items() if key in BY_ROWS}
        result = run_case(name, params, many(inputs), many(expected), ops)
        assert result.verdict == "PASS", f"{count} rows: {result.detail}"
