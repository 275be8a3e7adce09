"""Kernels on rows, as CUDA, HIP and Metal get them, run by the stand-in: no bit may differ from the reference, whatever
the size is to the tiles."""

from typing import Any

import numpy as np
import pytest

from cases import hard
from gnomon.compare.probe_short import short_probe
from gnomon.gpu.host_device import GIVEN, INPUTS, RESULT
from gnomon.gpu.kernel_table import TABLE
from gnomon.reference.device import Device
from gnomon.reference.errors import ModelError
from gnomon.reference.ops.add import add
from gnomon.reference.ops.bf16 import round_bf16
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.delta_gates import delta_decay
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.gated_norm import gated_norm
from gnomon.reference.ops.gelu_tanh import gelu_tanh
from gnomon.reference.ops.l2_norm import l2_norm
from gnomon.reference.ops.layer_norm import layer_norm
from gnomon.reference.ops.log1p01 import log1p01
from gnomon.reference.ops.mixture import route
from gnomon.reference.ops.mul import mul
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.rope import Rotation, rope
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.softplus import softplus
from kernels_on import F32, TARGETS, Array, On, assert_same, numbers, on

WIDTHS = (1, 64, 127, 128, 129, 700)  # on and off the chunk; the last takes more chunks than one
EPS = 1e-5
Case = tuple[str, dict[str, Array], str, dict[str, float], dict[str, F32]]


@pytest.fixture(params=TARGETS, scope="module")
def run(request: pytest.FixtureRequest) -> On:
    return on(request.param)


ONE_VALUE = {
    "settle": settle, "exp_neg": exp_neg, "sigmoid": sigmoid, "silu": silu, "gelu_tanh": gelu_tanh,
    "softplus": softplus, "log1p01": log1p01, "round_bf16": round_bf16,
}  # fmt: skip
TWO_VALUES = {"add": add, "mul": mul, "swiglu": lambda gate, up: mul(silu(gate), up)}
SIZES = (1, 511, 513, 1100)  # of a segment of 512


@pytest.mark.parametrize("name", ONE_VALUE)
def test_an_elementwise_kernel_changes_no_bit(run: On, name: str) -> None:
    for n in SIZES:
        x = numbers(n, seed=n)
        x = -np.abs(x) * 3 if name == "exp_neg" else np.minimum(np.abs(x), 1) if name == "log1p01" else x
        assert_same(run(name, {"x": x}, {"out": (n,)}, n=n)["out"], ONE_VALUE[name](x))


HARD = np.concatenate([hard.TO_ONES, hard.GELU_TO_ONES, hard.SMALL])


@pytest.mark.parametrize("name", ["settle", "sigmoid", "silu", "gelu_tanh", "softplus"])
def test_an_elementwise_kernel_changes_no_bit_of_the_hardest(run: On, name: str) -> None:
    """Divisors whose mantissa is all ones, and results at the floor of settling"""
    assert_same(run(name, {"x": HARD}, {"out": HARD.shape}, n=len(HARD))["out"], ONE_VALUE[name](HARD))


def test_rows_of_the_hardest_change_no_bit(run: On) -> None:
    x, w, n = hard.ROW[None], hard.GAIN, len(hard.ROW)
    sizes = {"rows": 1, "n": n, "eps": 4.0, "groups": 1}
    assert_same(run("rms_norm", {"x": x, "w": w}, {"out": x.shape}, **sizes)["out"], rms_norm(x, w, 4.0))
    pair, unit = hard.f32s(1, -1)[None] * hard.of_bits(hard.ROOT_TO_ONES[EPS]), np.ones(2, np.float32)
    made = run("layer_norm", {"x": pair, "w": unit, "b": 0 * unit}, {"out": (1, 2)}, rows=1, n=2, eps=EPS)
    assert_same(made["out"], layer_norm(pair, unit, 0 * unit, EPS))
    x = hard.QUANTA
    made = run("quant_rows", {"x": x}, {"q": x.shape, "scale": (len(x),)}, rows=len(x), n=x.shape[1])
    assert_same(made["q"], quant(x)[0].astype(np.float32))


@pytest.mark.parametrize("name", TWO_VALUES)
def test_a_kernel_of_two_values_changes_no_bit(run: On, name: str) -> None:
    for n in SIZES:
        x, y = numbers(n, seed=n), numbers(n, seed=n + 1)
        assert_same(run(name, {"x": x, "y": y}, {"out": (n,)}, n=n)["out"], TWO_VALUES[name](x, y))


@pytest.mark.parametrize("n", WIDTHS)
def test_norms_and_sums_change_no_bit(run: On, n: int) -> None:
    x, z = numbers(3, n, seed=n), numbers(3, n, seed=n + 1)
    w, b = numbers(n, seed=2), numbers(n, seed=3)
    pairs = {"x": x, "w": w}
    expected: dict[str, tuple[dict[str, Array], dict[str, float], F32]] = {
        "rms_norm": (pairs, {"eps": EPS, "groups": 1}, rms_norm(x, w, EPS)),
        "layer_norm": (pairs | {"b": b}, {"eps": EPS}, layer_norm(x, w, b, EPS)),
        "l2_norm": ({"x": x}, {"scale": 0.125, "groups": 1}, settle(l2_norm(x) * np.float32(0.125))),
        "gated_norm": ({"o": x, "w": w, "z": z}, {"eps": EPS, "groups": 1}, gated_norm(x, w, z, EPS)),
    }
    for name, (inputs, sizes, y) in expected.items():
        assert_same(run(name, inputs, {"out": (3, n)}, rows=3, n=n, **sizes)["out"], y)
    unscaled = run("l2_norm", {"x": x}, {"out": (3, n)}, rows=3, n=n, groups=1, scale=0.0)
    assert_same(unscaled["out"], l2_norm(x))
    assert_same(run("row_sum", {"x": x}, {"out": (3,)}, rows=3, n=n)["out"], chunked_sum(x.T))


@pytest.mark.parametrize("n", WIDTHS)
def test_quant_changes_no_bit(run: On, n: int) -> None:
    x = numbers(4, n, seed=n)
    x[1] = 0.0  # whose scale is 1
    made = run("quant_rows", {"x": x}, {"q": (4, n), "scale": (4,)}, rows=4, n=n)
    q, scale = quant(x)
    assert_same(made["q"], q.astype(np.float32))
    assert_same(made["scale"], scale)


@pytest.mark.parametrize(("heads", "d", "half"), [(3, 64, 32), (2, 70, 16), (1, 258, 129)])
def test_rope_changes_no_bit(run: On, heads: int, d: int, half: int) -> None:
    x, cos, sin = numbers(3, heads, d), numbers(3, half, seed=1), numbers(3, half, seed=2)
    sizes = {"rows": 3, "heads": heads, "d": d, "half": half}
    made = run("rope", {"x": x, "cos": cos, "sin": sin}, {"out": x.shape}, **sizes)
    assert_same(made["out"], rope(x, Rotation(cos, sin)))


@pytest.mark.parametrize(("experts", "top_k", "normalise"), [(4, 2, 0), (4, 2, 1), (130, 8, 1), (5, 5, 1)])
def test_route_changes_no_bit(run: On, experts: int, top_k: int, normalise: int) -> None:
    logits = numbers(3, experts)
    logits[1] = logits[1, 0]  # ties go by id
    sizes = {"rows": 3, "experts": experts, "top_k": top_k, "normalise": normalise}
    made = run("route", {"logits": logits}, {"out": logits.shape}, **sizes)
    assert_same(made["out"], route(logits, top_k, bool(normalise)))


def test_moving_rows_about_changes_no_bit(run: On) -> None:
    x, index = numbers(5, 70), np.array([4, 0, 0, 3], np.int32)
    assert_same(run("gather", {"x": x, "index": index}, {"out": (4, 70)}, rows=4, width=70)["out"], x[index])
    x = numbers(7, 3 * 100)  # 3 heads of 100 values, of which 30 .. 75 are cut out
    sizes = {"n": 7 * 3 * 45, "total": 100, "offset": 30, "size": 45}
    cut = x.reshape(7, 3, 100)[:, :, 30:75].reshape(7, -1)
    assert_same(run("slice", {"x": x}, {"out": (7, 135)}, **sizes)["out"], cut)


def test_gates_change_no_bit(run: On) -> None:
    a, neg_a, bias = numbers(90, 7), -np.abs(numbers(7, seed=1)), numbers(7, seed=2)
    made = run("delta_decay", {"a": a, "neg_a": neg_a, "bias": bias}, {"out": a.shape}, n=a.size, heads=7)
    assert_same(made["out"], delta_decay(a, neg_a, bias))
    x, y = numbers(9, 70), numbers(9, 3, seed=1)
    sizes = {"n": x.size, "width": 70, "stride": 3, "at": 2}
    assert_same(run("mul_rows", {"x": x, "y": y}, {"out": x.shape}, **sizes)["out"], mul(x, y[:, 2:]))


def probe_device(run: On) -> Device:
    """The operations of probe.h on a target, as `gnomon probe` asks for them"""

    def operation(name: str) -> Any:
        given, result = GIVEN.get(name, np.float32), RESULT.get(name, np.float32)

        def call(*arrays: Array) -> Array:
            four = [np.ascontiguousarray(a, given) for a in arrays] + [np.ascontiguousarray(arrays[0], given)] * 3
            inputs = dict(zip(("first", "second", "third", "fourth"), four, strict=False))
            return run(f"probe_{name}", inputs, {"out": four[0].shape}, n=four[0].size)["out"].astype(
                result, copy=False
            )

        return call

    return Device("stand-in", {name: operation(name) for name in INPUTS}, {})


def test_no_known_answer_is_missed(run: On) -> None:
    assert short_probe([probe_device(run)]) == []


def test_no_row_is_wider_than_the_room_of_its_group() -> None:
    with pytest.raises(ModelError, match="Expected n of rms_norm to be at most 131072 on a GPU but got 131073"):
        TABLE["rms_norm"].groups({"rows": 1, "groups": 1, "n": 131073})
