"""What a trace says about itself: its manifest, and one record per tensor. docs/traces.md is the format in words.

A record holds digests and counts, never values, so two traces can be compared, and joined row by row, without
the bytes of a single tensor.
"""

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from gnomon.compare import bits
from gnomon.compare.bits import Uint16
from gnomon.compare.verdict import Measure

SCHEMA = 2
BLOCK = 1 << 16  # values counted at a time: what is made of them stays in the cache

TraceKind = Literal["tap", "state"]
UINT16: dict[str, Uint16] = {"tap": "u16", "state": "bf16"}  # what a uint16 array holds


@dataclass(frozen=True)
class Counts:
    """finite: neither NaN nor infinite; live: finite and not zero; rows_without_one: for `exp`, else 0"""

    finite: int
    live: int
    rows_without_one: int


@dataclass(frozen=True)
class RowRecords:
    """The positions of a tensor, by column: digest (of `scores` and `exp`: see `seen`) and counts of each row."""

    sha256: tuple[str, ...] = ()
    finite: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    rows_without_one: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.sha256)

    def cut(self, start: int, stop: int) -> "RowRecords":
        """Rows [start, stop)."""
        columns = (self.sha256, self.finite, self.live, self.rows_without_one)
        return RowRecords(*(column[start:stop] for column in columns))  # type: ignore[arg-type]

    def total(self) -> Counts:
        """The counts of all rows together."""
        return Counts(sum(self.finite), sum(self.live), sum(self.rows_without_one))


@dataclass(frozen=True)
class TraceRecord:
    """One tensor.

    seq:   order of execution, from 0
    kind:  "tap" (shown inside a step) or "state" (exported at the end)
    pos:   [first, one past the last) absolute position
    dtype: "f32", "bf16", ... as in compare.bits
    rows:  a row per position where the first axis is positions; else none
    shard: the file that holds the bytes; None where only digests were kept
    """

    seq: int
    kind: TraceKind
    name: str
    pos: tuple[int, int]
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    stats: Counts
    rows: RowRecords
    op: str
    inputs: tuple[str, ...]
    shard: str | None

    @cached_property
    def key(self) -> str:
        """The name of its bytes in the shard."""
        return f"{self.kind}/{self.name}@{self.pos[0]}:{self.pos[1]}"

    @property
    def values(self) -> int:
        return math.prod(self.shape)

    def measure(self) -> Measure:
        """What `verdict.measure` would say of the bytes."""
        s = self.stats
        nbytes = self.values * BY_NAME[self.dtype].bits // 8
        return Measure(self.dtype, self.shape, self.values, nbytes, s.finite, s.live, s.rows_without_one, self.sha256)


@dataclass(frozen=True)
class Manifest:
    """What was run, and how. No host, user, time or path, so the same run gives the same bytes.

    model: name, and the digest over all weights; config: the fields of the model's config that touch arithmetic
    weights: their names, so that an input can be told from a tap
    engine: settings read back from the running engine
    ids:   every token that was run; the first `prompt` of them were given, the others chosen greedily
    schedule: how the prompt was cut into steps (compare/schedule.py)
    unwatched: how the same steps came out without a tap, one entry a form (compare/unwatched.py)
    failed: the step that was refused as not finite, in the engine's words; its taps are the last records
    records, records_sha256: lines of tensors.jsonl, and the digest of that file
    """

    contract: int
    model: str
    model_sha256: str
    config: dict[str, Any]
    weights: tuple[str, ...]
    engine: dict[str, str]
    versions: dict[str, str]
    schedule: str
    prompt: int
    digests_only: bool
    ids: tuple[int, ...]
    failed: str | None
    unwatched: tuple[dict[str, Any], ...]
    records: int
    records_sha256: str

    def to_json(self) -> dict[str, Any]:
        return {"format": "gnomon trace", "schema": SCHEMA} | asdict(self)

    def step_of(self, position: int) -> int:
        """0 is the prompt, then one per token."""
        return max(0, position - self.prompt + 1)


BY_NAME = {form.name: form for form in (*bits.FORMATS.values(), bits.BF16)}


def ragged(name: str) -> bool:
    """Whether the last axis of a tap grows with the positions of its step: `scores` and `exp` are [rows, heads, T]."""
    return name.partition("#")[0].rpartition(".")[2] in ("scores", "exp")
