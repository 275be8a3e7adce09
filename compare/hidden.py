"""Where an engine computes otherwise when nobody looks: which taps hide it, and the first tensor that shows it.

The step that differs runs again under chosen taps. A tap that brings the watched results back hides the difference;
under those that do not, the tensors of the wrong path itself can be seen.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from gnomon.compare.digest_tap import DigestTap, Key, Shown
from gnomon.compare.lane import Array, Lane
from gnomon.compare.minimal import smallest

MakeLane = Callable[[], Lane]


class Chosen(DigestTap):
    """Wants some names, and keeps a digest of what it is shown."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names = names

    def wants(self, name: str) -> bool:
        return name in self.names


@dataclass(frozen=True)
class Look:
    """arrays: results and state of the step, None where it was refused as not finite; shown: what the tap saw"""

    arrays: dict[str, Array] | None
    shown: dict[Key, Shown]

    def gives(self, other: "Look") -> bool:
        """The same bytes, or both refused; where one asked for fewer rows of logits, the last ones."""
        if self.arrays is None or other.arrays is None:
            return self.arrays is other.arrays
        return all(same(array, other.arrays.get(name), name) for name, array in self.arrays.items())


@dataclass(frozen=True)
class Located:
    """step: the first that differs; hidden_by: kinds of tensors, each of which hides the difference when it is watched;
    narrowest: a smallest set of names that does; tap, op: the first tensor that differs and what made it; inputs_equal:
    from equal inputs"""

    step: int
    hidden_by: tuple[str, ...] = ()
    narrowest: tuple[str, ...] = ()
    tap: str = ""
    op: str = ""
    inputs_equal: bool = False


def located(
    unwatched: MakeLane, watched: MakeLane, feed: Sequence[list[int]], known: Sequence[Located] = ()
) -> Located:
    """Where the last step of `feed`, or one before it, leaves the path that a tap of everything shows.

    known: what was found when the same steps ran otherwise; it is taken where it fits, which costs one run
    """
    step = first_step(unwatched, watched, feed)
    feed = feed[: step + 1]
    open_look = look(watched, feed, DigestTap(), throughout=True)
    names = list(dict.fromkeys(key.name for key in open_look.shown))
    closed = look(unwatched, feed, None)
    if closed.gives(open_look):
        return Located(step)  # it did not come again: a fault that comes and goes
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(kind_of(name), []).append(name)

    def hides(chosen: Collection[str]) -> bool:
        return look(unwatched, feed, Chosen(chosen)).gives(open_look)

    for other in known:
        if other.narrowest and hides(other.narrowest):
            return replace(other, step=step)
    hidden_by: tuple[str, ...] = ()
    narrowest: tuple[str, ...] = ()
    visible = names
    if look(unwatched, feed, DigestTap()).gives(open_look):
        by_kind = {kind: look(unwatched, feed, Chosen(members)) for kind, members in kinds.items()}
        hidden_by = tuple(kind for kind, found in by_kind.items() if found.gives(open_look))
        candidates = kinds[hidden_by[0]] if hidden_by else names
        found = narrow(candidates, hides)
        narrowest = tuple(name for name in names if name in found)
        opening = {kind for kind, found in by_kind.items() if not found.gives(closed)}
        visible = [name for name in names if kind_of(name) not in opening]
    seen = look(unwatched, feed, Chosen(visible))
    tap, op, equal = (
        first_shown(seen, open_look, unwatched().engine.model.weights) if seen.gives(closed) else ("", "", False)
    )
    return Located(step, hidden_by, narrowest, tap, op, equal)


def narrow(names: list[str], hides: Callable[[Collection[str]], bool]) -> frozenset[str]:
    """A smallest set of names that hides. Most often it is those without which the rest does not: one, or all."""
    needed = [name for name in names if not hides([other for other in names if other != name])]
    return frozenset(needed) if len(needed) == len(names) or hides(needed) else smallest(names, hides)


def located_cut(make: MakeLane, ids: list[int], parts: Sequence[list[int]]) -> Located:
    """Where a prompt in parts leaves the one in a single step, both watched: rows are held against rows."""
    names = Rowwise()
    whole, lane, start = make(), make(), 0
    whole.step(ids, names)
    for number, part in enumerate(parts):
        tap = Rowwise()
        lane.step(part, tap)
        equal: dict[str, bool] = {}
        for name, (value, op, inputs) in tap.arrays.items():
            other = names.arrays.get(name)
            if other is None:
                continue
            equal[name] = value.tobytes() == other[0][start : start + len(part)].tobytes()
            if not equal[name]:
                weights = lane.engine.model.weights
                return Located(number, tap=name, op=op, inputs_equal=all(equal.get(i, i in weights) for i in inputs))
        start += len(part)
    return Located(0)


class Rowwise:
    """A tap that keeps what has a row for each position, and looks at everything."""

    def __init__(self) -> None:
        self.arrays: dict[str, tuple[Array, str, tuple[str, ...]]] = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: Array, pos: Array, op: str, inputs: tuple[str, ...]) -> None:
        if not name.endswith((".scores", ".exp")):  # as wide as the positions of their step
            self.arrays.setdefault(name, (value, op, inputs))


def first_step(unwatched: MakeLane, watched: MakeLane, feed: Sequence[list[int]]) -> int:
    """The first step whose results or state differ: states are not looked at after every step of a comparison."""
    one, two = unwatched(), watched()
    for number, ids in enumerate(feed):
        one.step(ids)
        two.step(ids, DigestTap())
        if not taken(one, {}).gives(taken(two, {})):
            return number
    return len(feed) - 1


def look(make: MakeLane, feed: Sequence[list[int]], tap: DigestTap | None, throughout: bool = False) -> Look:
    """Run all steps, the last under the tap; throughout: the ones before under a tap of everything."""
    lane = make()
    for ids in feed[:-1]:
        lane.step(ids, DigestTap() if throughout else None)
    lane.step(feed[-1], tap)
    return taken(lane, tap.shown if tap is not None else {})


def taken(lane: Lane, shown: dict[Key, Shown]) -> Look:
    if lane.error is not None:
        return Look(None, shown)
    return Look({f"{kind} {key.name}": array for (kind, key), array in lane.results(with_state=True).items()}, shown)


def first_shown(seen: Look, expected: Look, weights: Collection[str]) -> tuple[str, str, bool]:
    """Name and op of the first tensor that differs, and whether all that its op read was seen and equal."""
    equal: dict[str, bool] = {}
    for key, shown in seen.shown.items():
        other = expected.shown.get(key)
        if other is None:
            continue
        equal[key.name] = shown.measure.sha256 == other.measure.sha256
        if not equal[key.name]:
            return key.name, shown.op, all(equal.get(name, name in weights) for name in shown.inputs)
    return "", "", False


def kind_of(name: str) -> str:
    """A name without its block number."""
    return re.sub(r"\bblocks\.\d+\.", "blocks.*.", name)


def same(array: Array, other: Array | None, name: str) -> bool:
    if other is not None and name == "result logits":
        other = other[-len(array) :]
    return (
        other is not None
        and (array.dtype, array.shape) == (other.dtype, other.shape)
        and array.tobytes() == other.tobytes()
    )
