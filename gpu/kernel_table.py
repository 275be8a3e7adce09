"""The kernels of every GPU target as one table: name, arguments, what is called, how many tasks, room of a group.

A group of 64 threads (or `parts` times 64) does one task. `kernel_units` turns the table into source text per target.
"""

from collections.abc import Callable

import numpy as np

from gnomon.gpu.host_build import kernel_number
from gnomon.gpu.host_device import GIVEN, INPUTS, RESULT
from gnomon.gpu.host_library import WEIGHT_FORMATS
from gnomon.gpu.kernel_types import LANES, Kernel, Sizes, arguments
from gnomon.reference.row_counts import chooses_by_rows

SEGMENT = kernel_number("rows.h", "SEGMENT")  # elements of one task of an elementwise op
CHUNK = 128
TILE_ROWS = chooses_by_rows("gpu.kernel_table.TILE_ROWS", 4)  # rows of one task of a linear, where there are so many
QUERIES = kernel_number("device_attention.h", "QUERIES")  # of one task of attention


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def segments(s: Sizes) -> int:
    return ceil(s["n"], SEGMENT)


def each_row(s: Sizes) -> int:
    return s["rows"]


def row_groups(s: Sizes) -> int:
    return s["rows"] * s["groups"]


def tiles(s: Sizes) -> int:
    """Of attention over `rows` rows of one sequence"""
    return s["kv_heads"] * ceil(s["rows"] * (s["heads"] // s["kv_heads"]), QUERIES)


def tile_chunks(s: Sizes) -> int:
    return tiles(s) * s["chunks"]


TABLE: dict[str, Kernel] = {}


def kernel(
    name: str,
    signature: str,
    tasks: Callable[[Sizes], int],
    function: str | None = None,
    values: str | None = None,
    parts: int = 1,
    room: int = 0,
    most: tuple[str, int] | None = None,
) -> None:
    """A row of the table; function: the name, values: the names of the arguments, where nothing else is said"""
    given = arguments(signature)
    named = values or ", ".join(a.name for a in given)
    TABLE[name] = Kernel(name, given, function or name, named, tasks, parts, room, most)


# --- elementwise ----------------------------------------------------------------------------------------------------
TWO = "const float* x, const float* y, float* out, int n"
for name in ("add", "mul", "swiglu"):
    kernel(name, TWO, segments)
for name, function in {
    "settle": "Settle", "exp_neg": "ExpNeg", "sigmoid": "Sigmoid", "silu": "Silu", "gelu_tanh": "GeluTanh",
    "softplus": "Softplus", "log1p01": "Log1p01",
}.items():  # fmt: skip
    kernel(name, "const float* x, float* out, int n", segments, f"map<{function}>")
kernel("round_bf16", "const float* x, float* out, int n", segments)
kernel("delta_decay", "const float* a, const float* neg_a, const float* bias, float* out, int n, int heads", segments)
kernel("slice", "const float* x, float* out, int n, int total, int offset, int size", segments)
kernel("mul_rows", TWO + ", int width, int stride, int at", segments)

# --- rows -----------------------------------------------------------------------------------------------------------
WIDE = 1024  # chunks of a row that a group has room for


def norm(name: str, inputs: str, scalars: str, tasks: Callable[[Sizes], int]) -> None:
    kernel(name, f"{inputs}, float* out, {scalars}", tasks, room=WIDE, most=("n", WIDE * CHUNK))


norm("row_sum", "const float* x", "int n", each_row)
norm("rms_norm", "const float* x, const float* w", "int n, float eps", row_groups)
norm("gated_norm", "const float* o, const float* w, const float* z", "int n, float eps", row_groups)
norm("layer_norm", "const float* x, const float* w, const float* b", "int n, float eps", each_row)
norm("l2_norm", "const float* x", "int n, float scale", row_groups)
kernel("gather", "const float* x, const i32* index, float* out, int width", each_row)
kernel(
    "rope", "const float* x, const float* cos, const float* sin, float* out, int heads, int d, int half",
    lambda s: s["rows"] * s["heads"],
)  # fmt: skip
kernel("quant_rows", "const float* x, float* q, float* scale, int n", each_row, room=LANES)
kernel(
    "route", "const float* logits, float* out, int experts, int top_k, int normalise", each_row, room=2048,
    most=("experts", 1024),
)  # fmt: skip

# --- weights --------------------------------------------------------------------------------------------------------
BIAS, RESIDUAL = 1, 2  # bits of `given`: which of the two arrays holds something


def linear(name: str, form: str, rows: int) -> None:
    """Tiles of `rows` rows, of which there must be as many; the int8 arm has scales and adds integers."""
    scales = form == "I8"
    kernel(
        name,
        f"const float* x, const u32* w, const float* bias, const float* residual, "
        f"{'const float* sx, const float* sw, ' if scales else ''}float* out, int rows, int K, int N, int given",
        lambda s: ceil(s["rows"], rows) * ceil(s["N"], LANES),
        f"linear_tile<{form}, {rows}, {'IntSum' if scales else 'FloatSum'}>",
        f"Linear{{x, w, given & {BIAS} ? bias : nullptr, given & {RESIDUAL} ? residual : nullptr, out, "
        f"{'sx, sw' if scales else 'nullptr, nullptr'}, rows, K, N}}",
        parts=8,
        room=rows * 8 * LANES,
    )


for form in WEIGHT_FORMATS:
    kernel(f"embed_{form}", "const u32* table, const i32* ids, float* out, int width", each_row, f"embed<{form}>")
for form in (*WEIGHT_FORMATS, "I8"):
    linear(f"linear_{form}", form, 1)
    linear(f"linear_{form}_rows", form, TILE_ROWS)

# --- states: `span` arguments are those of one sequence -------------------------------------------------------------
ROWS_OF = "span int start, span int stop, span int length"
CACHE = "span const u32* k, span const u32* v, span int capacity"
KV = "KV{(DEVICE u32*)k, (DEVICE u32*)v, capacity}"
STORED = {"f32": ("F32", "F32"), "bf16": ("BF16", "BF16"), "int8": ("Q8", "V8")}
WIDEST = 512  # entries of a head that a group has room for


def attention(
    name: str, arrays: str, tasks: Callable[[Sizes], int], form: str = "", parts: int = 1, room: int = 0
) -> None:
    """A kernel over the tiles of a sequence; arrays: what it reads and writes beside queries, keys and values"""
    passed = ", ".join(a.name for a in arguments(arrays))
    sizes = "int heads, int kv_heads, int d, int window, int chunks, float scale, int tiles"
    kernel(
        name if not form else f"{name}_{form}",
        f"const float* q, {CACHE}, {ROWS_OF}, {arrays}, {sizes}",
        tasks,
        name + {"": "", "f32": "<F32>", "bf16": "<BF16>", "int8": "<V8>" if name == "attention_mix" else "<Q8>"}[form],
        f"Attention{{q, {KV}, start, stop, length, heads, kv_heads, d, window, chunks, scale}}, {passed}, "
        "(size_t)span * tiles",
        parts,
        room,
        ("d", WIDEST),
    )


for storage, (fk, fv) in STORED.items():
    kernel(
        f"kv_append_{storage}",
        f"const float* x, const float* y, span inout u32* k, span inout u32* v, span int capacity, {ROWS_OF}, "
        "int kv_heads, int d",
        lambda s: s["rows"] * s["kv_heads"],
        f"kv_append<{fk}, {fv}>",
        f"x, y, {KV}, start, stop, length, kv_heads, d",
        room=LANES,
    )
    kernel(
        f"kv_append_tail_{storage}",
        "const float* x, const float* y, const u32* old_k, const u32* old_v, u32* k, u32* v, int capacity, int rows, "
        "int length, int base, int kv_heads, int d",
        lambda s: s["kv_heads"] * s["capacity"] // CHUNK,
        f"kv_append_tail<{fk}, {fv}>",
        f"x, y, KV{{(DEVICE u32*)old_k, (DEVICE u32*)old_v, capacity}}, {KV}, rows, length, base, kv_heads, d",
        room=LANES,
    )
    score_room = QUERIES * (WIDEST + CHUNK)
    attention("attention_scores", "float* scores, float* most", tile_chunks, storage, 2, score_room)
    partly = "const float* scores, const float* most, float* sums, float* mixes"
    attention("attention_mix", partly, tile_chunks, storage, 2, QUERIES * CHUNK)
    attention("tap_scores", "float* out", tile_chunks, storage, 2, score_room)
    kernel(
        f"tap_mix_{storage}",
        f"const float* e, const float* denom, {CACHE}, float* out, int heads, int kv_heads, int d, int T",
        lambda s: s["rows"] * s["heads"] * ceil(s["d"], LANES),
        f"tap_mix<{fv}>",
        f"e, denom, {KV}, out, heads, kv_heads, d, T",
    )
attention("attention_merge", "const float* sums, const float* mixes, float* out", tiles)
kernel(
    "tap_exp", "const float* s, float* e, int heads, int length, int window, int T", lambda s: s["rows"] * s["heads"],
    room=LANES,
)  # fmt: skip
kernel(
    "causal_conv",
    "const float* x, const float* w, span const float* old, span float* fresh, float* out, span int start, "
    "span int stop, int C, int taps",
    lambda s: ceil(s["C"], SEGMENT),
    "conv_span",
)
kernel(
    "delta_rule",
    "const float* q, const float* k, const float* v, const float* g, const float* beta, span const float* old, "
    "span float* fresh, float* out, span int start, span int stop, int key_heads, int value_heads, int dk, int dv",
    lambda s: s["value_heads"] * ceil(s["dv"], LANES),
    "delta_span",
    "Delta{q, k, v, g, beta, old, fresh, out, 0, key_heads, value_heads, dk, dv}, start, stop",
)

# --- single operations, for known answers ---------------------------------------------------------------------------
C_TYPES = {"float32": "float", "int32": "i32", "uint16": "u16"}
for name in INPUTS:
    given, result = (C_TYPES[types.get(name, np.float32).__name__] for types in (GIVEN, RESULT))
    four = ", ".join(f"const {given}* {which}" for which in ("first", "second", "third", "fourth"))
    kernel(f"probe_{name}", f"{four}, {result}* out, int n", segments)
