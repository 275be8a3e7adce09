"""check-op on linear in its other forms: bf16 and int8, and weights handed over as a file stores them."""

import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon.compare import check_op as module
from gnomon.compare.check_op import check_op
from gnomon.compare.op_cases import KINDS
from gnomon.compare.op_forms import SCALES
from gnomon.reference.errors import UsageError

Command = Callable[..., tuple[int, str, str]]


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
