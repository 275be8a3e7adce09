"""Explain a tensor of a run: find its op and its numbers in the model, its inputs in what was kept of the run."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain.ops import OPS
from gnomon.compare.explain.result import Explanation
from gnomon.compare.explain.script import Call, Value, script
from gnomon.compare.explain.search import explain
from gnomon.compare.lane import AnyEngine, Array, Lane
from gnomon.compare.record import FirstDivergence
from gnomon.reference.errors import NotRunError
from gnomon.reference.model import Model
from gnomon.reference.ops.bf16 import round_bf16
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

# The values of a tensor at positions [first, one past the last); None where they were not kept.
Kept = Callable[[str, int, int], NDArray[Any] | None]


def explain_tap(
    model: Model, name: str, pos: tuple[int, int], observed: NDArray[np.float32], kept: Kept, arm: str = "f32"
) -> Explanation:
    """Explain the tensor `name` at positions `pos`. kept: what its op read, on the observed side

    Raises NotRunError, with the reason, where the op is not on the menu or an input was not kept.
    """
    call = script(model).get(name)
    if call is None or call.op not in OPS:
        made = "no op that computes" if call is None else call.op
        raise NotRunError(f"Expected a tensor of {', '.join(OPS)} but {name} is made by {made}")
    if call.op == "linear" and arm not in ("f32", "bf16"):
        raise NotRunError(f"Expected the arm f32 or bf16 for {name} but the engine ran arm={arm}")
    inputs, numbers, shape = _read(call, name, pos, kept)
    if call.op == "linear" and arm == "bf16":
        inputs |= {key: round_bf16(inputs[key]) for key in ("x", "w")}
    return explain(call.op, inputs, observed.reshape(shape or observed.shape), numbers, name)


def explain_divergence(card: FirstDivergence, observed: AnyEngine, feed: Sequence[list[int]]) -> Explanation:
    """Explain the first divergence of a diff: run the observed engine again and take its op's inputs and result.

    feed: the ids of every step, as both engines ran them. Raises NotRunError as `explain_tap` does.
    """
    wanted = {card.tap, *(i.name for i in card.inputs)}
    block = card.tap.partition(".attn.")[0]
    wanted |= {f"{block}.kv.k", f"{block}.kv.v"}
    lane, pieces = Lane("observed", observed), dict[str, list[tuple[int, Array]]]()
    for ids in feed[: card.step + 1]:
        for key, array in lane.capture(ids, wanted).items():
            pieces.setdefault(key.name, []).append((key.pos[0], array))

    def kept(name: str, start: int, stop: int) -> Array | None:
        return cut(pieces.get(name, []), start, stop)

    tensor = kept(card.tap, *card.pos)
    if tensor is None:
        raise NotRunError(f"Expected {observed.name} to show {card.tap} again but it did not")
    arm = observed.describe().get("arm", "f32")
    return explain_tap(observed.model, card.tap, card.pos, tensor, kept, arm)


def cut(pieces: Sequence[tuple[int, Array]], start: int, stop: int) -> Array | None:
    """Rows [start, stop) of pieces that begin at the positions given; None where some are missing or do not join."""
    rows, at = [], start
    for first, array in sorted(pieces, key=lambda piece: piece[0]):
        if first <= at < min(first + len(array), stop):
            rows.append(array[at - first : stop - first])
            at += len(rows[-1])
    if at != stop or len({r.shape[1:] for r in rows}) != 1:
        return None
    return np.concatenate(rows)


def _read(
    call: Call, name: str, pos: tuple[int, int], kept: Kept
) -> tuple[dict[str, Array], dict[str, Any], tuple[int, ...] | None]:
    """Inputs, numbers, and the shape in which `explain` wants the result."""
    if call.op in ("scores", "exp_scores", "denom", "mix"):
        return _attention(call, name.rpartition(".")[0], pos, kept)
    inputs: dict[str, Array] = {}
    numbers: dict[str, Any] = {}
    for key, value in call.arguments.items():
        if isinstance(value, Weight):
            inputs[key] = widen(value)
        elif isinstance(value, Value):
            inputs[key] = _value(value, pos, kept)
        elif value is not None and key != "rows":
            numbers[key] = value
    if call.op == "rope":
        inputs["pos"] = np.arange(*pos)
    return inputs, numbers, None


def _attention(
    call: Call, at: str, pos: tuple[int, int], kept: Kept
) -> tuple[dict[str, Array], dict[str, Any], tuple[int, ...] | None]:
    """One of the four steps of attention; at = "blocks.{i}.attn"."""
    args, rows = call.arguments, pos[1] - pos[0]
    numbers = {"scale": args["scale"], "window": args["window"]}
    if call.op == "exp_scores":
        return {"s": _seen(f"{at}.scores", pos, kept), "pos": np.arange(*pos)}, numbers, None
    if call.op == "denom":
        return {"e": _seen(f"{at}.exp", pos, kept)}, numbers, None
    block = f"blocks.{args['i']}"
    k, v = (_seen(f"{block}.kv.{x}", (0, pos[1]), kept).reshape(pos[1], args["kv_heads"], -1) for x in "kv")
    if call.op == "mix":
        e, denom = _seen(f"{at}.exp", pos, kept), _seen(f"{at}.denom", pos, kept)
        return {"e": e, "denom": denom, "v": v, "k": k}, numbers, (rows, e.shape[1], v.shape[2])
    q = _value(args["q"], pos, kept).reshape(rows, -1, k.shape[2])
    return {"q": q, "k": k, "v": v, "pos": np.arange(*pos)}, numbers, None


def _value(value: Value, pos: tuple[int, int], kept: Kept) -> Array:
    if not value.name and value.made.op == "select":
        return _value(value.made.arguments["x"], pos, kept)
    return _seen(value.name, pos, kept)


def _seen(name: str, pos: tuple[int, int], kept: Kept) -> Array:
    array = kept(name, *pos) if name else None
    if array is None:
        what = f"{name} at positions {pos[0]} to {pos[1] - 1}" if name else "every input of the op"
        raise NotRunError(f"Expected the values of {what} but they were not kept")
    return array
