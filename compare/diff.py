"""Two engines on the same tokens: every tap, all logits, the state, down to the first bit that differs.

Teacher-forced: engine A chooses each next token, greedily, and engine B is given A's choice. Digests only are
kept. Then both engines run again from the start, in the same way, up to the first difference; that tensor and
its inputs are captured.
"""

import shlex
from collections.abc import Callable, Sequence

from gnomon.compare.first import explain, first_unequal
from gnomon.compare.lane import AnyEngine, Kept, Lane, measured
from gnomon.compare.record import Config, Problem, Record, Tensor, Token
from gnomon.compare.report import Report
from gnomon.compare.verdict import judge_measures
from gnomon.reference.errors import UsageError
from gnomon.reference.identity import arithmetic, differences
from gnomon.reference.token_ids import token_ids

Progress = Callable[[int, int], None]  # steps done, steps in all


def diff(
    engine_a: AnyEngine,
    engine_b: AnyEngine,
    ids: Sequence[int],
    steps: int = 16,
    progress: Progress | None = None,
) -> Report:
    """Compare engine B (observed) with engine A (expected): `ids` in one step, then `steps` single tokens.

    A run ends early at a step that either engine refuses as not finite; that is a finding. Engines of other
    models are not compared: `not-run`. Raises UsageError for ids or steps that cannot be run.
    """
    ids = token_ids(ids)
    _check(engine_a, ids, steps)
    feed = [ids]  # what each step runs
    command = repeat_command(engine_a, engine_b, feed[0], "--steps", str(steps))
    config = Config(engine_a.describe(), engine_b.describe(), tuple(feed[0]), steps, command)
    problems = other_model(engine_a, engine_b)
    if problems:
        return Report.of([config, *problems])

    records: list[Record] = [config]
    tensors: list[Tensor] = []
    expected, observed = Lane("expected", engine_a), Lane("observed", engine_b)
    done = 0
    while done <= steps:
        e, o = expected.digest(feed[done]), observed.digest(feed[done])
        problems = expected.problems(e, done) + observed.problems(o, done)
        finished = expected.error is None and observed.error is None
        if finished:
            e |= measured(expected.results(with_state=done in (0, steps)), e)
            o |= measured(observed.results(with_state=done in (0, steps)), o)
        new = _compare(e, o, len(tensors), done)
        tensors += new
        records += [*new, *problems]
        if not finished:
            break
        if observed.choice != expected.choice:
            records.append(Token(done, expected.state.length, observed.choice, expected.choice))
        feed.append([expected.choice])
        done += 1
        if progress is not None:
            progress(done, steps + 1)

    first = first_unequal(tensors)
    if first is not None:
        explained, more = explain(first, engine_a, engine_b, feed, command)
        records[records.index(first)] = explained
        records += more
    return Report.of(records, done)


def repeat_command(engine_a: AnyEngine, engine_b: AnyEngine, ids: Sequence[int], *rest: str) -> str:
    """The command line that does it again."""
    words = ["gnomon", "diff", engine_a.model.name, "--engine", engine_a.name, "--engine", engine_b.name]
    words += ["--ids", ",".join(str(i) for i in ids), *rest]
    settings = engine_a.describe()
    for form in ("arm", "kv"):
        if settings.get(form, "f32") != "f32":
            words += [f"--{form}", settings[form]]
    return shlex.join(words)


def _compare(expected: Kept, observed: Kept, seq: int, step: int) -> list[Tensor]:
    """Judge all tensors of a step by their measures, in the expected order of execution, extra ones last."""
    records: list[Tensor] = []
    for kind, key in expected | observed:
        e, o = expected.get((kind, key)), observed.get((kind, key))
        source = e or observed[kind, key]
        found = judge_measures(o and o.measure, e and e.measure, key.name)
        records.append(
            Tensor(
                seq=seq + len(records),
                kind=kind,
                step=step,
                name=key.name,
                pos=key.pos,
                op=source.op,
                inputs=source.inputs,
                verdict=found.verdict,
                detail=found.detail,
                observed=found.observed,
                expected=found.expected,
            )
        )
    return records


def _check(engine: AnyEngine, ids: Sequence[int], steps: int) -> None:
    limit = engine.model.config.max_positions
    if len(ids) == 0:
        raise UsageError("Expected at least one token id to compare on but got none")
    if steps < 0:
        raise UsageError(f"Expected a number of steps of at least 0 but got steps={steps}")
    if len(ids) + steps > limit:
        raise UsageError(f"Expected at most max_positions={limit} positions but got {len(ids)} ids and steps={steps}")


def other_model(a: AnyEngine, b: AnyEngine) -> list[Problem]:
    """Why the two engines cannot be compared: one problem per field of the config, and one for the weights."""
    if a.model is b.model:
        return []
    found = [tuple(one) for one in differences(arithmetic(a.model), arithmetic(b.model))]
    if a.model.digest != b.model.digest:
        found.append(("weights", a.model.digest, b.model.digest))
    return [
        Problem(0, "observed", "not-run", f"Expected two engines of one model but got {name}={x} and {name}={y}")
        for name, x, y in found
    ]
