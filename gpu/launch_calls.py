"""The instructions of the op table as calls of kernels: which kernel, on what, with which sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.gpu.host_library import FORMATS
from gnomon.gpu.kernel_table import BIAS, RESIDUAL, TILE_ROWS
from gnomon.gpu.launch import DeviceArray

Sizes = dict[str, Any]
Call = tuple[str, dict[str, DeviceArray], Sizes]  # kernel, arrays that are read, sizes


@dataclass(frozen=True)
class Given:
    """An instruction (host_ops.py) whose result is [rows, width]; here: small arrays of the step, by name"""

    op: str
    inputs: Sequence[DeviceArray | None]
    rows: int
    width: int
    n: Sequence[int]
    f: Sequence[float]
    weights: Sequence[Any]
    form: int
    here: Callable[[], Mapping[str, DeviceArray]]

    @property
    def x(self) -> DeviceArray:
        x = self.inputs[0]
        assert x is not None
        return x

    @property
    def y(self) -> DeviceArray:
        y = self.inputs[1]
        assert y is not None
        return y

    @property
    def all(self) -> int:
        return self.rows * self.width


def one(g: Given) -> Call:
    return g.op, {"x": g.x}, {"n": g.all}


def two(g: Given) -> Call:
    return g.op, {"x": g.x, "y": g.y}, {"n": g.all}


def mul_rows(g: Given) -> Call:
    """n: which column of y [rows, any]"""
    return g.op, {"x": g.x, "y": g.y}, {"n": g.all, "width": g.width, "stride": g.y.shape[1], "at": g.n[0]}


def delta_decay(g: Given) -> Call:
    return g.op, {"a": g.x, "neg_a": g.weights[0], "bias": g.weights[1]}, {"n": g.all, "heads": g.width}


def slice_of(g: Given) -> Call:
    return g.op, {"x": g.x}, {"n": g.all, "total": g.n[1], "offset": g.n[2], "size": g.n[3]}


def gather(g: Given) -> Call:
    """The second input says which rows; without one, the last of each sequence."""
    index = g.inputs[1] if len(g.inputs) > 1 else None
    return g.op, {"x": g.x, "index": index or g.here()["select"]}, {"width": g.width}


def rms_norm(g: Given) -> Call:
    return g.op, {"x": g.x, "w": g.weights[0]}, {"n": g.n[0], "groups": g.n[1], "eps": g.f[0]}


def gated_norm(g: Given) -> Call:
    return g.op, {"o": g.x, "w": g.weights[0], "z": g.y}, {"n": g.n[0], "groups": g.n[1], "eps": g.f[0]}


def layer_norm(g: Given) -> Call:
    return g.op, {"x": g.x, "w": g.weights[0], "b": g.weights[1]}, {"n": g.n[0], "eps": g.f[0]}


def l2_norm(g: Given) -> Call:
    return g.op, {"x": g.x}, {"n": g.n[0], "groups": g.n[1], "scale": g.f[0]}


def row_sum(g: Given) -> Call:
    return g.op, {"x": g.x}, {"n": g.n[0]}


def rope(g: Given) -> Call:
    here = g.here()
    return g.op, {"x": g.x, "cos": here["cos"], "sin": here["sin"]}, {"d": g.n[0], "heads": g.n[1], "half": g.n[2]}


def route(g: Given) -> Call:
    return g.op, {"logits": g.x}, {"experts": g.n[0], "top_k": g.n[1], "normalise": g.n[2]}


def embed(g: Given) -> Call:
    ids = g.here()["ids" if g.op == "embed" else "positions"]
    return f"embed_{FORMATS[g.form]}", {"table": g.weights[0], "ids": ids}, {"width": g.width}


def linear(g: Given) -> Call:
    """An array that is not given may be any: `given` says which are."""
    _, residual, sx = g.inputs
    words, bias, sw = g.weights
    arrays = {"x": g.x, "w": words, "bias": bias or g.x, "residual": residual or g.x}
    if sx is not None:
        arrays |= {"sx": sx, "sw": sw}
    given = BIAS * (bias is not None) + RESIDUAL * (residual is not None)
    name = f"linear_{FORMATS[g.form]}" + "_rows" * (g.rows >= TILE_ROWS)
    return name, arrays, {"K": g.n[0], "N": g.n[1], "given": given}


ONE = ("settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus", "log1p01", "round_bf16")
CALLS: dict[str, Callable[[Given], Call]] = {
    **dict.fromkeys(ONE, one), **dict.fromkeys(("add", "mul", "swiglu"), two),
    "mul_rows": mul_rows, "delta_decay": delta_decay, "slice": slice_of, "gather": gather, "rms_norm": rms_norm,
    "gated_norm": gated_norm, "layer_norm": layer_norm, "l2_norm": l2_norm, "row_sum": row_sum, "rope": rope,
    "route": route, "embed": embed, "embed_positions": embed, "linear": linear,
}  # fmt: skip
