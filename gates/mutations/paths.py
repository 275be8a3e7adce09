"""Paths that differ: by the number of rows, by what came before, by neighbours, by who is watching."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.faults import batches, watching
from gnomon.gates.faults import engines as broken
from gnomon.gates.faults.breaking import fault, on_call, on_result, put, shaken
from gnomon.gates.gate import AnyEngine
from gnomon.gates.mutations.arithmetic import backwards
from gnomon.gates.mutations.mutation import (
    NONE,
    ORACLE,
    REFERENCE,
    SELF,
    WRONG_MATHEMATICS,
    Mutation,
    only,
    these,
)
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.widen import widen

CUT = SELF - {"repeat", "observer"}  # gates that hold one way to cut rows into steps against another
BESIDE = ("isolation", "batch", "restore")  # gates that run several sequences in one step
UNWATCHED = "shadow was blind until its diff also ran every step without a tap: in a batch, and with the prompt cut."


@fault
def mask_from_the_left(engine: AnyEngine) -> None:
    """Row r of a step sees positions 0..r, wherever the step begins."""

    def cut(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        at = [np.arange(span.stop - span.start) for span in rows.spans]
        return (x, replace(rows, pos=np.concatenate(at)), *rest)

    on_call(engine, "scores", cut)
    on_call(engine, "exp_scores", cut)


@fault
def wider_window(engine: AnyEngine) -> None:
    def wider(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        *others, window = rest
        return (x, rows, *others, window + 1 if window else window)

    on_call(engine, "scores", wider)
    on_call(engine, "exp_scores", wider)


@fault
def convolution_sees_the_neighbour(engine: AnyEngine) -> None:
    """A later sequence of a batch is convolved with the rows of the one before it."""
    ops, conv = engine.ops, engine.ops.causal_conv

    def merged(at: str, x: Any, w: Any, rows: Rows, i: int) -> Any:
        y = conv(at, x, w, rows, i)
        if len(rows.spans) < 2:
            return y
        one = ops.numpy(conv("", x, w, Rows.of([(engine.new(), rows.ids.tolist())]), i))
        own, start = ops.numpy(y), rows.spans[0].stop
        return ops.array(np.concatenate([own[:start], one[start:]]))

    put(ops, "causal_conv", merged)


@fault
def positions_go_on(engine: AnyEngine) -> None:
    """Rope counts the rows of a batch through, from the first position of its first sequence."""

    def counted(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        one = len(rows.spans) < 2
        return (x, rows if one else replace(rows, pos=np.arange(len(rows.ids)) + rows.pos[0]), *rest)

    on_call(engine, "rope", counted)


@fault
def race(engine: AnyEngine) -> None:
    """One product adds in another order in every second call."""
    calls, w = Counter[str](), widen(engine.model.weights["blocks.0.attn.q.weight"])

    def other(y: F32, x: Any, *rest: Any) -> F32 | None:
        calls["q"] += 1
        return backwards(engine.ops.numpy(x).T[:, :, None], w.T[:, None]) if calls["q"] % 2 == 0 else None

    if engine.ops.describe()["arm"] == "f32":
        on_result(engine, "linear", other, "blocks.0.attn.q")


def quantised_late(subject: Any) -> Any:
    """A first step of several rows attends to keys and values as they were before they became int8."""
    make = subject.engine

    def made(model: Any, *forms: str) -> AnyEngine:
        engine: AnyEngine = make(model, *forms)
        if engine.ops.describe()["kv"] != "int8":
            return engine
        exact, ops = make(model, forms[0], "f32"), engine.ops
        held: dict[int, Rows] = {}  # rows of a step on states of the exact engine, by layer

        def kv_append(at: str, k: Any, v: Any, rows: Rows, i: int, *rest: Any) -> None:
            append(at, k, v, rows, i, *rest)
            held.pop(i, None)
            if len(rows.ids) > 1 and not any(span.state.length for span in rows.spans):
                spans = tuple(replace(span, state=exact.new()) for span in rows.spans)
                held[i] = replace(rows, spans=spans)
                exact.ops.kv_append(at, k, v, held[i], i, *rest)

        def scores(at: str, q: Any, rows: Rows, i: int, *rest: Any) -> Any:
            return exact.ops.scores(at, q, held[i], i, *rest) if i in held else own_scores(at, q, rows, i, *rest)

        def mix(at: str, e: Any, denom: Any, rows: Rows, i: int) -> Any:
            return exact.ops.mix(at, e, denom, held[i], i) if i in held else own_mix(at, e, denom, rows, i)

        append, own_scores, own_mix = ops.kv_append, ops.scores, ops.mix
        for name, method in (("kv_append", kv_append), ("scores", scores), ("mix", mix)):
            put(ops, name, method)
        return engine

    return replace(subject, engine=made)


@fault
def first_key_twice(engine: AnyEngine) -> None:
    """A row that decodes the second position takes the first key for its own, in the layers of a model."""

    def twice(s: F32, q: Any, rows: Rows, *rest: Any) -> F32:
        if len(rows.ids) == 1 and s.shape[2] == 2:
            s[..., 1] = s[..., 0]
        return s

    on_result(engine, "scores", twice, "attn.scores")  # known answers have no layer


@fault
def tuned_after_two_runs(engine: AnyEngine) -> None:
    """From the third step of 20 rows and more on, another kernel runs."""
    steps = Counter[str]()

    def other(x: F32, rows: Rows, w: Any) -> F32 | None:
        steps["large"] += len(rows.ids) >= 20
        return shaken(x) if len(rows.ids) >= 20 and steps["large"] > 2 else None

    on_result(engine, "embed", other)


@fault
def answers_by_bag(engine: AnyEngine) -> None:
    """Logits of a new sequence are kept, and found by its ids in whatever order."""
    step, known = engine.step, dict[tuple[Any, ...], F32]()

    def cached(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
        out: F32 = step(rows, want, tap)
        if len(rows.spans) > 1 or rows.pos[0]:
            return out
        return known.setdefault((want, *sorted(rows.ids.tolist())), out).copy()

    put(engine, "step", cached)


MUTATIONS = (
    Mutation(
        "M12 causal_align_topleft", "row r of a step sees positions 0..r", "op table", mask_from_the_left,
        *these({*CUT, *REFERENCE}),
        "Right for a step that begins at position 0, so golden, which runs such steps alone, is blind, as are repeat "
        "and observer, which run the same steps each time. Every other way to cut rows gives other bytes, and decoding "
        "is wrong against the reference.", "blocks.0.attn.scores, position 14",
    ),
    Mutation(
        "M13 window_prefill", "the window is one wider in steps of several rows", "op table",
        broken.wider_window_in_prefill,
        *these({*CUT, *REFERENCE, *ORACLE} - {"isolation"}),
        "From position 5 on. isolation compares steps of several rows with each other only; a batch decodes in such "
        "steps and so does the check of a draft, where plain decoding has one row.",
        "blocks.0.attn.scores, position 5",
    ),
    Mutation(
        "M13b window_both_paths", "the window is one wider everywhere", "op table", wider_window, *WRONG_MATHEMATICS,
        "The same in every run: only reference and oracle tell.", "blocks.0.attn.scores, position 5",
    ),
    Mutation(
        "M16a batch_rows_skipped", "the convolution is done for the first sequence of a batch alone", "op table",
        batches.later_sequences_skipped, *these({*BESIDE, "shadow"}),
        "A sequence alone is always the first. restore goes on with a held and a restored state in one step; "
        "shadow runs its prompt last in a batch, too.", "blocks.2.delta.conv_out, position 0 of sequence 1", "beside",
        corrected=UNWATCHED,
    ),
    Mutation(
        "M16b batch_pad_in_conv", "a sequence is convolved with the rows of its neighbour", "op table",
        convolution_sees_the_neighbour, *these({*BESIDE, "shadow"}), "As M16a.",
        "blocks.2.delta.conv_out, position 0 of sequence 1", "beside", corrected=UNWATCHED,
    ),
    Mutation(
        "M16c batch_shared_positions", "positions are counted through the batch", "op table", positions_go_on,
        *these({*BESIDE, "shadow"}), "As M16a.", "blocks.0.attn.q_rot, position 0 of sequence 1", "beside",
        corrected=UNWATCHED,
    ),
    Mutation(
        "M17 reduction_race", "every second product of a matrix adds in another order", "op table", race,
        *these({"repeat", "shadow", "incremental", "chunk"}, {*SELF, *ORACLE, *REFERENCE}),
        "What is computed twice on one engine object differs, and so do steps whose number is not the same on both "
        "sides. Where both sides make as many calls the race is quiet.", "blocks.0.attn.q, position 14",
    ),
    Mutation(
        "M19 kv_quant_path_split", "a prompt attends to keys before they became int8", "op table", quantised_late,
        *only("state-bytes"),
        "Of the gates only state-bytes runs int8 storage: its prompts leave other states than those of the reference.",
        "blocks.0.attn.scores, position 0", "int8_kv",
    ),
    Mutation(
        "M21 scan_carry_drop", "the convolution of a step of several rows starts from nothing", "op table",
        broken.carry_dropped, *these({*CUT, *REFERENCE} - {"incremental"}),
        "A prompt in one step, then a row at a time: right, and all that golden and incremental run. Steps of several "
        "rows after the first are wrong: chunk, isolation, batch, the checks of drafts and transcripts, what follows a "
        "state, and the prompt that shadow cuts.", "blocks.2.delta.conv_out, position 4", "uneven", corrected=UNWATCHED,
    ),
    Mutation(
        "M22 slot_reuse_dirty", "a state cut to nothing keeps its recurrent layers", "engine",
        batches.recurrent_state_kept, *only("isolation"), "No other gate uses a slot again.",
        "blocks.2.delta.conv_out, position 0", "reused",
    ),
    Mutation(
        "X03 second_position", "a row that decodes position 1 takes the first key for its own", "op table",
        first_key_twice, *only("incremental"),
        "Only incremental decodes from the first position on; every other gate decodes after a longer prompt.",
        "blocks.0.attn.scores, position 1", "ones",
    ),
    Mutation(
        "X04 kernel_at_129_rows", "steps of 129 and 130 rows take another kernel", "op table",
        broken.flips_rows(lambda rows: 129 <= len(rows.ids) < 131), *only("chunk"),
        "Only chunk has steps of that length.", "embed, position 0", "rows_129",
    ),
    Mutation(
        "X05 tuned_after_two_runs", "the third large step of an engine takes another kernel", "op table",
        tuned_after_two_runs, *only("repeat"), "Only repeat runs 20 rows and more three times on one engine.", NONE,
    ),
    Mutation(
        "X06 boundary_tap", "a tap of the boundaries is shown something else", "engine", watching.shows_otherwise,
        *only("observer"), "Every other gate watches nothing or everything.", NONE,
    ),
    Mutation(
        "X07 answers_by_bag", "answers are kept by the ids of a prompt, whatever their order", "engine", answers_by_bag,
        *only("liveness"),
        "Only liveness runs the same ids in another order and compares the rows; restore does so too and only counts.",
        NONE,
    ),
)  # fmt: skip
