"""The host engine: its plan edited after it was recorded, its kernels edited before they are compiled."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from gnomon.gates.faults.breaking import fault, put
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.gates.mutations.mutation import ORACLE, REFERENCE, WRONG_MATHEMATICS, Mutation, these
from gnomon.gpu.host_array_ops import OUT, HostArrayOps
from gnomon.gpu.host_build import Built, build, kernel_sources
from gnomon.gpu.host_engine import HostEngine
from gnomon.gpu.host_library import OPS, Instruction, Team, included, main_source, typed

Edit = tuple[str, str, str]  # file, text, text in its place
SLOW = ("-O0",)  # bytes hang on no optimisation; compiling does
PLANNED = "Under a tap of everything the host runs op by op, which is right; a plan runs where nobody watches. "


def plan_edited(change: Callable[[Any], None]) -> Fault:
    """The instructions of every plan are changed once it is recorded."""

    @fault
    def apply(engine: AnyEngine) -> None:
        record = getattr(engine, "_record")  # noqa: B009

        def edited(want: Any) -> Any:
            plan = record(want)
            change(plan.instructions)
            return plan

        put(engine, "_record", edited)

    return apply


def of_kind(instructions: Any, op: str, n: int) -> int:
    """Index of the n-th instruction of an op."""
    return [i for i, one in enumerate(instructions) if one.op == OPS.index(op)][n]


def reads_the_residual(instructions: Any) -> None:
    """The second linear, the keys of layer 0, reads what the norm before it read."""
    norm, keys = (instructions[of_kind(instructions, op, n)] for op, n in (("rms_norm", 0), ("linear", 1)))
    keys.buffer[0] = norm.buffer[0]


def barrier_missing(instructions: Any) -> None:
    """Without its barrier the second norm may run before the linear whose result it reads, and here it does."""
    at = of_kind(instructions, "rms_norm", 1)
    before, norm = (Instruction.from_buffer_copy(instructions[i]) for i in (at - 1, at))
    assert norm.buffer[0] == before.buffer[OUT]
    instructions[at - 1], instructions[at] = norm, before
    instructions[at - 1].last = instructions[at].last = 1


def kernels_edited(*edits: Edit) -> Fault:
    """The engine runs, and the gate `kernels` is shown, a library of edited sources."""

    def apply(subject: Subject) -> Subject:
        def engine(model: Any, arm: Any = "f32", kv: Any = "f32") -> AnyEngine:
            return HostEngine("host", model, HostArrayOps(Team(compiled(*edits)), arm, kv))

        return replace(subject, engine=engine, kernels=lambda: compiled(*edits))

    return apply


@cache
def compiled(*edits: Edit) -> Built:
    sources = kernel_sources()
    for file, old, new in edits:
        if old not in sources[file]:
            raise ValueError(f"Expected {old!r} in {file}")
        sources[file] = sources[file].replace(old, new)
    main = main_source(sources)
    return typed(build(main, included(main, sources), SLOW))


MUTATIONS = (
    Mutation(
        "X25 plan_wrong_buffer", "an instruction of the plan reads the buffer of another", "plan",
        plan_edited(reads_the_residual), *these({*ORACLE, *REFERENCE, "observer", "repeat"}),
        PLANNED + "So observer and repeat, which run with and without a tap, see two engines in one; the others that "
        "hold the engine against itself never watch.",
        "blocks.0.attn.k, position 0", "planned", engine="host",
    ),
    Mutation(
        "X26 plan_missing_barrier", "an instruction runs before the one whose result it reads", "plan",
        plan_edited(barrier_missing),
        *these({*ORACLE, *REFERENCE, "observer", "repeat"}),
        PLANNED + "It reads what the buffer held before: buffers are shared, so that is another result of the same "
        "rows, not of an earlier step, and the engine agrees with itself. A tap looks where the linear should "
        "have stored.",
        "blocks.0.resid_mid, position 0", "planned", engine="host",
    ),
    Mutation(
        "X27 kernel_contracted", "a kernel fuses product and sum", "kernel source",
        kernels_edited(
            (
                "dot.h", "a[r] = F_ADD(a[r], F_MUL(x[r * stride + j], w));",
                "a[r] = __builtin_fmaf(x[r * stride + j], w, a[r]);",
            ),
            (
                "dot.h", "acc[r * NL + PL(i)] = F_ADD(acc[r * NL + PL(i)], F_MUL(x[r * stride + j], w));",
                "acc[r * NL + PL(i)] = __builtin_fmaf(x[r * stride + j], w, acc[r * NL + PL(i)]);",
            ),
            (
                "host_tile.h", "acc[r][v] = F_ADD(acc[r][v], F_MUL(weights[v], x[r * step + k * APART]));",
                "for (int e = 0; e < VECTOR; e++)"
                " acc[r][v][e] = __builtin_fmaf(weights[v][e], x[r * step + k * APART], acc[r][v][e]);",
            ),
        ), *these({*ORACLE, *REFERENCE, "kernels"}),
        "As M08, and the instruction stands in the machine code.",
        "blocks.0.attn.q, position 0", engine="host",
        corrected="chunk was held to be blind, and it saw the plant as long as that left the end of a row unfused: "
        "attention then depended on the other rows of a tile. Planted in both loops, chunk is blind.",
    ),
    Mutation(
        "X28 kernel_chunk_64", "a kernel sums in chunks of 64", "kernel source",
        kernels_edited(
            ("dot.h", "k += CHUNK", "k += 64"), ("dot.h", "K - k < CHUNK ? K - k : CHUNK", "K - k < 64 ? K - k : 64"),
            ("host_linear.h", "k += CHUNK", "k += 64"),
            ("host_linear.h", "l.K - k < CHUNK ? l.K - k : CHUNK", "l.K - k < 64 ? l.K - k : 64"),
            ("host_row.h", "CHUNK", "64"),
        ), *WRONG_MATHEMATICS,
        "As M08c: the code holds no fused instruction.", "blocks.0.mlp.out, position 0", engine="host",
    ),
    Mutation(
        "X29 kernel_backwards", "kernels add terms in another order", "kernel source",
        kernels_edited(
            ("dot.h", "for (int s = 0; s < F::STEPS; s++)", "for (int s = F::STEPS - 1; s >= 0; s--)"),
            ("host_row.h", "for (int s = 0; s < F::STEPS; s++)", "for (int s = F::STEPS - 1; s >= 0; s--)"),
            (
                "host_tile.h", "for (int k = 0; k < n; k++) {",
                "for (int turn = 0; turn < n; turn++) { const int k = (turn | 1) < n ? turn ^ 1 : turn;",
            ),
        ),
        *these({*ORACLE, *REFERENCE, "incremental", "chunk", "batch", "speculative"}),
        "Wrong, and in two ways: a single row adds groups of 32 terms from their end, several rows (host_tile.h) "
        "exchange neighbours. So one row beside several is seen; isolation has only steps of several rows, repeat and "
        "observer the same steps each time.",
        "blocks.0.attn.q, position 0", engine="host",
    ),
    Mutation(
        "X30 kernel_polynomial", "one digit of the exponential is another", "kernel source",
        kernels_edited(("scalar.h", "0x3d2aa9c1u", "0x3d2ab9c1u")), *WRONG_MATHEMATICS,
        "The exponential is inside attention, silu and the gates of the delta rule.",
        "blocks.0.attn.exp, position 1", engine="host",
    ),
)  # fmt: skip
