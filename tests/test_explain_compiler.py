"""What a real compiler makes with contraction on is explained as fused multiply-add; with it off, nothing differs."""

import ctypes
import platform
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gnomon.cli import main
from gnomon.compare.diff import diff
from gnomon.compare.explain import explain
from gnomon.compare.explain.tap import explain_divergence
from gnomon.compare.trace_write import write_trace
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle
from gnomon.reference.widen import widen
from planted_ops import values

F32 = NDArray[np.float32]
SOURCE = """
static float settle(float x) { return __builtin_fabsf(x) < 0x1p-50f ? 0.0f : x; }

extern "C" void linear(const float* x, const float* w, float* y, long rows, long N, long K) {
  for (long r = 0; r < rows; r++)
    for (long n = 0; n < N; n++) {
      float total = 0.0f;
      for (long start = 0; start < K; start += 128) {
        float acc = 0.0f;
        for (long i = start; i < K && i < start + 128; i++) acc += x[r * K + i] * w[n * K + i];
        total += acc;
      }
      y[r * N + n] = settle(total);
    }
}

extern "C" void rope(const float* x, const float* c, const float* s, float* y, long rows, long heads, long half) {
  for (long r = 0; r < rows; r++)
    for (long h = 0; h < heads; h++)
      for (long i = 0; i < half; i++) {
        long at = (r * heads + h) * 2 * half + i;
        float x1 = x[at], x2 = x[at + half], cos = c[r * half + i], sin = s[r * half + i];
        y[at] = settle(x1 * cos - x2 * sin);
        y[at + half] = settle(x2 * cos + x1 * sin);
      }
}
"""


def missing() -> str:
    """Why this cannot be tried here; "" where it can."""
    if which("g++") is None:
        return "no g++ here"
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"-mfma is for x86_64, this is {platform.machine()}"
    flags = Path("/proc/cpuinfo")
    return "" if flags.exists() and " fma " in flags.read_text() else "no processor with fused multiply-add found"


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it can be tried")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The code by the value of -ffp-contract."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "ops.cpp").write_text(SOURCE)
    for contract in ("fast", "off"):
        options = ["-O2", "-mfma", f"-ffp-contract={contract}", "-shared", "-fPIC", "-o", f"{contract}.so"]
        subprocess.run(["g++", *options, "ops.cpp"], cwd=folder, check=True, timeout=120)
    return {contract: ctypes.CDLL(str(folder / f"{contract}.so")) for contract in ("fast", "off")}


def call(function: Any, arrays: tuple[F32, ...], out: F32, *sizes: int) -> F32:
    arrays = tuple(np.ascontiguousarray(a) for a in (*arrays, out))
    function(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays), *(ctypes.c_long(n) for n in sizes))
    return arrays[-1]


def linear(library: Any, x: F32, w: F32) -> F32:
    return call(library.linear, (x, w), np.empty((len(x), len(w)), np.float32), len(x), len(w), x.shape[1])


@pytest.mark.parametrize("contract", ["fast", "off"])
def test_no_contraction_of_a_product_goes_without_its_name(compiled: dict[str, Any], contract: str) -> None:
    x, w = values(70, 5, 300), values(71, 20, 300)
    found = explain("linear", {"x": x, "w": w}, linear(compiled[contract], x, w))
    expected = ("explained", (("fused multiply-add",),)) if contract == "fast" else ("identical", ())
    assert (found.verdict, found.causes) == expected, found.text()


@pytest.mark.parametrize("contract", ["fast", "off"])
def test_no_contraction_of_a_rotation_goes_without_its_name(compiled: dict[str, Any], contract: str) -> None:
    x, pos, tables = values(72, 6, 3, 16), np.arange(3, 9), RopeTables(10000.0, 16)
    y = call(compiled[contract].rope, (x, *tables.at(pos)), np.empty_like(x), 6, 3, 8).reshape(6, 48)
    found = explain("rope", {"x": x.reshape(6, 48), "pos": pos}, y, {"heads": 3, "tables": tables})
    assert found.verdict == ("explained" if contract == "fast" else "identical"), found.text()
    assert all(name.startswith("fused multiply-add") for names in found.causes for name in names)


class Compiled(NumpyOps):
    """The reference, with one matrix product from the compiler."""

    def __init__(self, model: Model, at: str, library: Any) -> None:
        super().__init__()
        weight = "head.weight" if at == "logits" else f"{at}.weight"
        self.at, self.library, self.w = at, library, widen(model.weights[weight])

    def linear(self, at: str, x: F32, w: Handle, b: F32 | None = None) -> F32:
        return linear(self.library, x, self.w) if at == self.at else super().linear(at, x, w, b)


@pytest.fixture(params=["blocks.0.attn.k", "blocks.1.mlp.out", "logits"])
def engines(request: pytest.FixtureRequest, compiled: dict[str, Any]) -> tuple[str, Engine[F32], Engine[F32]]:
    """Where they differ; the reference; the same with that one product compiled with contraction."""
    model, at = micro(), request.param
    return at, Engine("numpy", model, NumpyOps()), Engine("compiled", model, Compiled(model, at, compiled["fast"]))


IDS = [1, 5, 9, 2, 77, 31, 8, 8, 40, 3, 11, 60]


def test_no_trace_of_compiled_code_goes_without_its_name(
    engines: tuple[str, Engine[F32], Engine[F32]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at, right, shadow = engines
    write_trace(right, IDS, tmp_path / "right")
    write_trace(shadow, IDS, tmp_path / "compiled", schedule="rows")
    words = ["gnomon", "explain", str(tmp_path / "right"), str(tmp_path / "compiled")]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    out = capsys.readouterr().out
    assert left.value.code == 1
    assert out.startswith(f"{at}: explained (linear, "), out
    assert "fused multiply-add: reproduces every byte" in out
    monkeypatch.setattr("sys.argv", [*words[:2], *reversed(words[2:])])  # the sides swapped: they differ all the same
    with pytest.raises(SystemExit) as left:
        main()
    out = capsys.readouterr().out
    assert left.value.code == 1
    assert "the observed one is as the contract gives it: swap them to explain the other" in out


def test_no_divergence_of_compiled_code_goes_without_its_name(engines: tuple[str, Engine[F32], Engine[F32]]) -> None:
    at, right, shadow = engines
    card = diff(right, shadow, IDS, steps=0).first_divergence
    assert card is not None
    found = explain_divergence(card, shadow, [IDS])
    assert (found.name, found.verdict, found.causes) == (at, "explained", (("fused multiply-add",),)), found.text()
