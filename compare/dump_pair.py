"""Two dumps of other software: one's own engine on two machines, or before and after a change, tensor by tensor.

Nothing is known of positions, ops or order: tensors of one name are compared as they are, byte by byte.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.bits import Patterns
from gnomon.compare.record import Config
from gnomon.compare.report import Report
from gnomon.compare.trace_align import align
from gnomon.compare.trace_compare import report_of
from gnomon.compare.trace_import import tensors
from gnomon.compare.trace_measure import cut, record_of
from gnomon.compare.trace_record import Manifest, TraceRecord

NOWHERE = (0, 1)  # positions: a tensor stands for itself
UNKNOWN = Manifest(0, "", "", {}, (), {}, {}, "whole", 0, False, (), None, (), 0, "")


class Plain:
    """A dump under its own names. records: hashed on opening, one tensor in memory at a time, by file and name"""

    manifest = UNKNOWN

    def __init__(self, path: Path) -> None:
        self.loads = dict(tensors(path))
        self.records: Sequence[TraceRecord] = [self._record(seq, name) for seq, name in enumerate(self.loads)]

    def array(self, record: TraceRecord) -> NDArray[Any]:
        return self.loads[record.name]()[0]

    def blocks(self, record: TraceRecord, values: int) -> Iterator[Patterns]:
        return cut(bits.patterns(self.array(record)), values)

    def _record(self, seq: int, name: str) -> TraceRecord:
        array, uint16 = self.loads[name]()
        return record_of(array, "tap", name, NOWHERE, uint16=uint16, seq=seq, op="dump")


def compare_dumps(expected: Path, observed: Path, command: str = "") -> Report:
    """The report on two dumps. Raises UsageError for what is none."""
    first, other = Plain(expected), Plain(observed)
    told = [
        {"dump": path.name, "tensors": str(len(side.records))} for path, side in ((expected, first), (observed, other))
    ]
    config = Config(told[0], told[1], (), 0, command)
    return report_of(align(first.records, other.records), first, other, [config], 1, False, command)
