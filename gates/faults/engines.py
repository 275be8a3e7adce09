"""Broken engines. They break by what any engine has: its op table, its step, its export, its weights."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.gates.faults.breaking import fault, flipped, on_call, on_result, put, shaken
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.reference.ops.chunked import chunked_dot
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen


def flips(op: str) -> Fault:
    """One op gives one value that is off by one bit."""
    return fault(lambda engine: on_result(engine, op, lambda x, *args: flipped(x)))


def flips_rows(when: Callable[[Rows], bool]) -> Fault:
    """Steps of some kind start from an embedding that is off by one bit."""
    return fault(lambda engine: on_result(engine, "embed", lambda x, rows, w: shaken(x) if when(rows) else None))


def flips_every_third_step(subject: Subject) -> Subject:
    steps = iter(range(1 << 30))
    return fault(
        lambda engine: on_result(engine, "embed", lambda x, *args: shaken(x) if next(steps) % 3 == 2 else None)
    )(subject)


def flips_later_engines(subject: Subject) -> Subject:
    made = iter(range(1 << 30))

    def damage(engine: AnyEngine) -> None:
        if next(made) % 2:
            on_result(engine, "embed", lambda x, *args: shaken(x))

    return fault(damage)(subject)


@fault
def flips_without_a_tap(engine: AnyEngine) -> None:
    step = engine.step
    put(engine, "step", lambda rows, want="last", tap=None: step(rows, want, tap) if tap else flipped(step(rows, want)))


@fault
def positions_restart(engine: AnyEngine) -> None:
    on_call(engine, "rope", lambda x, rows, *rest: (x, replace(rows, pos=np.arange(len(rows.ids))), *rest))


@fault
def wider_window_in_prefill(engine: AnyEngine) -> None:
    def wider(x: Any, rows: Rows, *rest: Any) -> tuple[Any, ...]:
        *others, window = rest
        return (x, rows, *others, window + 1 if window and len(rows.ids) > 1 else window)

    on_call(engine, "scores", wider)
    on_call(engine, "exp_scores", wider)


def exports_otherwise(when: Callable[[int], bool]) -> Fault:
    """One bit of the last exported array is wrong where `when(number of steps that made the state)`."""

    @fault
    def apply(engine: AnyEngine) -> None:
        step, export = engine.step, engine.export
        steps: dict[int, int] = {}

        def counted(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
            for span in rows.spans:
                steps[id(span.state)] = steps.get(id(span.state), 0) + 1 if span.state.length else 1
            return step(rows, want, tap)

        def exported(state: Any) -> dict[str, Any]:
            arrays = export(state)
            if when(steps[id(state)]):
                name = list(arrays)[-1]
                arrays[name] = flipped(arrays[name])
            return arrays

        put(engine, "step", counted)
        put(engine, "export", exported)

    return apply


@fault
def carry_dropped(engine: AnyEngine) -> None:
    """The convolution of a step of several rows does not see the rows before it."""
    ops, conv = engine.ops, engine.ops.causal_conv

    def alone(at: str, x: Any, w: Any, rows: Rows, i: int) -> Any:
        y = conv(at, x, w, rows, i)
        if len(rows.ids) == 1 or rows.spans[0].state.length == 0:
            return y
        fresh = Rows.of([(engine.new(), rows.ids.tolist())])
        return conv("", x, w, fresh, i)

    put(ops, "causal_conv", alone)


@fault
def embeds_zeros(engine: AnyEngine) -> None:
    on_result(engine, "embed", lambda x, *args: np.zeros_like(x))


@fault
def embeds_the_first(engine: AnyEngine) -> None:
    on_call(engine, "embed", lambda rows, w: (replace(rows, ids=np.zeros_like(rows.ids)), w))


def dead_result(op: str, at: str) -> Fault:
    """One result is zeros."""
    return fault(lambda engine: on_result(engine, op, lambda x, *args: np.zeros_like(x), at))


@fault
def repeats_logits(engine: AnyEngine) -> None:
    step = engine.step

    def repeated(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
        logits = step(rows, want, tap)
        return np.repeat(logits[:1], len(logits), axis=0)

    put(engine, "step", repeated)


@fault
def nan_in_unseen_scores(engine: AnyEngine) -> None:
    def planted(x: F32, *args: Any) -> F32:
        x[0, :, -1] = np.nan  # the first row does not see the last position
        return x

    on_result(engine, "scores", planted)


@fault
def drops_nan(engine: AnyEngine) -> None:
    on_result(engine, "embed", lambda x, *args: np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=-1.0))


@fault
def gives_nan_back(engine: AnyEngine) -> None:
    step = engine.step

    def poisoned(rows: Rows, want: Any = "last", tap: Any = None) -> F32:
        logits = step(rows, want, tap)
        logits[-1, 0] = np.nan
        return logits

    put(engine, "step", poisoned)


def plants(op: str, bits: int) -> Fault:
    """The first value of every result of an op has these bits."""

    def planted(x: F32, *args: Any) -> F32:
        x.reshape(-1).view(np.uint32)[0] = bits
        return x

    return fault(lambda engine: on_result(engine, op, planted))


def unsettled_product(at: str) -> Fault:
    """One matrix product leaves its sums as they are."""

    @fault
    def apply(engine: AnyEngine) -> None:
        w = widen(engine.model.weights[f"{at}.weight"])  # [N, K]

        def summed(y: F32, x: Any, *args: Any) -> F32:
            return chunked_dot(engine.ops.numpy(x).T[:, :, None], w.T[:, None])

        on_result(engine, "linear", summed, at)

    return apply


@fault
def tail_dropped(engine: AnyEngine) -> None:
    """Products of K terms end at a multiple of 16."""

    def cut(x: Any, *rest: Any) -> tuple[Any, ...]:
        rows = engine.ops.numpy(x)
        rows[:, max(16, rows.shape[1] // 16 * 16) :] = 0.0
        return (engine.ops.array(rows), *rest)

    on_call(engine, "linear", cut)


def transposed(name: str) -> Fault:
    """One square matrix is read by columns."""

    @fault
    def apply(engine: AnyEngine) -> None:
        w = np.ascontiguousarray(widen(engine.model.weights[name]).T)
        engine.weights[name] = engine.ops.pack(Weight(name, "F32", w.shape, w.view(np.uint8), "linear"))

    return apply


@fault
def tiled_heads(engine: AnyEngine) -> None:
    """Query head h reads kv head h mod kv_heads, where the contract says h // (heads / kv_heads)."""
    heads, kv_heads = engine.model.config.heads, engine.model.config.kv_heads
    order = np.argsort([h % kv_heads for h in range(heads)], kind="stable")

    original = engine.ops.scores

    def scores(at: str, q: Any, *rest: Any) -> Any:
        if not at.startswith("blocks."):  # a known answer, which may have other heads than the model
            return original(at, q, *rest)
        rows = engine.ops.numpy(q)
        by_head = np.ascontiguousarray(rows.reshape(len(rows), heads, -1)[:, order])
        parts = original(at, engine.ops.array(by_head.reshape(rows.shape)), *rest)
        return [engine.ops.array(np.ascontiguousarray(engine.ops.numpy(s)[:, np.argsort(order)])) for s in parts]

    put(engine.ops, "scores", scores)


def _other_theta(engine: AnyEngine) -> None:
    rope = engine.model.config.rope
    assert rope is not None
    engine.tables = RopeTables(2.0 * rope.theta, rope.dim)


def _larger_epsilon(engine: AnyEngine) -> None:
    on_call(engine, "rms_norm", lambda x, w, eps, *rest: (x, w, 10.0 * eps, *rest))


def epsilon_from(rows: int) -> Fault:
    """Norms of so many rows and more take ten times the epsilon."""

    def larger(x: Any, w: Any, eps: float, *rest: Any) -> tuple[Any, ...]:
        return (x, w, 10.0 * eps if x.shape[0] >= rows else eps, *rest)

    return fault(lambda engine: on_call(engine, "rms_norm", larger))


other_theta = fault(_other_theta, shared=True)
larger_epsilon = fault(_larger_epsilon, shared=True)
