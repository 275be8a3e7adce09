"""The instructions of the op table as calls of kernels: which kernel, on what, with which sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.gpu.host_library import FORMATS
from gnomon.gpu.kernel_table import BIAS, RESIDUAL, TILE_ROWS
from gnomon.gpu.launch import DeviceArray
from gnomon.gpu.op import Op

Sizes = dict[str, Any]
Call = tuple[str, dict[str, DeviceArray], Sizes]  # kernel, arrays that are read, sizes


@dataclass(frozen=True)
class Given:
    """An instruction, how many rows its result has, and the small arrays of its step, by name"""

    op: Op[DeviceArray]
    rows: int
    here: Callable[[], Mapping[str, DeviceArray]]

    @property
    def x(self) -> DeviceArray:
        x = self.op.inputs[0]
        assert x is not None
        return x

    @property
    def y(self) -> DeviceArray:
        y = self.op.inputs[1]
        assert y is not None
        return y

    @property
    def all(self) -> int:
        return self.rows * self.op.width


def present(inputs: Sequence[DeviceArray | None]) -> list[DeviceArray]:
    """Of an op that has all of its inputs"""
    return [x for x in inputs if x is not None]


def one(g: Given) -> Call:
    return g.op.name, {"x": g.x}, {"n": g.all}


def two(g: Given) -> Call:
    return g.op.name, {"x": g.x, "y": g.y}, {"n": g.all}


def mul_rows(g: Given) -> Call:
    """n: which column of y [rows, any]"""
    return g.op.name, {"x": g.x, "y": g.y}, {"n": g.all, "width": g.op.width, "stride": g.y.shape[1], "at": g.op.n[0]}


def delta_decay(g: Given) -> Call:
    return g.op.name, {"a": g.x, "neg_a": g.op.weights[0], "bias": g.op.weights[1]}, {"n": g.all, "heads": g.op.width}


def slice_of(g: Given) -> Call:
    return g.op.name, {"x": g.x}, {"n": g.all, "total": g.op.n[1], "offset": g.op.n[2], "size": g.op.n[3]}


def gather(g: Given) -> Call:
    """The second input says which rows; without one, the last of each sequence."""
    index = g.op.inputs[1] if len(g.op.inputs) > 1 else None
    return g.op.name, {"x": g.x, "index": index or g.here()["select"]}, {"width": g.op.width}


def rms_norm(g: Given) -> Call:
    return g.op.name, {"x": g.x, "w": g.op.weights[0]}, {"n": g.op.n[0], "groups": g.op.n[1], "eps": g.op.f[0]}


def gated_norm(g: Given) -> Call:
    return (
        g.op.name,
        {"o": g.x, "w": g.op.weights[0], "z": g.y},
        {"n": g.op.n[0], "groups": g.op.n[1], "eps": g.op.f[0]},
    )


def layer_norm(g: Given) -> Call:
    return g.op.name, {"x": g.x, "w": g.op.weights[0], "b": g.op.weights[1]}, {"n": g.op.n[0], "eps": g.op.f[0]}


def l2_norm(g: Given) -> Call:
    return g.op.name, {"x": g.x}, {"n": g.op.n[0], "groups": g.op.n[1], "scale": g.op.f[0]}


def row_sum(g: Given) -> Call:
    return g.op.name, {"x": g.x}, {"n": g.op.n[0]}


def rope(g: Given) -> Call:
    here = g.here()
    return (
        g.op.name,
        {"x": g.x, "cos": here["cos"], "sin": here["sin"]},
        {"d": g.op.n[0], "heads": g.op.n[1], "half": g.op.n[2]},
    )


def route(g: Given) -> Call:
    return g.op.name, {"logits": g.x}, {"experts": g.op.n[0], "top_k": g.op.n[1], "normalise": g.op.n[2]}


def embed(g: Given) -> Call:
    ids = g.here()["ids" if g.op.name == "embed" else "positions"]
    return f"embed_{FORMATS[g.op.form]}", {"table": g.op.weights[0], "ids": ids}, {"width": g.op.width}


def linear(g: Given) -> Call:
    """An array that is not given may be any: `given` says which are."""
    _, residual, sx = g.op.inputs
    words, bias, sw = g.op.weights
    arrays = {"x": g.x, "w": words, "bias": bias or g.x, "residual": residual or g.x}
    if sx is not None:
        arrays |= {"sx": sx, "sw": sw}
    given = BIAS * (bias is not None) + RESIDUAL * (residual is not None)
    name = f"linear_{FORMATS[g.op.form]}" + "_rows" * (g.rows >= TILE_ROWS)
    return name, arrays, {"K": g.op.n[0], "N": g.op.n[1], "given": given}


ONE = ("settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus", "log1p01", "round_bf16")
CALLS: dict[str, Callable[[Given], Call]] = {
    **dict.fromkeys(ONE, one), **dict.fromkeys(("add", "mul", "swiglu"), two),
    "mul_rows": mul_rows, "delta_decay": delta_decay, "slice": slice_of, "gather": gather, "rms_norm": rms_norm,
    "gated_norm": gated_norm, "layer_norm": layer_norm, "l2_norm": l2_norm, "row_sum": row_sum, "rope": rope,
    "route": route, "embed": embed, "embed_positions": embed, "linear": linear,
}  # fmt: skip
