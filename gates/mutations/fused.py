"""Fused kernels of the host engine, which a tap of everything opens and which run where nobody watches; and what shows
only under a cut of the prompt."""

from typing import Final

from gnomon.gates.mutations.mutation import ORACLE, REFERENCE, Mutation, these
from gnomon.gates.mutations.plans import Edit, kernels_edited

UNWATCHED = (
    "The fused kernel runs unwatched; under a tap of everything attention is composed of its steps, which are right. "
)

# By name, so that the tools that look for such faults can be tried on the same ones.
RECIPROCAL: Final[tuple[Edit, ...]] = (
    (
        "host_attention.h",
        "settle(F_DIV(settle(tot[i]), denom))",
        "settle(F_MUL(settle(tot[i]), F_DIV(1.0f, denom)))",
    ),
)
STRICT_MASK: Final[tuple[Edit, ...]] = (
    (
        "host_attention.h",
        "exp_positions(s + r * CHUNK, n, lo - start, p + 1 - start, m[r]);",
        "exp_positions(s + r * CHUNK, n, lo - start, p - start, m[r]);",
    ),
    ("host_attention_many.h", "seen.hi[i] = p + 1;", "seen.hi[i] = p;"),
)
STALE_CONVOLUTION: Final[tuple[Edit, ...]] = (
    (
        "recurrent.h",
        "const float past = row < 0 ? old[(size_t)(row + taps - 1) * C + c] : x[(size_t)row * C + c];",
        "const bool stale = row < 0 || (row == 0 && 0 < t && t < 3 && old[(size_t)(taps - 2) * C + c] != 0.0f);\n"
        "                const float past = stale ? old[(size_t)((row < 0 ? row : -1) + taps - 1) * C + c]"
        " : x[(size_t)row * C + c];",
    ),
)

MUTATIONS = (
    Mutation(
        "X60 fused_reciprocal", "fused attention multiplies by 1 / denom where it should divide", "kernel source",
        kernels_edited(*RECIPROCAL), *these({*ORACLE, *REFERENCE, "observer", "repeat"}),
        UNWATCHED + "Gates that run an engine with and without a tap see two engines in one; those that only run it "
        "without agree with themselves.",
        "blocks.0.attn.z, position 1", "planned", engine="host",
        corrected="repeat was held to be blind, but one of its runs is under a tap.",
    ),
    Mutation(
        "X61 convolution_stale_for_two_rows",
        "rows 2 and 3 of a step behind another read the last row of the state for their own first one", "kernel source",
        kernels_edited(*STALE_CONVOLUTION), *these({*REFERENCE, "chunk", "isolation", "batch", "speculative"}),
        "It takes a step of several rows behind another one: a prompt in one step and single rows never show it, so "
        "golden, incremental, repeat and observer are blind.",
        "blocks.2.delta.conv_out, position 5", "uneven", engine="host",
        corrected="incremental was held to fire, but its steps are of one row; isolation, batch, transcript, "
        "state-bytes and restore were held to be blind, and each of them has a step of several rows behind another.",
    ),
)  # fmt: skip
