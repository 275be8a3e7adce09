"""Code of a user that fails is theirs, in every verb: the sentence names the op, the place and their line."""

import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.cli import main
from gnomon.models import micro
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.own_code import OwnCodeError
from gnomon.reference.weights import Weight
from launched import mixture
from serving import serving

OWN = """
import sys
import numpy as np
import gnomon
from gnomon.reference.numpy_ops import NumpyOps

def changed(op, made):
    def make(model):
        engine = gnomon.engine("numpy", model)
        plain = getattr(engine.ops, op)
        setattr(engine.ops, op, lambda *args: made(plain, *args))
        return engine
    return make

def my_kernel(x):
    return x @ x[:, :7]  # of the kernel

raises = changed("rms_norm", lambda plain, at, x, *rest: my_kernel(x))
leaves = changed("linear", lambda plain, *args: sys.exit(0))
nothing = changed("rms_norm", lambda plain, *args: None)
wide = changed("linear", lambda plain, *args: plain(*args).astype(np.float64))
narrow = changed("linear", lambda plain, *args: plain(*args)[:, 1:])
flat = changed("scores", lambda plain, *args: plain(*args)[0])

class Packing(NumpyOps):
    def pack(self, weight):
        return weight.no_such_field  # of pack

def packs(model):
    return gnomon.Engine("own", model, Packing())

class Exporting(NumpyOps):
    def export_cache(self, state, i):
        raise RuntimeError("no way out")  # of export

def exports(model):
    return gnomon.Engine("own", model, Exporting())

def quits(model):
    sys.exit(0)  # of the factory
"""
ASK = ("micro", "--ids", "1,2,3")
VERBS = {
    "diff": ("diff", *ASK, "--steps", "1", "-e", "numpy"),
    "isolate": ("diff", *ASK, "--steps", "1", "--isolate", "-e", "numpy"),
    "bisect": ("bisect", *ASK, "-e", "numpy"),
    "trace": ("trace", *ASK, "--out", "made"),
    "run": ("run", *ASK),
    "digest": ("digest", *ASK),
    "bench": ("bench", "micro", "--seconds", "0.1"),
    "state": ("state", "export", *ASK, "-o", "made"),
    "transcript": ("transcript", "produce", *ASK, "-n", "2", "-o", "made"),
}  # fmt: skip
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """`gnomon` with some words, in a folder with own.py -> exit code, what it said"""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["gnomon", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        out, err = capsys.readouterr()
        assert "bug report" not in err
        assert "Traceback" not in err
        return left.value.code, out + err

    return run


def line(of: str) -> str:
    """own.py:N of the line that ends with a comment."""
    return f"own.py:{next(n for n, text in enumerate(OWN.splitlines(), 1) if text.endswith(f'# of {of}'))} in "


@pytest.mark.parametrize("verb", VERBS)
def test_no_kernel_that_raises_is_a_fault_of_gnomon(command: Command, verb: str) -> None:
    code, said = command(*VERBS[verb], "-e", "own.py:raises")
    assert code == 2
    assert "own.py:raises raised ValueError: matmul" in said
    assert "in rms_norm at blocks.0.ln1, step of positions 0 to " in said
    assert f"{line('the kernel')}my_kernel: return x @ x[:, :7]" in said
    assert not Path("made").exists()


@pytest.mark.parametrize("verb", [("selftest",), ("gate", "repeat")], ids=" ".join)
def test_a_kernel_that_raises_fails_where_verdicts_are_given(command: Command, verb: tuple[str, ...]) -> None:
    code, said = command(*verb, "-e", "own.py:raises")
    assert code == 1
    assert "own.py:raises raised ValueError: matmul" in said


@pytest.mark.parametrize("verb", VERBS)
def test_no_factory_that_exits_decides_the_verdict(command: Command, verb: str) -> None:
    code, said = command(*VERBS[verb], "-e", "own.py:quits")
    assert code == 2
    assert f"own.py:quits raised SystemExit: 0 (in making an engine; {line('the factory')}quits: sys.exit(0)" in said


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("leaves", "own.py:leaves raised SystemExit: 0 (in linear at blocks.0.attn.q, step of positions 0 to 2; own"),
        ("nothing", "returned NoneType where ndarray float32 [3, 40] is due (in rms_norm at blocks.0.ln1, step"),
        ("wide", "returned ndarray float64 [3, 40] where ndarray float32 [3, 40] is due (in linear at blocks.0"),
        ("narrow", "returned ndarray float32 [3, 39] where ndarray float32 [3, 40] is due (in linear at blocks.0"),
        ("flat", "where a list of arrays, one per sequence of the step is due (in scores at blocks.0.attn.scores,"),
        ("packs", f"(in pack at embed.weight; {line('pack')}pack: return weight.no_such_field"),
        ("exports", f"own raised RuntimeError: no way out (in export_cache; {line('export')}export_cache: raise "),
    ],
)  # fmt: skip
def test_no_wrong_result_of_an_op_goes_on(command: Command, factory: str, said: str) -> None:
    code, told = command(*VERBS["diff"], "-e", f"own.py:{factory}")
    assert (code, said in told) == (2, True), told


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("def f(:", 2, "raised SyntaxError: invalid syntax (bad.py, line 1) (in its import; bad.py:1: def f(:)"),
        ("import sys\nsys.exit(0)", 2, "raised SystemExit: 0 (in its import; bad.py:2: sys.exit(0))"),
        ("1 // 0", 2, "raised ZeroDivisionError: integer division or modulo by zero (in its import; bad.py:1: 1 // 0)"),
        ("import no_such_module", 3, "No module named 'no_such_module' (bad.py:1: import no_such_module)"),
        ("g = 1", 3, "there is no function 'f' in 'bad.py'"),
    ],
)
def test_no_module_that_fails_at_import_is_a_fault_of_gnomon(command: Command, text: str, code: int, said: str) -> None:
    Path("bad.py").write_text(text)
    for expected, verb in ((code, ("run", *ASK, "-e")), (2, ("check-op", "rms_norm"))):
        left, told = command(*verb, "bad.py:f")
        assert (left, said in told) == (expected, True), told


@pytest.mark.usefixtures("command")
def test_no_fault_of_gnomon_is_laid_on_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where an engine of the user's own runs it."""
    fails = types.FunctionType((lambda *args: 1 // 0).__code__, {"__name__": "gnomon.reference.ops.rms_norm"})
    monkeypatch.setattr("gnomon.reference.numpy_ops.rms_norm", fails)
    monkeypatch.setattr("sys.argv", ["gnomon", *VERBS["run"], "-e", "own.py:exports"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 4


def test_a_notebook_keeps_the_error_of_its_kernel() -> None:
    """The sentence, and what was raised as its cause; a kernel that was replaced later answers for itself as well."""
    engine = gnomon.engine("numpy", micro())
    engine.ops.silu = lambda at, x: x[:, ::2]  # type: ignore[method-assign]
    with pytest.raises(OwnCodeError, match=r"returned ndarray float32 \[2, .*in silu"):
        engine.forward([1, 2])
    engine.ops.silu = lambda at, x: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(OwnCodeError, match=r"test_own_code\.py") as caught:
        engine.forward([1, 2])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    state = engine.new()
    with pytest.raises(OwnCodeError):
        engine.forward([1, 2], state)
    assert state.length == 0


def test_a_kernel_of_another_framework_is_told_which_arrays_it_was_handed(command: Command) -> None:
    pytest.importorskip("mlx.core")
    one = ("--case", "n=1,kind=normal,draw=0")
    Path("k.py").write_text("import mlx.core as mx\n\ndef f(x):\n    return mx.sigmoid(x) * x.no_such\n")
    code, said = command("check-op", "silu", "k.py:f", *one)
    assert code == 1
    assert "k.py:4 in f: return mx.sigmoid(x) * x.no_such); it was handed NumPy arrays: --framework mlx hands" in said
    code, said = command("check-op", "silu", "k.py:f", *one, "--framework", "mlx")
    assert "--framework mlx hands" not in said


def test_a_node_whose_engine_is_the_users_own_says_that_it_failed(caplog: pytest.LogCaptureFixture) -> None:
    """Without the path of a file to the client; the log has the line. The node serves on."""
    engine, broken = gnomon.engine("numpy", micro()), [True]
    plain = engine.ops.silu
    engine.ops.silu = lambda at, x: 1 // 0 if broken else plain(at, x)  # type: ignore[method-assign]
    engine.name = "mine"
    with serving(engine) as client:
        asked = {"model": "micro", "prompt": [1, 2], "max_tokens": 2}
        answer = client.post("/v1/completions", json=asked)
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "engine"
        assert answer.json()["error"]["message"] == "The engine mine of this node failed; its log says where"
        assert "mine raised ZeroDivisionError" in caplog.text
        assert "test_own_code.py:" in caplog.text
        broken.clear()
        assert client.post("/v1/completions", json=asked).status_code == 200


PAGE = Path(__file__).parent.parent / "docs" / "check-op.md"
RECIPE = PAGE.read_text(encoding="utf-8").partition("<!-- recipe -->\n```python\n")[2].partition("```")[0]
KERNEL = """
import numpy as np

def my_linear(x, w):
    y = np.zeros((len(x), len(w)), np.float32)
    for first in range(0, x.shape[1], 128):
        acc = np.zeros_like(y)
        for i in range(first, min(first + 128, x.shape[1])):
            acc = acc + x[:, i, None] * w[None, :, i]{fault}
        y = y + acc
    return np.where(np.abs(y) < np.float32(2.0**-50), np.float32(0), y)
"""


@pytest.mark.parametrize(("fault", "verdict"), [("", "identical"), (" * np.float32(1 + 2**-23)", "differs")])
def test_the_recipe_from_a_kernel_to_an_engine_works_as_it_stands(command: Command, fault: str, verdict: str) -> None:
    Path("own.py").write_text(RECIPE)
    Path("my_kernels.py").write_text(KERNEL.replace("{fault}", fault))
    sys.modules.pop("my_kernels", None)  # of the other case
    code, said = command("check-op", "linear", "my_kernels.py:my_linear", "--runs", "30")
    assert code == (verdict == "differs"), said
    code, said = command(*VERBS["diff"], "-e", "own.py:make")
    assert code == (verdict == "differs"), said
    assert verdict in said
    if fault:
        assert "blocks.0.attn.q" in said
    for model in (mixture(), biased()):  # experts multiply as well, and a bias is added
        made = gnomon.engine("own.py:make", model)
        report = gnomon.diff(gnomon.engine("numpy", model), made, [3, 1, 2], 0)
        assert report.verdict == verdict, report.text()


def biased() -> Model:
    """A small model with biases of q, k and v."""
    config = replace(micro().config, qkv_bias=True, kinds=(), delta=None)
    rng, weights = np.random.default_rng(5), {}
    for name, spec in family(config.family).specs(config).items():
        data = rng.normal(size=spec.shape).astype("<f4").view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    assert any(name.endswith("bias") for name in weights)
    return Model("biased", config, weights)
