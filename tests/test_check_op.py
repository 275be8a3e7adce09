"""`check-op` finds bugs in a kernel and gives the line that shows them again; it passes what is right."""

import json
import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.check_op import find
from gnomon.compare import check_op as module
from gnomon.compare.check_op import check_op
from gnomon.compare.op_cases import KINDS, read_case, sequence
from gnomon.compare.op_table import LENGTHS, OPS
from gnomon.reference.errors import NotRunError, UsageError
from gnomon.reference.ops.rms_norm import rms_norm

KERNELS = Path(__file__).parent.parent / "docs" / "kernels"
SAMPLES = [  # op, file, function, what the smallest failing case holds
    ("linear", "tail", "linear", {"rows": 1, "N": 1, "K": 1}),
    ("scores", "heads", "scores", {"heads": "2x2", "rows": 1, "before": 0, "window": "none", "d": 2}),
    ("softmax", "nan", "softmax", {"rows": 1, "n": 1}),
]


Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(("op", "file", "function", "smallest"), SAMPLES, ids=[s[1] for s in SAMPLES])
def test_no_sample_bug_passes(op: str, file: str, function: str, smallest: dict[str, Any]) -> None:
    kernel = find(f"{KERNELS / file}.py:{function}")
    found = check_op(op, kernel, kernel_name=f"{file}:{function}")
    assert (found.verdict, found.exit_code) == ("FAIL", 1)
    assert dict(read_case(found.case, OPS[op].sizes).sizes) == smallest
    words = shlex.split(found.replay)
    assert words == ["gnomon", "check-op", op, f"{file}:{function}", "--seed", "0", "--case", found.case]
    assert found.replay in found.text()
    again = check_op(op, kernel, seed=int(words[5]), case=words[7], kernel_name=words[3])
    assert (again.verdict, again.detail, again.cases) == ("FAIL", found.detail, 1)


@pytest.mark.parametrize(("op", "file", "function", "smallest"), SAMPLES, ids=[s[1] for s in SAMPLES])
def test_no_mended_sample_fails(op: str, file: str, function: str, smallest: dict[str, Any]) -> None:
    runs = 40 if op == "scores" else 200  # scalar loops
    found = check_op(op, find(f"{KERNELS / file}.py:{function}_right"), runs=runs)
    assert found.verdict == "PASS", found.text()
    assert (found.cases, sum(found.kinds.values())) == (runs, runs)
    assert found.values > 0


@pytest.mark.parametrize("op", OPS)
def test_no_op_fails_its_own_definition(op: str) -> None:
    found = check_op(op, OPS[op].contract, runs=120)
    assert found.verdict == "PASS", found.text()
    assert set(found.kinds) == set(KINDS)


@pytest.mark.parametrize("op", OPS)
def test_no_changed_bit_passes(op: str) -> None:
    """In the last element of the last result, at every case."""

    def flipped(*arguments: Any) -> Any:
        results = OPS[op].contract(*arguments)
        last = results[-1] if isinstance(results, tuple) and results[-1].size else results
        last = last[0] if isinstance(last, tuple) else last
        last.reshape(-1).view(np.uint32)[-1] ^= np.uint32(1)
        return results

    found = check_op(op, flipped, runs=1)
    assert found.verdict == "FAIL"
    assert "result" in found.detail


def test_no_awkward_length_is_left_out() -> None:
    cases = sequence(OPS["rms_norm"].sizes, 0, 200)
    assert {(case["n"], case.kind) for case in cases} >= {(n, kind) for n in LENGTHS for kind in KINDS}
    assert {1, 2, 3, 127, 128, 129, 300} <= set(LENGTHS)


def test_no_case_depends_on_the_cases_before_it() -> None:
    seen: list[bytes] = []

    def kernel(x: Any, w: Any, eps: float) -> Any:
        seen.append(x.tobytes() + w.tobytes())
        return rms_norm(x, w, eps)

    check_op("rms_norm", kernel, runs=5, seed=3)
    fifth = sequence(OPS["rms_norm"].sizes, 3, 5)[4]
    check_op("rms_norm", kernel, seed=3, case=str(fifth))
    assert seen[4] == seen[5]
    check_op("rms_norm", kernel, seed=4, case=str(fifth))
    assert seen[4] != seen[6]


def test_no_kernel_that_writes_into_its_arguments_passes() -> None:
    """Its result is right, and in an engine whatever else reads those rows is wrong."""

    def kernel(x: Any, w: Any, eps: float) -> Any:
        y = rms_norm(x, w, eps)
        x[...] = 0.0
        return y

    found = check_op("rms_norm", kernel, runs=20)
    assert found.verdict == "FAIL"
    assert "it wrote into argument 1 of 3" in found.detail


def test_no_kernel_can_write_into_the_expectation() -> None:
    def kernel(x: Any, w: Any, eps: float) -> Any:
        w[...] = 2.0
        return rms_norm(x, w, eps)

    assert check_op("rms_norm", kernel, runs=20).verdict == "FAIL"


HERE = "test_check_op.py:"


def raising(x: Any, w: Any) -> Any:
    raise ValueError("no such tile")


@pytest.mark.parametrize(
    ("kernel", "detail"),
    [
        (raising, f"the kernel raised ValueError: no such tile (tests/{HERE}"),
        (lambda x, w: x @ w.T.astype(np.float64), "Expected result of dtype float32 but got float64"),
        (lambda x, w: np.zeros((2, 7), np.float32), "Expected result of shape [1, 1] but got [2, 7]"),
        (lambda x, w: None, "Expected result to be an array but got NoneType: it is no array"),
        (lambda x, w: (x, w), "Expected 1 results ([rows, N]) but the kernel returned 2"),
    ],
)
def test_no_broken_kernel_is_a_traceback(kernel: Callable[..., Any], detail: str) -> None:
    found = check_op("linear", kernel)
    assert found.verdict == "FAIL"
    assert found.detail.startswith(detail)
    assert HERE in found.detail


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"name": "rmsnorm"}, "Expected an op among settle, "),
        ({"runs": 0}, "Expected at least one run"),
        ({"case": "rows=1"}, "Expected a case such as rows=1,n=1,kind=normal,draw=0 but got 'rows=1'"),
        ({"case": "rows=1,n=x,kind=normal,draw=0"}, "Expected a case such as"),
        ({"case": "rows=1,n=9999999,kind=normal,draw=0"}, "Expected sizes and a draw of at most 65536"),
        ({"framework": "jax"}, "Expected a framework among numpy, mlx, cupy, torch but got 'jax'"),
    ],
)
def test_no_argument_that_cannot_be_meant_runs(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        gnomon.check_op(keywords.pop("name", "rms_norm"), rms_norm, **keywords)


def test_no_absent_framework_passes() -> None:
    if find_spec("cupy") is not None:
        pytest.skip("CuPy is installed here")
    with pytest.raises(NotRunError, match=r"^Expected cupy for --framework cupy"):
        check_op("rms_norm", rms_norm, framework="cupy")


def test_no_mlx_array_is_lost_on_the_way() -> None:
    mx = pytest.importorskip("mlx.core")

    def add(x: Any, y: Any) -> Any:
        z = x + y
        return mx.where(mx.abs(z) < 2.0**-50, mx.array(0.0), z)

    found = check_op("add", add, framework="mlx")
    assert found.verdict == "PASS", found.text()
    wrong = check_op("add", lambda x, y: x - y, framework="mlx")
    assert wrong.replay.endswith(" --framework mlx")


@pytest.mark.peers
def test_no_torch_tensor_is_lost_on_the_way() -> None:
    torch = pytest.importorskip("torch")

    def add(x: Any, y: Any) -> Any:
        z = x + y
        return torch.where(z.abs() < 2.0**-50, torch.zeros(()), z)

    found = check_op("add", add, framework="torch")
    assert found.verdict == "PASS", found.text()


def test_no_unshrunk_case_goes_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    found = check_op("linear", lambda x, w: np.zeros((len(x), len(w)), np.float32))
    assert found.verdict == "FAIL"
    assert found.note == module.NOT_SHRUNK
    assert module.NOT_SHRUNK in found.text()


def test_no_exit_code_hides_a_failure(command: Command) -> None:
    words = ("linear", f"{KERNELS / 'tail.py'}:linear", "--runs", "20")
    code, out, _ = command(*words)
    assert (code, "to see it again: gnomon check-op linear" in out) == (1, True)
    code, out, _ = command(*words, "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "FAIL")
    code, out, _ = command("linear", f"{KERNELS / 'tail.py'}:linear_right", "--runs", "20")
    assert (code, out.startswith("PASS linear")) == (0, True)


def test_no_printed_command_shows_something_else(command: Command) -> None:
    _, first, _ = command("softmax", f"{KERNELS / 'nan.py'}:softmax")
    replay = shlex.split(first.strip().splitlines()[-1].partition("to see it again: ")[2])
    code, again, _ = command(*replay[2:])
    assert code == 1
    assert again.splitlines()[1:] == first.splitlines()[1:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("linear", "no_such_module:f"), "Expected a kernel at 'no_such_module:f' but importing it failed"),
        (("linear", "no_such_file.py:f"), "Expected a Python file at 'no_such_file.py' but nothing is found there"),
        (("linear", "numpy:no_such_function"), "there is no function 'no_such_function' in 'numpy'"),
        (("linear", "numpy"), "Expected a kernel as module:function"),
        (("linaer", "numpy:add"), "Expected an op among settle"),
        ((), "Expected an op and a kernel"),
    ],
)
def test_no_unusable_call_is_a_failure_of_the_kernel(command: Command, words: tuple[str, ...], message: str) -> None:
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_no_op_is_missing_from_the_list(command: Command) -> None:
    _, out, _ = command("--list")
    assert [line.partition("(")[0] for line in out.splitlines()] == list(OPS)
