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
from gnomon.cli import main
from gnomon.cli.check_op import find
from gnomon.compare import check_op as module
from gnomon.compare.check_op import check_op
from gnomon.compare.op_cases import KINDS, read_case, sequence
from gnomon.compare.op_forms import SCALES
from gnomon.compare.op_table import LENGTHS, OPS
from gnomon.reference.errors import NotRunError, UsageError
from gnomon.reference.ops.rms_norm import rms_norm

KERNELS = Path(__file__).parent.parent / "docs" / "kernels"
SAMPLES = [  # op, file, function, what the smallest failing case holds
    ("linear", "tail", "linear", {"rows": 1, "N": 1, "K": 1}),
    ("scores", "heads", "scores", {"heads": "2x2", "rows": 1, "before": 0, "window": "none", "d": 2}),
    ("softmax", "nan", "softmax", {"rows": 1, "n": 1}),
]


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


def test_no_kernel_can_write_into_the_expectation() -> None:
    def kernel(x: Any, w: Any, eps: float) -> Any:
        y = rms_norm(x, w, eps)
        x[...] = 0.0
        return y

    assert check_op("rms_norm", kernel, runs=20).verdict == "PASS"


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


def bf16(values: Any) -> Any:
    """To the nearest bf16, ties to even, by way of the two neighbours in float64."""
    low = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    high = (values.view(np.uint32) + np.uint32(0x10000) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    wide = values.astype(np.float64)
    odd = (values.view(np.uint32) >> 16 & 1).astype(bool)
    up = (np.abs(high - wide) < np.abs(wide - low)) | ((np.abs(high - wide) == np.abs(wide - low)) & odd)
    return np.where(np.isnan(values), values, np.where(up, high, low).astype(np.float32))


def settled(x: Any) -> Any:
    return np.where(np.abs(x) < np.float32(2.0**-50), np.float32(0), x).astype(np.float32)


def dots(x: Any, w: Any, b: Any = None) -> Any:
    """The contract's product, term by term."""
    y = np.zeros((len(x), len(w)), np.float32)
    for chunk in range(0, x.shape[1], 128):
        acc = np.zeros_like(y)
        for i in range(chunk, min(chunk + 128, x.shape[1])):
            acc = acc + x[:, i, None] * w[None, :, i]
        y = y + acc
    return settled(y) if b is None else settled(settled(y) + b)


def in_bf16(x: Any, w: Any, b: Any = None) -> Any:
    assert w.dtype == np.uint16
    return dots(bf16(x), (w.astype(np.uint32) << 16).view(np.float32), b)


def in_int8(x: Any, q: Any, s: Any, b: Any = None) -> Any:
    assert q.dtype == np.int8
    sx = settled(np.abs(x).max(axis=-1) / np.float32(127))
    sx = np.where(sx == 0, np.float32(1), sx)
    xq = np.nan_to_num(np.rint(x / sx[:, None])).astype(np.int64)
    y = settled((xq @ q.T.astype(np.int64)).astype(np.float32) * sx[:, None] * s)
    return y if b is None else settled(y + b)


def f16(w: Any, at: int) -> Any:
    """The f16 at a byte of every block: [N, K / values]"""
    return np.ascontiguousarray(w[:, :, at : at + 2]).view("<f2")[..., 0].astype(np.float32)


def simple(w: Any, i: int, quants: int, high: int = 0) -> Any:
    """Value i of 32: its nibble, and its fifth bit where there are high bits."""
    q = (w[:, :, quants + i % 16] >> (0 if i < 16 else 4)) & 15
    return q | ((w[:, :, high + i // 8] >> (i % 8) & 1) << 4) if high else q


def k_value(w: Any, i: int, high: int = 0) -> Any:
    """Value i of 256 of Q4_K, or of Q5_K with its high bits."""
    j, s = i // 32, w[:, :, 4:16].astype(np.int64)
    sc = s[..., j] & 63 if j < 4 else (s[..., j + 4] & 15) | (s[..., j - 4] >> 6) << 4
    mn = s[..., j + 4] & 63 if j < 4 else (s[..., j + 4] >> 4) | (s[..., j] >> 6) << 4
    q = w[:, :, (48 if high else 16) + 32 * (i // 64) + i % 32] >> (0 if i % 64 < 32 else 4) & 15
    q = q | ((w[:, :, high + i % 32] >> j & 1) << 4) if high else q
    return (f16(w, 0) * sc.astype(np.float32)) * q.astype(np.float32) - f16(w, 2) * mn.astype(np.float32)


def q6_k(w: Any, i: int) -> Any:
    half, t, n = i // 128, i % 128 // 32, i % 32
    low = w[:, :, 64 * half + (32 * t + n) % 64] >> (0 if t < 2 else 4) & 15
    q = (low | (w[:, :, 128 + 32 * half + n] >> (2 * t) & 3) << 4).astype(np.float32) - np.float32(32)
    scale = w[:, :, 192 + 8 * half + 2 * t + n // 16].view(np.int8).astype(np.float32)
    return (f16(w, 208) * scale) * q


F = np.float32
# Type -> values of a block, and value i of every block: as docs/check-op.md lays them out.
LAYOUT: dict[str, tuple[int, Callable[[Any, int], Any]]] = {
    "Q8_0": (32, lambda w, i: f16(w, 0) * w[:, :, 2 + i].view(np.int8).astype(F)),
    "Q4_0": (32, lambda w, i: f16(w, 0) * (simple(w, i, 2).astype(F) - F(8))),
    "Q4_1": (32, lambda w, i: f16(w, 0) * simple(w, i, 4).astype(F) + f16(w, 2)),
    "Q5_0": (32, lambda w, i: f16(w, 0) * (simple(w, i, 6, 2).astype(F) - F(16))),
    "Q5_1": (32, lambda w, i: f16(w, 0) * simple(w, i, 8, 4).astype(F) + f16(w, 2)),
    "Q4_K": (256, k_value),
    "Q5_K": (256, lambda w, i: k_value(w, i, 16)),
    "Q6_K": (256, q6_k),
    "F16": (1, lambda w, i: f16(w, 0)),
    "BF16": (1, lambda w, i: (np.ascontiguousarray(w).view("<u2")[..., 0].astype(np.uint32) << 16).view(F)),
}


def stored(weights: str, swap: bool = False) -> Any:
    """A kernel for weights as they are stored. swap: with the halves of a block in the wrong order"""
    size, value = LAYOUT[weights]

    def kernel(x: Any, w: Any, b: Any = None) -> Any:
        order = [(i + size // 2) % size if swap else i for i in range(size)]
        return dots(x, settled(np.stack([value(w, i) for i in order], axis=-1)).reshape(len(w), -1), b)

    return kernel


def quantised(w: Any) -> tuple[Any, Any]:
    """Q4_0 blocks, widened and settled, then quantised row by row."""
    wide = settled(np.stack([LAYOUT["Q4_0"][1](w, i) for i in range(32)], axis=-1)).reshape(len(w), -1)
    s = settled(np.abs(wide).max(axis=-1) / np.float32(127))
    s = np.where(s == 0, np.float32(1), s)
    return np.rint(wide / s[:, None]).astype(np.int8), s


FORMS = [  # op, arm, weights, kernel
    ("linear", "bf16", "", in_bf16),
    ("linear_bias", "bf16", "", in_bf16),
    ("linear", "int8", "", in_int8),
    ("linear_bias", "int8", "", in_int8),
    *(("linear", "f32", weights, stored(weights)) for weights in LAYOUT),
    ("linear_bias", "f32", "Q8_0", stored("Q8_0")),
    ("linear", "int8", "Q4_0", lambda x, w: in_int8(x, *quantised(w))),
]


@pytest.mark.parametrize(("op", "arm", "weights", "kernel"), FORMS)
def test_no_right_kernel_of_another_form_fails(op: str, arm: str, weights: str, kernel: Any) -> None:
    found = check_op(op, kernel, arm=arm, weights=weights, runs=28)
    assert found.verdict == "PASS", found.text()
    assert found.kinds.keys() == set(KINDS)
    assert (f" arm={arm}" in found.text(), f" weights={weights}" in found.text()) == (arm != "f32", weights != "")


@pytest.mark.parametrize(
    ("arm", "weights", "kernel"),
    [
        ("f32", "Q4_0", stored("Q4_0", swap=True)),  # nibbles in the wrong order
        ("f32", "Q8_0", lambda x, w: stored("Q8_0")(x, np.where(np.arange(34) < 2, w, w & 127))),  # signs lost
        ("bf16", "", lambda x, w: dots(x, (w.astype(np.uint32) << 16).view(np.float32))),  # the row not rounded
        ("int8", "", lambda x, q, s: in_int8(x, q, np.ones_like(s))),
    ],
)
def test_no_wrong_kernel_of_another_form_passes(
    command: Command, monkeypatch: pytest.MonkeyPatch, arm: str, weights: str, kernel: Any
) -> None:
    """And the line that is printed shows the same again."""
    monkeypatch.setattr(module, "SHRINK_TRIES", 20)
    found = check_op("linear", kernel, arm=arm, weights=weights, kernel_name="k.py:f")
    assert found.verdict == "FAIL"
    monkeypatch.setattr("gnomon.cli.check_op.find", lambda name: kernel)
    code, out, _ = command(*shlex.split(found.replay)[2:])
    assert code == 1
    assert found.detail.splitlines()[0] in out


def test_no_stored_type_is_left_out() -> None:
    assert set(SCALES) == set(LAYOUT)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"name": "add", "arm": "int8"}, "Expected linear or linear_bias for --arm int8"),
        ({"name": "linear", "arm": "int4"}, "Expected arm to be one of f32, bf16, int8 but got 'int4'"),
        ({"name": "linear", "weights": "Q3_K"}, "Expected weights to be one of Q8_0, "),
        (
            {"name": "linear", "weights": "Q8_0", "case": "rows=1,N=1,K=33,kind=normal,draw=0"},
            "Expected K to be a multiple of 32 for Q8_0 but got K=33",
        ),
    ],
)
def test_no_form_that_there_is_not_is_checked(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        check_op(keywords.pop("name"), in_bf16, **keywords)
    assert message in str(error.value)
