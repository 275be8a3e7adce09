"""Mutants: the reference with one method changed, in one of the ways that kernels go wrong.

MUTANTS lists them by name with the op whose cases must see the fault. SOUND lists rewritings that are no
fault and that no case may see: they show that a mutant dies of its fault and not of the way it is written.
"""

import numpy as np

from gnomon.reference.ops.chunked import chunked_dot
from gnomon.reference.ops.rope import rope
from gnomon.reference.ops.settle import settle
from mutants import attention, linear, rowwise
from mutants.linear import Change

MUTANTS: dict[str, tuple[str, Change]] = {
    "fused multiply-add": ("linear", linear.linear_with(linear.fused)),
    "terms backwards": ("linear", linear.linear_with(linear.backwards)),
    "one running sum": ("linear", linear.linear_with(linear.one_running_sum)),
    "chunks backwards": ("linear", linear.linear_with(linear.chunks_backwards)),
    "pairwise sum": ("linear", linear.linear_with(linear.pairwise)),
    "float64 sum": ("linear", linear.linear_with(linear.float64)),
    "tail dropped": ("linear", linear.linear_with(linear.tail_dropped)),
    "products settled": ("linear", linear.linear_with(linear.flushed_products)),
    "weights not settled": ("linear", linear.linear_with(chunked_dot, np.array)),
    "bias before settle": ("linear", linear.bias_with(lambda dot, b: settle(dot + b))),
    "linear not settled": ("linear", linear.bias_with(lambda dot, b: dot + b)),
    "exp with fma": ("exp_neg", rowwise.elementary_with(exp_neg=rowwise.horner(rowwise.fma))),
    "exp ends early": ("exp_neg", rowwise.elementary_with(exp_neg=rowwise.horner(rowwise.plain, -34.0))),
    "exp ends late": ("exp_neg", rowwise.elementary_with(exp_neg=rowwise.horner(rowwise.plain, -34.50001))),
    "library exp": ("exp_neg", rowwise.elementary_with(exp_neg=np.exp)),
    "sigmoid as a quotient": ("sigmoid", rowwise.elementary_with(sigmoid=rowwise.quotient_sigmoid)),
    "library log1p": ("softplus", rowwise.elementary_with(softplus=rowwise.library_softplus)),
    "floor flushed": ("settle", rowwise.elementary_with(settle=rowwise.floor_flushed)),
    "negative zero kept": ("settle", rowwise.elementary_with(settle=rowwise.sign_kept)),
    "add not settled": ("add", rowwise.row_op("add", np.add)),
    "mul not settled": ("mul", rowwise.row_op("mul", np.multiply)),
    "silu as a quotient": ("silu", rowwise.row_op("silu", rowwise.quotient_silu)),
    "swiglu not settled inside": (
        "swiglu",
        rowwise.row_op("swiglu", rowwise.swiglu_settled_once),
    ),
    "mean by a reciprocal": ("rms_norm", rowwise.norm(rowwise.reciprocal_of_n, rowwise.usual_finish)),
    "root rounded once": ("rms_norm", rowwise.norm(rowwise.exact_root, rowwise.usual_finish)),
    "eps outside the root": ("rms_norm", rowwise.norm(rowwise.eps_outside, rowwise.usual_finish)),
    "division by the root": (
        "rms_norm",
        rowwise.norm(rowwise.root, rowwise.divided),
    ),
    "norm not settled inside": (
        "rms_norm",
        rowwise.norm(rowwise.usual_scale, rowwise.settled_once),
    ),
    "gain joins the scale": (
        "rms_norm",
        rowwise.norm(rowwise.usual_scale, rowwise.gain_first),
    ),
    "norm over all groups": ("rms_norm", {"rms_norm": rowwise.all_groups}),
    "interleaved pairs": ("rope", rowwise.rotated_with(rowwise.interleaved)),
    "float32 cosine": ("rope", rowwise.rotated_with(rope, rowwise.float32_table)),
    "float64 angle": ("rope", rowwise.rotated_with(rope, rowwise.float64_angle)),
    "rope turned back": (
        "rope",
        rowwise.rotated_with(rowwise.turned_back),
    ),
    "window one wider": ("attention", attention.wider_by(1)),
    "window one narrower": ("attention", attention.wider_by(-1)),
    "sees the future": ("attention", attention.seeing(attention.future)),
    "head map h mod Hkv": ("attention", {"scores": attention.tiled_heads}),
    "scale before the dot": ("attention", {"scores": attention.scale_first}),
    "maximum over unseen positions": ("attention", {"exp_scores": attention.maximum_of_all}),
    "library exp in attention": ("attention", {"exp_scores": attention.library_exp}),
    "denominator not chunked": ("attention", {"denom": attention.plain_sum}),
    "chunks from the window on": ("attention", {"denom": attention.relative_chunks}),
    "probabilities before the sum": ("attention", {"mix": attention.probabilities_first}),
    "first row of a span": ("select", rowwise.row_op("select", rowwise.first_row)),
    "rows in the order of ids": ("embed", rowwise.row_op("embed", lambda rows, w: w[np.sort(rows.ids)])),
}

SOUND: dict[str, tuple[str, Change]] = {
    "plain matrices": ("linear", linear.linear_with(chunked_dot)),
    "other ending": ("linear", linear.bias_with(lambda dot, b: settle(settle(dot) + b))),
    "exp by ldexp": ("exp_neg", rowwise.elementary_with(exp_neg=rowwise.horner(rowwise.plain))),
    "norm in parts": ("rms_norm", rowwise.norm(rowwise.usual_scale, rowwise.usual_finish)),
    "rotation": ("rope", rowwise.rotated_with(rope)),
    "same window": ("attention", attention.wider_by(0)),
}

__all__ = ["MUTANTS", "SOUND", "Change"]
