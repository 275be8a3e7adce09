"""What a report says of its records in sentences, the same in the terminal and in the HTML file.

A sentence is a verdict: each is said only under the condition that makes it true, and where that fails another is said.
"""

from collections.abc import Sequence

from gnomon.compare.record import Config, FirstDivergence, Problem, Record, Summary, Tensor, Token
from gnomon.compare.verdict import INCOMPARABLE
from gnomon.compare.words import counted, joined

BUILD = (
    "kernels",
    "compiler",
    "flags",
    "target",
    "runtime",
    "driver",
    "submission",
)  # settings that only --verbose shows
STATEFUL = ("kv_append", "scores", "mix", "attention", "causal_conv", "delta_rule", "export")  # read a state, too
NOT_REPEATED = "to repeat itself"  # as in the problem that first.py reports
NAMED = 4  # tensors that were left out: named in one sentence of the terminal
LISTED = 10  # missing tensors, tokens and problems that are spelled out; the rest are counted


def headline(summary: Summary) -> str:
    """One line: the verdict, and what it rests on."""
    basis = f"{counted(summary.values, 'value')}, {counted(summary.bytes, 'byte')}"
    basis += f", {100 * summary.live / summary.values:.1f} % live" if summary.values else ""
    only = summary.hidden and summary.identical == summary.tensors
    verdict = "differs only when nobody looks" if only else summary.verdict
    return f"{verdict}: {outcome(summary)} ({basis}; {counted(summary.steps, 'step')})"


def outcome(summary: Summary) -> str:
    """How many tensors were identical, differed, and could not be compared."""
    if not summary.compared:
        return "nothing was compared"
    differ = summary.compared - summary.identical
    apart = summary.tensors - summary.compared
    tensors = counted(summary.compared, "tensor")
    if not differ:
        told = f"all {tensors} have the same bytes" if summary.compared > 1 else "the one tensor has the same bytes"
    else:
        told = f"{differ:,} of {tensors} {'differs' if differ == 1 else 'differ'}"
    told += f", {apart:,} more could not be compared" if apart else ""
    if summary.unwatched_differ:
        runs = counted(summary.unwatched, "run")
        return told + f" under taps; {summary.unwatched_differ} of {runs} without a tap came out otherwise"
    if summary.unwatched and summary.verdict == "identical":
        return told + ", watched and unwatched"
    return told + (", but there are other findings" if summary.verdict != "identical" and not differ + apart else "")


def positions(pos: tuple[int, int]) -> str:
    """The positions of a tensor in words."""
    start, stop = pos
    return f"position {start}" if stop == start + 1 else f"positions {start} to {stop - 1}"


def card_lines(card: FirstDivergence) -> list[str]:
    """The first divergence in words: where, made by what, from which inputs."""
    lines = [f"{card.tap}: {card.verdict}" + (f" ({card.detail})" if card.detail else "")]
    lines.append(f"step {card.step}, {positions(card.pos)}, made by {card.op}")
    if card.inputs:
        lines.append(blame(card))
        lines += [f"  {i.name}: {i.verdict}" + f" ({i.kind})" * (i.kind != "tap") for i in card.inputs]
    return lines


def blame(card: FirstDivergence) -> str:
    """What the inputs say about the op."""
    if card.verdict in INCOMPARABLE:
        return "it could not be compared, so no op is blamed"
    if card.inputs_equal:
        state = ", or the state that it carries from step to step" if card.op in STATEFUL else ""
        return f"all inputs are identical: this op made it{state}"
    wrong = [i.name for i in card.inputs if i.verdict != "identical" and i.kind != "unseen"]
    if wrong:
        return f"{joined(wrong)} {'differs' if len(wrong) == 1 else 'differ'} already: the difference is older"
    unseen = [i.name for i in card.inputs if i.kind == "unseen"]
    return f"{joined(unseen)} {'was' if len(unseen) == 1 else 'were'} not seen: the difference may be older"


def no_values(card: FirstDivergence, records: Sequence[Record]) -> str:
    """Why a card has no numbers to show."""
    if card.detail:
        return card.detail
    repeated = not any(isinstance(r, Problem) and NOT_REPEATED in r.message and card.tap in r.message for r in records)
    return "known by digest only" if repeated else "it came out otherwise when the same tokens ran again"


def notes(records: Sequence[Record]) -> list[str]:
    """Findings that are not value differences: errors, other choices of tokens, tensors without a partner."""
    out = [f"{r.verdict}: step {r.step}, {r.side}: {r.message}" for r in records if isinstance(r, Problem)]
    out += [
        f"token: step {r.step}, position {r.pos}: the greedy choice is {r.observed}, expected {r.expected}"
        for r in records
        if isinstance(r, Token)
    ]
    out += [
        f"{r.verdict}: step {r.step}, {r.name}" + (f" ({r.detail})" if r.detail else "")
        for r in records
        if isinstance(r, Tensor) and r.verdict in INCOMPARABLE
    ]
    out = out if len(out) <= LISTED else [*out[:LISTED], f"and {len(out) - LISTED:,} more"]
    return out + left_out(records)


def left_out(records: Sequence[Record], named: int = NAMED) -> list[str]:
    """What was not compared: one sentence each. named: tensors that a sentence names; the rest it counts"""
    config = next((r for r in records if isinstance(r, Config)), None)
    if config is None:
        return []
    summary = records[-1]
    out = []
    for count, names, what in (
        (len(config.left_out), config.left_out, "of the observed side has no partner by the map"),
        (len(config.not_held), config.not_held, "of the expected side was not compared with anything"),
    ):
        if count:
            some = ", ".join(names[:named]) + (f" and {count - named:,} more" if count > named else "")
            verb = what if count == 1 else what.replace("has", "have").replace("was", "were")
            out.append(f"left out: {counted(count, 'tensor')} {verb}: {some}")
    planned = config.planned or config.steps + 1
    left = planned - summary.steps if isinstance(summary, Summary) else 0
    if left > 0:
        out.append(f"not-run: {left:,} of {counted(planned, 'step')} did not finish on both sides")
    watched = any(isinstance(r, Tensor) and r.kind == "tap" for r in records)
    if watched and config.ids and isinstance(summary, Summary) and not summary.unwatched:
        out.append("not-run: no step ran without a tap, so nothing is said of fused paths and plans")
    states = sorted({r.step for r in records if isinstance(r, Tensor) and r.kind == "state"})
    steps = {r.step for r in records if isinstance(r, Tensor)}
    if states and len(states) < len(steps):
        after = joined([str(s) for s in states])
        out.append(f"the state was exported and compared after step{'s' * (len(states) > 1)} {after} only")
    return out


def fingerprint(config: Config, verbose: bool = True) -> dict[str, str]:
    """What both sides share, once; then what is of one side. Without `verbose`, how an engine was built is left out,
    except where that is what tells the two sides apart."""
    e, o = config.expected, config.observed
    hidden = () if verbose else [n for n in BUILD if not (n in e and n in o and e[n] != o[n])]
    both = {name: value for name, value in e.items() if o.get(name) == value and name not in hidden}
    own = [{n: v for n, v in side.items() if n not in both and n not in hidden} for side in (e, o)]
    return {"both": settings(both), "expected": settings(own[0]), "observed": settings(own[1])}


def settings(told: dict[str, str]) -> str:
    """name=value; of a digest, the first 16 digits"""
    return "  ".join(f"{name}={v[:16] if len(v) == 64 else v}" for name, v in told.items())
