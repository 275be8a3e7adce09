"""Wrong mathematics: formulas, orders and roundings that are wrong in the same way each time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.faults import engines as broken
from gnomon.gates.faults.breaking import fault, on_call, on_result, put
from gnomon.gates.gate import AnyEngine, Fault
from gnomon.gates.mutations.mutation import NONE, REFERENCE, WRONG_MATHEMATICS, Mutation, only, these
from gnomon.reference.ops.bf16 import round_bf16
from gnomon.reference.ops.chunked import chunked_dot, chunked_sum
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.ops.settle import settle
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.widen import widen

Product = Callable[[F32, F32], F32]  # x [K, rows, 1], w [K, 1, N] -> [rows, N]
SEEN = "The numbers are wrong in the same way in every run, so that only another engine or the oracle can tell. "


def products(change: Product, at: str = "", when: Callable[[F32], bool] = lambda x: True) -> Fault:
    """Products with a named weight are formed by `change`, in the f32 arm; at: end of the names it concerns"""

    @fault
    def apply(engine: AnyEngine) -> None:
        ops, linear, stored = engine.ops, engine.ops.linear, engine.model.weights
        if ops.describe()["arm"] != "f32":
            return

        def wrapped(name: str, x: Any, w: Any, b: Any = None) -> Any:
            weight = stored.get("head.weight" if name == "logits" else f"{name}.weight")
            rows = ops.numpy(x)
            if weight is None or b is not None or not name.endswith(at) or not when(rows):
                return linear(name, x, w, b)
            return ops.array(change(rows.T[:, :, None], widen(weight).T[:, None]))

        put(ops, "linear", wrapped)

    return apply


def unsettled(x: F32, w: F32) -> F32:
    return chunked_dot(x, w)


def fused(x: F32, w: F32) -> F32:
    """Each product is exact in float64, so that only the sum is rounded."""
    acc = np.zeros(np.broadcast_shapes(x.shape[1:], w.shape[1:]), np.float32)
    for a, b in zip(x, w, strict=True):
        acc = (a.astype(np.float64) * b + acc).astype(np.float32)
    return settle(acc)


def backwards(x: F32, w: F32) -> F32:
    return settle(chunked_dot(x[::-1], w[::-1]))


def in_chunks_of_64(x: F32, w: F32) -> F32:
    parts = [chunked_dot(x[k : k + 64], w[k : k + 64]) for k in range(0, len(x), 64)]
    return settle(chunked_sum(np.stack(parts)))


def ten_bits(x: F32, w: F32) -> F32:
    """Factors are cut to a mantissa of ten bits, as tensor units do that are asked for float32."""
    cut = [(np.ascontiguousarray(side).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for side in (x, w)]
    return settle(chunked_dot(*cut))


@fault
def interleaved_pairs(engine: AnyEngine) -> None:
    """Each head is turned as if its pairs stood side by side."""
    heads_of, original = engine.model.config.head_dim, engine.ops.rope

    def rope(at: str, x: Any, rows: Rows, heads: int, tables: RopeTables) -> Any:
        if not at.startswith("blocks."):  # a known answer, which may have heads of another width
            return original(at, x, rows, heads, tables)
        own = engine.ops.numpy(x).reshape(len(rows.ids), heads, heads_of)
        order = np.r_[0:heads_of:2, 1:heads_of:2]
        y = original(
            at, engine.ops.array(np.ascontiguousarray(own[..., order]).reshape(len(own), -1)), rows, heads, tables
        )
        turned = engine.ops.numpy(y).reshape(own.shape)[..., np.argsort(order)]
        return engine.ops.array(np.ascontiguousarray(turned).reshape(len(own), -1))

    put(engine.ops, "rope", rope)


@fault
def frequencies_in_bf16(engine: AnyEngine) -> None:
    rope = engine.model.config.rope
    assert rope is not None
    engine.tables = RopeTables(rope.theta, rope.dim, rope.scaling)
    engine.tables.inv_freq = round_bf16(engine.tables.inv_freq)


@fault
def positions_in_bf16(engine: AnyEngine) -> None:
    def rounded(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        return (x, replace(rows, pos=round_bf16(rows.pos.astype(np.float32)).astype(np.int64)), *rest)

    on_call(engine, "rope", rounded)


@fault
def epsilon_outside(engine: AnyEngine) -> None:
    """1 / (sqrt(m) + eps), where the contract says 1 / sqrt(m + eps)."""

    def norm(y: F32, x: Any, w: Any, eps: float, groups: int = 1) -> F32:
        rows = engine.ops.numpy(x).reshape(len(y), groups, -1)
        m = chunked_sum(np.moveaxis(rows * rows, -1, 0)) / np.float32(rows.shape[-1])
        s = np.float32(1.0) / (np.sqrt(m) + np.float32(eps))
        return settle(settle(rows * s[..., None]) * engine.ops.numpy(w)).reshape(y.shape)

    on_result(engine, "rms_norm", norm)


@fault
def gain_plus_one(engine: AnyEngine) -> None:
    on_call(engine, "rms_norm", lambda x, w, *rest: (x, settle(engine.ops.numpy(w) + np.float32(1.0)), *rest))


@fault
def keys_truncated(engine: AnyEngine) -> None:
    """Keys and values stored as bf16 lose their lower half instead of being rounded."""

    def cut(x: Any) -> Any:
        bits = engine.ops.numpy(x).view(np.uint32) & np.uint32(0xFFFF0000)
        return engine.ops.array(bits.view(np.float32))

    if engine.ops.describe()["kv"] == "bf16":
        on_call(engine, "kv_append", lambda k, v, *rest: (cut(k), cut(v), *rest))


@fault
def weights_of_all(engine: AnyEngine) -> None:
    """The weights of the chosen experts are made to sum to one where the config does not ask for it."""
    on_call(engine, "route", lambda logits, top_k, normalise: (logits, top_k, True))


MUTATIONS = (
    Mutation(
        "M01 rope_pair_layout", "rope turns pairs that stand side by side", "op table", interleaved_pairs,
        *WRONG_MATHEMATICS, SEEN + "Position 0 is turned by nothing, so the first wrong row is that of position 1.",
        "blocks.0.attn.q_rot, position 1",
    ),
    Mutation(
        "M02 rope_frequency_lowprec", "frequencies of rope are rounded to bf16", "engine", frequencies_in_bf16,
        *WRONG_MATHEMATICS, SEEN + "The first frequency is 1 and stays; the others show from position 1 on.",
        "blocks.0.attn.q_rot, position 1",
    ),
    Mutation(
        "M02b rope_position_lowprec", "positions are rounded to bf16", "op table", positions_in_bf16, *only("shadow"),
        "Whole numbers up to 256 are exact in bf16; chunk alone runs a model further, and holds it against itself. The "
        "known answers of rope, which shadow puts to the op table, are at positions up to 131071.",
        "blocks.0.attn.q_rot, position 257", "far",
    ),
    Mutation(
        "M03 norm_epsilon_outside", "epsilon is added to the root", "op table", epsilon_outside, *WRONG_MATHEMATICS,
        SEEN + "The first norm is the first op after the embedding.", "blocks.0.ln1, position 0",
    ),
    Mutation(
        "M03b norm_gain_plus_one", "norms multiply by 1 + w", "op table", gain_plus_one, *WRONG_MATHEMATICS,
        SEEN, "blocks.0.ln1, position 0",
    ),
    Mutation(
        "M04 gqa_head_tile", "query head h reads key head h mod kv_heads", "op table", broken.tiled_heads,
        *WRONG_MATHEMATICS, SEEN + "Position 0 already has a score of its own key, and heads 1 and 2 take the other.",
        "blocks.0.attn.scores, position 0",
    ),
    Mutation(
        "M05 weight_square_transpose", "a square matrix is packed transposed", "engine",
        broken.transposed("blocks.0.attn.q.weight"), *WRONG_MATHEMATICS,
        SEEN + "No shape is wrong, and the stored weights, which the loader's gate looks at, are right.",
        "blocks.0.attn.q, position 0",
    ),
    Mutation(
        "M06 matmul_tail", "products end at a multiple of 16 terms", "op table", broken.tail_dropped,
        *WRONG_MATHEMATICS,
        SEEN + "No width of micro is such a multiple.", "blocks.0.attn.q, position 0",
    ),
    Mutation(
        "M07 multirow_path_differs", "products of more than 8 rows are of factors with ten bits", "op table",
        products(ten_bits, when=lambda x: len(x) > 8),
        *these({"golden", "shadow", "incremental", "chunk", "isolation", "batch", "state-bytes", "restore"}),
        "Prompts of 9 rows and more are wrong against reference and oracle. Cut into steps of up to 8 they are right: "
        "incremental, chunk (4,3,1,2,4), isolation (9 and 5 for 14) and batch (a prompt of 9 within 6 rows a step) see "
        "two paths. speculative and transcript never run more than 8 rows at once; repeat and observer run the same "
        "rows in every run.",
        "blocks.0.attn.q, position 0",
    ),
    Mutation(
        "M08 matmul_fma", "each product is fused with its sum", "op table", products(fused), *WRONG_MATHEMATICS,
        SEEN, "blocks.0.attn.q, position 0",
    ),
    Mutation(
        "M08b matmul_backwards", "each product is summed from its last term", "op table", products(backwards),
        *WRONG_MATHEMATICS, SEEN, "blocks.0.attn.q, position 0",
    ),
    Mutation(
        "M08c matmul_chunk_64", "products are summed in chunks of 64", "op table", products(in_chunks_of_64),
        *WRONG_MATHEMATICS, SEEN + "Only sums of more than 64 terms differ: the way back from 72 to 40.",
        "blocks.0.mlp.out, position 0",
    ),
    Mutation(
        "M10 cast_truncation", "keys and values are cut to bf16, not rounded", "op table", keys_truncated,
        *only("state-bytes"),
        "Of the gates only state-bytes runs bf16 storage to its numbers; restore has such a state refused. "
        "The known answers of bf16 storage are asked of a table of their own.",
        "blocks.0.kv.k, position 0", "bf16_kv",
    ),
    Mutation(
        "M11 nan_dropped", "NaN becomes 0 on its way", "op table", broken.drops_nan, *only("finite"),
        "On finite numbers nothing changes; only finite plants a NaN. The NaN that isolation puts into free memory is "
        "never read.", NONE,
    ),
    Mutation(
        "M15 router_softmax_scope", "the weights of the chosen experts are made to sum to one", "op table",
        weights_of_all, *these(REFERENCE),
        SEEN + "On a mixture of experts made from micro, since no model of the gates has one; so the oracle's bytes, "
        "which are of micro, stay right.", "blocks.0.mlp.probs, position 0", on="experts",
    ),
    Mutation(
        "X01 unsettled_product", "one product leaves values below 2^-50", "op table",
        products(unsettled, "blocks.0.attn.v"), *only("settled"),
        "Sums of ordinary numbers are never so small; the faint model of settled has them.", NONE,
    ),
    Mutation(
        "X02 shared_theta", "rope has twice the base, in the reference too", "both engines", broken.other_theta,
        *only("golden"), "A mistake that reference and engine share is seen by the oracle's bytes alone.",
        "blocks.0.attn.q_rot, position 1",
    ),
)  # fmt: skip
