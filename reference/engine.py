"""The engine loop: check a step, wire it through the op table, commit it to the states or not at all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from threading import Lock, get_ident
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnomon.reference import shown
from gnomon.reference.errors import NonFiniteError, UsageError
from gnomon.reference.families import family
from gnomon.reference.guard import refuse_flush_to_zero
from gnomon.reference.model import Model
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.own_code import OwnCodeError, guard
from gnomon.reference.protocol import F32, Ops, Rows, Tap, Want
from gnomon.reference.state import State, check_arrays, state_specs
from gnomon.reference.taps import TappedOps
from gnomon.reference.token_ids import kind, token_ids, whole_number

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")


def alone(method: Callable[Concatenate["Engine[Any]", P], R]) -> Callable[Concatenate["Engine[Any]", P], R]:
    """One call at a time: a second one, of another thread or of a tap that the first one calls, is refused at once,
    since they would share buffers and both be wrong."""

    @wraps(method)
    def taking_turns(engine: "Engine[Any]", /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not engine.turn.acquire(blocking=False):
            if engine.thread == get_ident():
                raise UsageError(
                    f"Expected a tap that leaves engine {engine.name} alone while its step runs but {method.__name__} "
                    "was called from within it; keep what the tap was shown, and go on after the step"
                )
            raise UsageError(
                f"Expected one thread at a time in engine {engine.name} but a second one came while it runs; make an "
                "engine for each thread, or let the threads take turns"
            )
        engine.thread = get_ident()
        try:
            return method(engine, *args, **kwargs)
        finally:
            engine.turn.release()

    return taking_turns


class Engine(Generic[A]):
    """A model on an op table. One thread at a time; it may be another one each time.

    name: as in gnomon.engine(name, model); ops: the op table, which owns the packed weights
    """

    def __init__(self, name: str, model: Model, ops: Ops[A]) -> None:
        refuse_flush_to_zero()
        self.name = name
        self.model = model
        self.ops = ops
        self.family = family(model.config.family)
        self.turn, self.thread = Lock(), 0  # who is in it
        self.outputs: dict[int, int] = {}  # N of each packed weight, by its id
        guard(self)
        self.weights = {key: ops.pack(w) for key, w in model.weights.items()}
        self.outputs |= {id(w): model.weights[key].shape[0] for key, w in self.weights.items()}
        rope = model.config.rope
        self.tables = RopeTables(rope.theta, rope.dim, rope.scaling) if rope else None

    def new(self) -> State:
        """An empty state."""
        guard(self)  # ops may have been replaced since
        return State(self, [self.ops.new_cache(i) for i in range(self.model.config.layers)])

    @alone
    def step(self, rows: Rows, want: Want = "last", tap: Tap | None = None) -> F32:
        """Run the rows and append them to their states, all of them or none.

        want: "last" gives one row of logits per span, "all" one per row, "none" none -> [k, vocab]
        Raises UsageError for rows that do not fit their states and while another thread is in the engine,
        NonFiniteError when the result is NaN or infinite, OwnCodeError where an op of the user's own fails.
        """
        ids = self._check(rows, want)
        if tap is not None and not (
            callable(tap) and callable(getattr(tap, "wants", None)) and not isinstance(tap, type)
        ):
            got = type(tap).__name__
            raise UsageError(
                f"Expected a tap with wants(name) and __call__(name, value, pos, op, inputs) but got {got}"
            )
        try:
            out = self.run(rows, want, tap)
            if not self.finite(out):
                bad = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
                raise NonFiniteError(
                    f"Expected finite results but engine {self.name} gave NaN or infinity in row {bad} of {len(out)}; "
                    "the step was not committed"
                )
        except BaseException as error:
            for span in rows.spans:
                span.state.discard()
            if isinstance(error, OwnCodeError):
                error.step = f"step of positions {rows.pos.min()} to {rows.pos.max()}"
            raise
        for span in rows.spans:
            span.state.commit(ids[span.start : span.stop])
        return out if want != "none" else np.empty((0, self.model.config.vocab), np.float32)

    def finite(self, out: F32) -> bool:
        """Whether no value is NaN or infinite."""
        return bool(np.isfinite(out).all())

    def run(self, rows: Rows, want: Want, tap: Tap | None) -> F32:
        """The step itself, its rows checked: logits [k, vocab], or the last residual [rows, width] for want="none".
        States receive what it appends as pending. An engine that replays a plan overrides this."""
        ops = self.ops if tap is None else TappedOps(self.ops, tap, rows, self.weights)
        with np.errstate(over="ignore", invalid="ignore"):  # `step` reports infinities and NaN
            result = self.family.wire(ops, self.model.config, self.weights, self.tables, rows, want)
            self.ops.finish(rows, [result])
            return self.ops.numpy(result)

    def forward(
        self, ids: Sequence[int], state: State | None = None, want: Want = "last", tap: Tap | None = None
    ) -> tuple[F32, State]:
        """One step of one sequence: token ids, continued from `state` -> logits [k, vocab] and the state."""
        if state is None:
            state = self.new()
        kind("state", state, State, "a state of this engine, or None")
        return self.step(Rows.of([(state, ids)]), want, tap), state

    def generate(
        self, ids: Sequence[int], max_tokens: int, *, stop: Callable[[int], bool] | None = None
    ) -> Iterator[int]:
        """Greedy continuation, one id at a time; the id for which `stop` is true ends it and is not given."""
        whole_number("max_tokens", max_tokens)
        logits, state = self.forward(ids)
        for made in range(max_tokens):
            token = int(np.argmax(logits[-1]))
            if stop is not None and stop(token):
                return
            yield token
            if made + 1 < max_tokens:
                logits, state = self.forward([token], state)

    @alone
    def fork(self, state: State) -> State:
        """An independent copy; the original remembers the position as one it can be taken back to."""
        self._own(state)
        copy = State(self, [self.ops.copy_cache(state, i) for i in range(len(state.caches))])
        copy.length, copy.ids, copy.forks = state.length, list(state.ids), list(state.forks)
        if state.forks[-1:] != [state.length]:  # a checkpoint is copied many times
            state.forks.append(state.length)
        return copy

    @alone
    def truncate(self, state: State, length: int) -> None:
        """Forget every position from `length` on. Raises UsageError for a recurrent state: it cannot run backwards."""
        whole_number("length", length)
        self._own(state)
        if not 0 <= length <= state.length:
            raise UsageError(f"Expected a length from 0 to {state.length} but got {length}")
        if length == state.length:
            return
        if length and "delta" in self.model.config.kinds:
            nearest = max((n for n in state.forks if n <= length), default=0)
            raise UsageError(
                f"Expected a state of attention layers only for a cut to {length} of {state.length} positions but "
                f"{self.model.name} has recurrent layers; go on from the nearest checkpoint, at position {nearest}"
            )
        for i, cache in enumerate(state.caches):
            state.caches[i] = self.ops.truncate_cache(cache, length) if length else self.ops.new_cache(i)
        state.length, state.ids = length, state.ids[:length]
        state.forks = [n for n in state.forks if n <= length]

    def nbytes(self, state: State) -> int:
        """Memory the state holds, spare room included."""
        self._own(state)
        return sum(self.ops.cache_nbytes(cache) for cache in state.caches)

    @alone
    def export(self, state: State) -> dict[str, NDArray[Any]]:
        """The state as named arrays in canonical layout, copies in the stored type (bf16 as uint16):
        `blocks.{i}.kv.{k,v}` [positions, kv_heads, d], for int8 also `_scale` [positions, kv_heads];
        `blocks.{i}.rec.conv` [taps - 1, C], `blocks.{i}.rec.delta` [value_heads, dk, dv]"""
        self._own(state)
        return {
            f"blocks.{i}.{name}": array
            for i in range(self.model.config.layers)
            for name, array in self.ops.export_cache(state, i).items()
        }

    def load(self, arrays: Mapping[str, NDArray[Any]], ids: Sequence[int]) -> State:
        """The state that `export` gave as `arrays`, for the token ids it has consumed.

        Every name, shape and type is checked before anything is allocated; raises UsageError for the first wrong one.
        """
        ids = token_ids(ids)
        check_arrays(arrays, state_specs(self.model.config, self.ops.describe()["kv"], len(ids)))
        layers = range(self.model.config.layers if ids else 0)
        own = ({n: np.array(a, order="C") for n, a in arrays.items() if n.startswith(f"blocks.{i}.")} for i in layers)
        return self.load_layers(own, ids)

    @alone
    def load_layers(self, layers: Iterable[Mapping[str, NDArray[Any]]], ids: Sequence[int]) -> State:
        """`load` from the arrays of one layer after the other, in C order. They belong to the state from then on, so
        nothing need be held twice. Each layer is checked as it comes, and so is their number; raises UsageError.
        """
        ids = token_ids(ids)
        self._check_ids(ids)
        expected = state_specs(self.model.config, self.ops.describe()["kv"], len(ids))
        state, wanted, count = self.new(), self.model.config.layers if ids else 0, 0
        for i, arrays in enumerate(layers):
            prefix, count = f"blocks.{i}.", i + 1
            check_arrays(arrays, {name: spec for name, spec in expected.items() if name.startswith(prefix)})
            if count <= wanted:
                state.caches[i] = self.ops.load_cache({n.removeprefix(prefix): arrays[n] for n in arrays})
            del arrays  # before the next layer is made
        if count != wanted:
            raise UsageError(f"Expected the arrays of {wanted} layers but got {count}")
        state.length, state.ids = len(ids), ids
        return state

    def describe(self) -> dict[str, str]:
        """What ran: names and versions, read from the running engine."""
        return {
            "engine": self.name,
            "model": self.model.name,
            "weights": self.model.digest,
            **self.ops.describe(),
        }

    def _shown(self) -> tuple[str, dict[str, str]]:
        settings = {n: v if len(v) < 60 else f"{v[:16]} ..." for n, v in self.ops.describe().items()}
        return f"Engine {self.name}", {"model": self.model.name, **settings}

    def __repr__(self) -> str:
        return shown.lines(*self._shown())

    def _repr_html_(self) -> str:
        return shown.table(*self._shown())

    def close(self) -> None:
        """Let go of the packed weights."""
        self.weights = {}

    def _check(self, rows: Rows, want: Want) -> list[int]:
        """The token ids of a step that fits its states. On lists: a step of one row feels every call of NumPy."""
        if want not in ("last", "all", "none"):
            raise UsageError(f"Expected want to be 'last', 'all' or 'none' but got want={want!r}")
        if not self.weights:
            raise UsageError(f"Expected an open engine but {self.name} was closed; make another one")
        ids: list[int] = rows.ids.tolist()
        pos: list[int] = rows.pos.tolist()
        if not ids or any(span.start >= span.stop for span in rows.spans):
            raise UsageError("Expected at least one token id for each sequence but got none")
        self._check_ids(ids)
        limit = self.model.config.max_positions
        if max(pos) >= limit:
            raise UsageError(f"Expected positions below max_positions={limit} but the step reaches position {max(pos)}")
        if len({id(span.state) for span in rows.spans}) != len(rows.spans):
            raise UsageError("Expected each state at most once in a step but one appears twice")
        covered = 0
        for span in rows.spans:
            self._own(span.state)
            here = pos[span.start : span.stop]
            if span.start != covered or here != list(range(span.state.length, span.end)):
                raise UsageError(
                    f"Expected rows at positions {span.state.length}, {span.state.length + 1}, ... in the order of "
                    f"the spans but got {here}"
                )
            covered = span.stop
        if covered != len(ids):
            raise UsageError(f"Expected spans to cover all {len(ids)} rows but they cover {covered}")
        return ids

    def _check_ids(self, ids: Sequence[int]) -> None:
        vocab = self.model.config.vocab
        for i in ids:
            if not 0 <= i < vocab:
                raise UsageError(f"Expected token ids from 0 to {vocab - 1} but got {i}")

    def _own(self, state: State) -> None:
        if state.owner is not self:
            raise UsageError(f"Expected a state of this {self.name} engine but got one of another engine")
