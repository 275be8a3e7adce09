"""Two traces, tensor by tensor, in the records and words of the diff of two engines.

Where both sides have bytes, bytes are compared, and what is read is hashed again and held against its record. Where
one side has digests only, digests are compared, and an inequality is `differs` without values.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from gnomon.compare.first import first_unequal
from gnomon.compare.record import Config, FirstDivergence, Input, Problem, Record, Side, Tensor, Unwatched
from gnomon.compare.report import Report
from gnomon.compare.trace_align import Unit, align
from gnomon.compare.trace_import import Dump
from gnomon.compare.trace_judge import Judged, judge_unit
from gnomon.compare.trace_map import NameMap
from gnomon.compare.trace_read import Renamed, Source, Trace
from gnomon.compare.trace_record import Manifest, TraceRecord
from gnomon.compare.verdict import Finding, worst
from gnomon.compare.where import Heads
from gnomon.reference.identity import differences

BATCH = 16  # tensors that a thread takes at a time
STALE = "stored bytes do not match their record"


def compare_traces(
    expected: Trace, observed: Trace, *, names: NameMap | None = None, digests: bool = False, command: str = ""
) -> Report:
    """The report on two traces.

    names: maps observed names to expected ones; digests: look at no byte; command: how to see it again
    Traces of other models or of other token ids are not compared: `not-run`.
    """
    settings = settings_of(observed.manifest) | ({"read": "records only, no tensor"} if digests else {})
    config = _config(expected.manifest, settings, command)
    problems = incomparable(expected.manifest, observed.manifest)
    if problems:
        return Report.of([config, *problems])
    sides: tuple[tuple[Side, Manifest], ...] = (("expected", expected.manifest), ("observed", observed.manifest))
    failed = [Problem(_steps(m), side, "nonfinite", m.failed) for side, m in sides if m.failed is not None]
    source: Source = observed
    if names is not None:
        resolved = names.resolve({r.name for r in observed.records}, {r.name for r in expected.records})
        source = Renamed(observed, resolved)
        config = replace(config, left_out=tuple(sorted(name for name, ours in resolved.items() if ours is None)))
    units = align(without(expected.records, config.left_out, source.records), source.records)
    done = min(_steps(m) + (m.failed is None) for _, m in sides)
    unwatched = [record for side, m in sides for record in unwatched_of(side, m)]
    if not all(m.unwatched for _, m in sides):  # one was written without: what is equal proves nothing then
        unwatched = [record for record in unwatched if record.verdict != "identical"]
    return report_of(units, expected, source, [config, *failed, *unwatched], done, digests, command)


def compare_dump(expected: Trace, dump: Dump, settings: dict[str, str], *, command: str = "") -> Report:
    """The report on a trace and tensors from elsewhere: the taps that the dump is held against, and no others.

    settings: what is known of the dump
    """
    taps = [r for r in expected.records if r.kind == "tap" and r.name in dump.compared]
    total = len({r.name for r in expected.records if r.kind == "tap"})
    told = {"tensors": str(len(dump.records)), "left out": str(len(dump.left_out))}
    settings = {**settings, **told, "taps held against it": f"{len(dump.compared)} of {total}"}
    others = {r.name if r.kind == "tap" else f"{r.name} ({r.kind})": None for r in expected.records}
    held = {r.name for r in taps}
    config = replace(
        _config(expected.manifest, settings, command),
        left_out=dump.left_out,
        not_held=tuple(name for name in others if name not in held),
    )
    done = _steps(expected.manifest) + 1
    return report_of(align(taps, dump.records), expected, dump, [config], done, False, command)


def without(
    records: Sequence[TraceRecord], left_out: Collection[str], others: Sequence[TraceRecord]
) -> Sequence[TraceRecord]:
    """The records of one trace but for names that a map leaves out of the other: nobody asked for them."""
    gone = set(left_out) - {r.name for r in others}
    return [r for r in records if r.name not in gone] if gone else records


class Expected(Source, Protocol):
    """The side whose order is kept."""

    manifest: Manifest


def report_of(
    units: Sequence[Unit],
    expected: Expected,
    observed: Source,
    head: Sequence[Record],
    done: int,
    digests: bool,
    command: str,
) -> Report:
    """The report on units of two sides. head: the records before it; done: steps"""
    manifest = expected.manifest
    heads = Heads.seen((r.name, r.shape) for r in expected.records)
    judged = _judge(
        units, lambda unit: judge_unit(unit, expected, observed, digests, command, heads), threads=not digests
    )
    tensors = [_tensor(seq, j, manifest) for seq, j in enumerate(judged)]
    stale = [p for tensor, j in zip(tensors, judged, strict=True) for p in _stale(tensor, j)]
    records: list[Record] = [*head, *tensors, *stale]
    first = first_unequal(tensors)
    if first is not None:
        found = judged[first.seq].found
        weights = manifest.weights if isinstance(observed, Trace | Renamed) else ()  # a dump is of unknown ones
        records.append(_card(first, found, tensors, weights))
        records += [found.histogram] if found.histogram else []
    return Report.of(records, done)


def _judge(units: Sequence[Unit], judge: Callable[[Unit], Judged], threads: bool) -> list[Judged]:
    """Judge all units, in order; comparing, hashing and counting bytes use every CPU."""
    if not threads:
        return [judge(unit) for unit in units]
    batches = [units[at : at + BATCH] for at in range(0, len(units), BATCH)]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return [j for batch in pool.map(lambda batch: [judge(unit) for unit in batch], batches) for j in batch]


def incomparable(expected: Manifest, observed: Manifest) -> list[Problem]:
    """Why two traces cannot be compared: one problem per field. A run that was refused has fewer ids."""
    e, o = expected.ids, observed.ids
    if expected.failed is not None or observed.failed is not None:
        e, o = e[: len(o)], o[: len(e)]
    found = []
    if expected.model_sha256 != observed.model_sha256:
        found.append(f"model_sha256={expected.model_sha256} and model_sha256={observed.model_sha256}")
    for field, ours, theirs in differences(expected.config, observed.config):
        found.append(f"{field}={ours} and {field}={theirs}")
    if e != o:
        at = next((i for i, (x, y) in enumerate(zip(e, o, strict=False)) if x != y), min(len(e), len(o)))
        found.append(f"ids of {len(e)} and {len(o)} tokens that part at position {at}")
    return [
        Problem(0, "observed", "not-run", f"Expected two traces of one model on the same ids but got {what}")
        for what in found
    ]


def settings_of(manifest: Manifest) -> dict[str, str]:
    """What a report says of a trace: its engine, and how it was made."""
    made = {"schedule": manifest.schedule} | ({"bytes": "digests only"} if manifest.digests_only else {})
    return manifest.engine | made


def unwatched_of(side: Side, manifest: Manifest) -> list[Unwatched]:
    """How the run of a trace came out without a tap, as its manifest says."""
    engine = manifest.engine.get("engine", side)
    return [
        Unwatched(side=side, engine=engine, schedule=manifest.schedule, mismatch=None, **one)
        for one in manifest.unwatched
    ]


def _config(manifest: Manifest, observed: dict[str, str], command: str) -> Config:
    prompt = manifest.ids[: manifest.prompt]
    return Config(settings_of(manifest), observed, prompt, _steps(manifest), command)


def _steps(manifest: Manifest) -> int:
    return len(manifest.ids) - manifest.prompt


def _tensor(seq: int, judged: Judged, manifest: Manifest) -> Tensor:
    unit, found = judged.unit, judged.found
    return Tensor(
        seq=seq,
        kind=unit.kind,
        step=manifest.step_of(unit.pos[1] - 1),
        name=unit.name,
        pos=unit.pos,
        op=unit.source.op,
        inputs=unit.source.inputs,
        verdict=found.verdict,
        detail=found.detail,
        observed=found.observed,
        expected=found.expected,
    )


def _stale(tensor: Tensor, judged: Judged) -> list[Problem]:
    """A record that lies is a finding, even where the bytes happen to be equal."""
    verdict = "differs" if tensor.verdict == "identical" else tensor.verdict
    return [
        Problem(tensor.step, side, verdict, f"{r.name} at positions {r.pos[0]} to {r.pos[1] - 1}: {STALE}")
        for side, r in judged.stale
    ]


def _card(first: Tensor, found: Finding, tensors: Sequence[Tensor], weights: Collection[str]) -> FirstDivergence:
    """The card of the first divergence, with values where there are bytes. weights: names of those known to be equal"""
    index = found.mismatch.first[0].index if found.mismatch else ()
    by_position = found.mismatch is not None and found.mismatch.shape[:1] == (first.pos[1] - first.pos[0],)
    verdicts: dict[str, list[str]] = {}
    for t in tensors:
        if t.kind == "tap" and t.pos[0] < first.pos[1]:
            verdicts.setdefault(t.name, []).append(t.verdict)
    return FirstDivergence(
        seq=first.seq,
        step=first.step,
        tap=first.name,
        pos=first.pos,
        position=first.pos[0] + index[0] if index and by_position else None,
        op=first.op,
        inputs=tuple(_input(name, verdicts, weights) for name in first.inputs),
        verdict=first.verdict,
        detail=first.detail,
        mismatch=found.mismatch,
    )


def _input(name: str, verdicts: Mapping[str, list[str]], weights: Collection[str]) -> Input:
    """What the op read, at all positions it may have read."""
    if name in verdicts:
        return Input(name, "tap", worst(verdicts[name]))
    known = name in weights
    return Input(name, "weight" if known else "unseen", "identical" if known else "not-run")
