"""The kernels of every GPU target as one table: name, arguments, what is called, how many tasks, room of a group.

A group of 64 threads (or `parts` times 64) does one task. `kernel_units` turns the table into source text per target.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnomon.gpu.host_device import GIVEN, INPUTS, RESULT
from gnomon.gpu.host_library import WEIGHT_FORMATS
from gnomon.reference.errors import ModelError

LANES = 64  # threads of a part
SEGMENT = 512  # elements of one task of an elementwise op, as in kernels/rows.h
CHUNK = 128
TILE_ROWS = 4  # rows of one task of a linear, where there are so many
QUERIES = 4  # of one task of attention, as in kernels/device_attention.h
LEAST = 8  # elements that every array has room for: MLX moves a smaller one into another address space

Sizes = Mapping[str, int]
Role = Literal["in", "out", "inout", "scalar"]
C_TYPES = {"float32": "float", "int32": "i32", "uint16": "u16"}


@dataclass(frozen=True)
class Argument:
    """type: of a scalar, or of what a pointer points to; span: one per sequence of the step, not one for all"""

    name: str
    type: str
    role: Role
    span: bool = False

    @property
    def pointer(self) -> bool:
        return self.role != "scalar"


@dataclass(frozen=True)
class Kernel:
    """function, values: what is called with which arguments; task, part, room and lane follow

    tasks: groups, from the scalars by name and `rows`; of a kernel with span arguments, for the longest span
    parts: of 64 threads each; room: floats shared by a group; most: the largest value of a scalar that fits into them
    """

    name: str
    arguments: tuple[Argument, ...]
    function: str
    values: str
    tasks: Callable[[Sizes], int]
    parts: int = 1
    room: int = 0
    most: tuple[str, int] | None = None

    @property
    def threads(self) -> int:
        return LANES * self.parts

    @property
    def spans(self) -> bool:
        return any(a.span for a in self.arguments)

    def named(self, *roles: Role) -> list[Argument]:
        return [a for a in self.arguments if a.role in roles]

    def groups(self, sizes: Sizes) -> int:
        """How many groups to launch. Raises ModelError for a size that a group has no room for."""
        if self.most is not None and sizes[self.most[0]] > self.most[1]:
            name, limit = self.most
            raise ModelError(f"Expected {name} of {self.name} to be at most {limit} on a GPU but got {sizes[name]}")
        return self.tasks(sizes)


def arguments(signature: str) -> tuple[Argument, ...]:
    """From C declarations: `const T* x` is read, `T* x` written, `inout T* x` both; `span` stands before what every
    sequence has for itself."""
    out = []
    for text in signature.split(","):
        found = re.fullmatch(r"\s*(span )?(inout )?(const )?(\w+)(\*?) (\w+)\s*", text)
        if found is None:
            raise ValueError(f"Expected a declaration but got {text!r}")
        span, inout, const, kind, star, name = found.groups()
        role: Role = "scalar" if not star else "inout" if inout else "in" if const else "out"
        out.append(Argument(name, kind, role, bool(span)))
    return tuple(out)


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


# --- elementwise --------------------------------------------------------------------------------------------------------
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

# --- rows ---------------------------------------------------------------------------------------------------------------
WIDE = 1024  # chunks of a row that a group has room for
kernel("gather", "const float* x, const i32* index, float* out, int width", each_row)
kernel("row_sum", "const float* x, float* out, int n", each_row, room=WIDE, most=("n", WIDE * CHUNK))
kernel("rms_norm", "const float* x, const float* w, float* out, int n, float eps", row_groups, room=WIDE,
       most=("n", WIDE * CHUNK))  # fmt: skip
kernel("gated_norm", "const float* o, const float* w, const float* z, float* out, int n, float eps", row_groups, room=WIDE,
       most=("n", WIDE * CHUNK))  # fmt: skip
kernel("layer_norm", "const float* x, const float* w, const float* b, float* out, int n, float eps", each_row, room=WIDE,
       most=("n", WIDE * CHUNK))  # fmt: skip
kernel("l2_norm", "const float* x, float* out, int n, float scale", row_groups, room=WIDE, most=("n", WIDE * CHUNK))
kernel("rope", "const float* x, const float* cos, const float* sin, float* out, int heads, int d, int half",
       lambda s: s["rows"] * s["heads"])  # fmt: skip
kernel("quant_rows", "const float* x, float* q, float* scale, int n", each_row, room=LANES)
kernel("route", "const float* logits, float* out, int experts, int top_k, int normalise", each_row, room=2048,
       most=("experts", 1024))  # fmt: skip

# --- weights ------------------------------------------------------------------------------------------------------------
LINEAR = "const float* x, const u32* w, const float* bias, const float* residual"
GIVEN_BITS = "given & 1 ? bias : nullptr, given & 2 ? residual : nullptr"
BIAS, RESIDUAL = 1, 2  # bits of `given`: which of the two arrays holds something


def linear(name: str, format: str, rows: int, scales: bool) -> None:
    signature = f"{LINEAR}, {'const float* sx, const float* sw, ' if scales else ''}float* out, int rows, int K, int N, int given"
    values = f"Linear{{x, w, {GIVEN_BITS}, out, {'sx, sw' if scales else 'nullptr, nullptr'}, rows, K, N}}"
    function = f"linear_tile<{format}, {rows}, {'IntSum' if scales else 'FloatSum'}>"
    kernel(name, signature, lambda s: ceil(s["rows"], rows) * ceil(s["N"], LANES), function, values, 8, rows * 8 * LANES)


for format in WEIGHT_FORMATS:
    kernel(f"embed_{format}", "const u32* table, const i32* ids, float* out, int width", each_row, f"embed<{format}>")
for format in (*WEIGHT_FORMATS, "I8"):
    linear(f"linear_{format}", format, 1, format == "I8")
    linear(f"linear_{format}_rows", format, TILE_ROWS, format == "I8")

# --- states: `span` arguments are those of one sequence -----------------------------------------------------------------
ROWS_OF = "span int start, span int stop, span int length"
CACHE = "span const u32* k, span const u32* v, span int capacity"
KV = "KV{(DEVICE u32*)k, (DEVICE u32*)v, capacity}"
STORED = {"f32": ("F32", "F32"), "bf16": ("BF16", "BF16"), "int8": ("Q8", "V8")}
ATTENTION = f"const float* q, {CACHE}, {ROWS_OF}, int heads, int kv_heads, int d, int window, int chunks, float scale"
OVER = f"Attention{{q, {KV}, start, stop, length, heads, kv_heads, d, window, chunks, scale}}"
TILES = "(size_t)span * tiles"
WIDEST = ("d", 512)
SCORE_ROOM = QUERIES * (512 + CHUNK)

for storage, (fk, fv) in STORED.items():
    kernel(f"kv_append_{storage}", f"const float* x, const float* y, span inout u32* k, span inout u32* v, span int capacity, "
           f"{ROWS_OF}, int kv_heads, int d", lambda s: s["rows"] * s["kv_heads"], f"kv_append<{fk}, {fv}>",
           f"x, y, {KV}, start, stop, length, kv_heads, d", room=LANES)  # fmt: skip
    kernel(f"kv_append_tail_{storage}", "const float* x, const float* y, const u32* old_k, const u32* old_v, u32* k, u32* v, "
           "int capacity, int rows, int length, int base, int kv_heads, int d", lambda s: s["kv_heads"] * s["capacity"] // CHUNK,
           f"kv_append_tail<{fk}, {fv}>",
           f"x, y, KV{{(DEVICE u32*)old_k, (DEVICE u32*)old_v, capacity}}, {KV}, rows, length, base, kv_heads, d",
           room=LANES)  # fmt: skip
    kernel(f"attention_scores_{storage}", f"{ATTENTION}, float* scores, float* most, int tiles", tile_chunks,
           f"attention_scores<{fk}>", f"{OVER}, scores, most, {TILES}", 2, SCORE_ROOM, WIDEST)  # fmt: skip
    kernel(f"attention_mix_{storage}", f"{ATTENTION}, const float* scores, const float* most, float* sums, float* mixes, int tiles",
           tile_chunks, f"attention_mix<{fv}>", f"{OVER}, scores, most, sums, mixes, {TILES}", 2, QUERIES * CHUNK)  # fmt: skip
    kernel(f"tap_scores_{storage}", f"{ATTENTION}, float* out", tile_chunks, f"tap_scores<{fk}>", f"{OVER}, out", 2,
           SCORE_ROOM, WIDEST)  # fmt: skip
    kernel(f"tap_mix_{storage}", f"const float* e, const float* denom, {CACHE}, float* out, int heads, int kv_heads, int d, int T",
           lambda s: s["rows"] * s["heads"] * ceil(s["d"], LANES), f"tap_mix<{fv}>",
           f"e, denom, {KV}, out, heads, kv_heads, d, T")  # fmt: skip
kernel("attention_merge", f"{ATTENTION}, const float* sums, const float* mixes, float* out, int tiles", tiles,
       values=f"{OVER}, sums, mixes, out, {TILES}")  # fmt: skip
kernel("tap_exp", "const float* s, float* e, int heads, int length, int window, int T", lambda s: s["rows"] * s["heads"],
       room=LANES)  # fmt: skip
kernel("causal_conv", "const float* x, const float* w, span const float* old, span float* fresh, float* out, "
       "span int start, span int stop, int C, int taps", lambda s: ceil(s["C"], SEGMENT), "conv_span")  # fmt: skip
kernel("delta_rule", "const float* q, const float* k, const float* v, const float* g, const float* beta, span const float* old, "
       "span float* fresh, float* out, span int start, span int stop, int key_heads, int value_heads, int dk, int dv",
       lambda s: s["value_heads"] * ceil(s["dv"], LANES), "delta_span",
       "Delta{q, k, v, g, beta, old, fresh, out, 0, key_heads, value_heads, dk, dv}, start, stop")  # fmt: skip

# --- single operations, for known answers -------------------------------------------------------------------------------
for name in INPUTS:
    given, result = (C_TYPES[types.get(name, np.float32).__name__] for types in (GIVEN, RESULT))
    four = ", ".join(f"const {given}* {which}" for which in ("first", "second", "third", "fourth"))
    kernel(f"probe_{name}", f"{four}, {result}* out, int n", segments)
