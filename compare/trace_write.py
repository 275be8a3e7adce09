"""Writing a trace: run an engine on one sequence and keep every tensor it shows, as it comes.

The directory is made aside and renamed when it is complete; a run that is interrupted leaves nothing, and
what one that was killed has left is removed by the next that writes there.
"""

import hashlib
import json
import platform
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.digest_tap import Key
from gnomon.compare.lane import AnyEngine, Results
from gnomon.compare.record import Unwatched
from gnomon.compare.schedule import steps_of
from gnomon.compare.trace_measure import record_of
from gnomon.compare.trace_parse import UNWATCHED
from gnomon.compare.trace_record import UINT16, Manifest, TraceKind, TraceRecord
from gnomon.compare.trace_shard import ShardWriter
from gnomon.compare.unwatched import OBSERVED, UnwatchedRuns
from gnomon.reference import CONTRACT_VERSION
from gnomon.reference.aside import hold, sweep
from gnomon.reference.errors import NonFiniteError, UsageError
from gnomon.reference.identity import arithmetic
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State
from gnomon.reference.token_ids import token_ids, whole_number


def write_trace(
    engine: AnyEngine,
    ids: Sequence[int],
    out: Path,
    *,
    steps: int = 0,
    schedule: str = "whole",
    digests_only: bool = False,
    unwatched: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Run `ids`, then `steps` greedy tokens; the trace goes to the new directory `out`.

    schedule: how `ids` are cut into steps: "whole", "rows" or lengths such as "4-3-1-2"
    unwatched: whether the same steps also run without a tap; the manifest says how they came out
    progress: told steps done and steps in all
    A step that the engine refuses as not finite ends the run; the trace says so and holds what was shown until then.
    Raises UsageError for an `out` that exists and is not empty, and for ids or steps that cannot be run.
    """
    ids = token_ids(ids)
    whole_number("steps", steps)
    limit = engine.model.config.max_positions
    if len(ids) == 0 or steps < 0 or len(ids) + steps > limit:
        raise UsageError(
            f"Expected at least one token id, steps of at least 0 and at most max_positions={limit} positions "
            f"but got {len(ids)} ids and steps={steps}"
        )
    if schedule == "ragged":
        raise UsageError("Expected the schedule of one sequence but got schedule='ragged', which is a batch")
    feed = steps_of(ids, schedule)
    total = len(feed) + steps
    with TraceWriter(out, digests_only) as writer:
        state, failed = engine.new(), None
        runs = UnwatchedRuns("observed", engine, OBSERVED if unwatched else (), schedule, len(feed[0]))
        for done in range(1, total + 1):
            try:
                logits = engine.step(Rows.of([(state, feed[done - 1])]), "all", writer)
            except NonFiniteError as error:
                failed = str(error)
                feed = feed[:done]
                break
            runs.step(feed[done - 1], done - 1, results_of(engine, state, logits, done in (1, total)))
            if len(feed) == done < total:
                feed.append([int(np.argmax(logits[-1]))])
            if progress is not None:
                progress(done, total)
        if failed is None:
            writer.add_state(engine.export(state), state.length)
        manifest = Manifest(
            contract=CONTRACT_VERSION,
            model=engine.model.name,
            model_sha256=engine.model.digest,
            config=arithmetic(engine.model),
            weights=tuple(sorted(engine.model.weights)),
            engine=engine.describe(),
            versions={"gnomon": version("gnomon"), "numpy": np.__version__, "python": platform.python_version()},
            schedule=schedule,
            prompt=sum(len(tokens) for tokens in feed[: total - steps]),
            digests_only=digests_only,
            ids=tuple(i for tokens in feed for i in tokens),
            failed=failed,
            unwatched=tuple(entry(record) for record in runs.records(feed)),
            records=writer.seq,
            records_sha256=writer.digest.hexdigest(),
        )
        writer.finish(manifest)
    return manifest


def results_of(engine: AnyEngine, state: State, logits: NDArray[np.float32], with_state: bool) -> Results:
    """What a step gave back, as a lane keeps it."""
    out: Results = {("result", Key("logits", (state.length - len(logits), state.length))): logits}
    if with_state:
        out |= {("state", Key(name, (0, state.length))): array for name, array in engine.export(state).items()}
    return out


def entry(record: Unwatched) -> dict[str, Any]:
    """A form of the unwatched run for the manifest, values left out."""
    found = record.mismatch
    said = {name: value for name, value in asdict(record).items() if name in UNWATCHED}
    if found is not None and not record.detail:
        said["detail"] = f"{found.count:,} of {found.values:,} values differ"
    return said


class TraceWriter:
    """A tap that writes what it is shown. Used in a `with`; without `finish` nothing remains."""

    def __init__(self, out: Path, digests_only: bool = False) -> None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"Expected a new or empty directory for the trace but {str(out)!r} exists")
        if not out.absolute().parent.is_dir():
            raise UsageError(f"Expected a directory to make the trace in but there is no {str(out.parent)!r}")
        self.out = out.absolute()
        self.aside = self.out.parent / f".{self.out.name}.{secrets.token_hex(4)}.partial"
        self.digests_only = digests_only
        self.seq = 0
        self.digest = hashlib.sha256()  # of tensors.jsonl
        self.ends: dict[tuple[str, str], int] = {}  # by kind and name: where the next record may begin
        self.shards = 0
        self.shard: ShardWriter | None = None

    def __enter__(self) -> "TraceWriter":
        sweep(self.out, within="tensors.jsonl")
        try:
            self.aside.mkdir()
            self.lines = (self.aside / "tensors.jsonl").open("xb")
            hold(self.lines)
        except OSError as error:
            shutil.rmtree(self.aside, ignore_errors=True)
            raise UsageError(f"Expected to write beside {str(self.out)!r} but got: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.lines.close()
        if self.shard is not None:
            self.shard.file.close()
        shutil.rmtree(self.aside, ignore_errors=True)  # gone already where `finish` has renamed it

    def wants(self, name: str) -> bool:
        return True

    def __call__(
        self, name: str, value: NDArray[Any], pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]
    ) -> None:
        span = (int(pos[0]), int(pos[-1]) + 1) if len(pos) else (0, 0)
        self.add("tap", name, value, span, op, inputs)

    def add_state(self, arrays: dict[str, NDArray[Any]], length: int) -> None:
        """The exported state of a sequence of `length` positions."""
        for name, array in arrays.items():
            self.add("state", name, array, (0, length), "export", (name,) if ("tap", name) in self.ends else ())

    def add(
        self, kind: TraceKind, name: str, array: NDArray[Any], pos: tuple[int, int], op: str, inputs: tuple[str, ...]
    ) -> None:
        """One more record, and the bytes behind it."""
        name = self._unused(kind, name, pos)
        record = record_of(array, kind, name, pos, uint16=UINT16[kind], seq=self.seq, op=op, inputs=inputs)
        shard = None if self.digests_only else self._store(record, array)
        line = json.dumps({**asdict(record), "shard": shard}, separators=(",", ":")).encode() + b"\n"
        self.lines.write(line)
        self.digest.update(line)
        self.seq += 1

    def finish(self, manifest: Manifest) -> None:
        """Complete the files and put the directory in its place."""
        if self.shard is not None:
            self.shard.close()
        self.lines.close()
        text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False) + "\n"
        (self.aside / "manifest.json").write_text(text, encoding="utf-8")
        try:
            self.aside.rename(self.out)
        except OSError as error:
            raise UsageError(f"Expected to make {str(self.out)!r} but got: {error.strerror}") from error

    def _store(self, record: TraceRecord, array: NDArray[Any]) -> str:
        pattern = bits.patterns(array)
        if self.shard is None or not self.shard.add(record.key, record.dtype, pattern):
            if self.shard is not None:
                self.shard.close()
            self.shard = ShardWriter(self.aside / f"shard-{self.shards:05}.safetensors")
            self.shards += 1
            self.shard.add(record.key, record.dtype, pattern)
        return self.shard.path.name

    def _unused(self, kind: str, name: str, pos: tuple[int, int]) -> str:
        """A second tensor of one name at the same position must not hide the first: it becomes `name#2`."""
        unique, nth = name, 1
        while pos[0] < self.ends.get((kind, unique), 0):
            nth += 1
            unique = f"{name}#{nth}"
        self.ends[kind, unique] = max(pos[1], pos[0] + 1)
        return unique
