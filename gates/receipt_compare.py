"""Two receipts side by side: which fields differ, and whether that is a result or what explains one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.reference.chain import Record

RESULTS = ("verdict", "figures", "detail", "exit_code", "counts", "weights_sha256", "config", "header_sha256")
IDENTITY = ("weights_sha256", "config")  # of a model record: where these differ, no other result can be compared
MISSING = "(missing)"


@dataclass(frozen=True)
class Difference:
    """One field of one record: what either receipt holds there. result: it is an answer, and not a circumstance
    alone: only one receipt has the record, so there is nothing to compare it with"""

    record: str
    field: str
    first: Any
    second: Any
    result: bool
    alone: bool = False

    @property
    def other_model(self) -> bool:
        """The gates ran another model, or a receipt does not say by which config: its results are incomparable."""
        return self.record.startswith("model ") and self.field.partition(".")[0] in IDENTITY


def differences(first: Sequence[Record], second: Sequence[Record]) -> list[Difference]:
    """Every field that is not the same in both, records in the order of the first receipt. A record that one of them
    lacks is not compared, and then the sums over all records (counts, verdict) are circumstances, too; so are always
    the settings of an engine, the sources and the machine."""
    a, b = by_name(first), by_name(second)
    out = []
    unlike = a.keys() != b.keys()
    for name in {**a, **b}:
        if name not in a or name not in b:
            out.append(
                Difference(name, "record", *(("there", MISSING) if name in a else (MISSING, "there")), False, True)
            )
            continue
        left, right = dict(fields(a[name])), dict(fields(b[name]))
        for field in {**left, **right}:
            x, y = left.get(field, MISSING), right.get(field, MISSING)
            if x != y:
                answer = field.partition(".")[0] in RESULTS and not (unlike and a[name].get("type") == "summary")
                out.append(Difference(name, field, x, y, answer))
    return out


def by_name(records: Sequence[Record]) -> dict[str, Record]:
    """Records by what they are about; the chain's own fields are left out, since they follow from the others."""
    out: dict[str, Record] = {}
    for record in records:
        kept = {key: value for key, value in record.items() if key not in ("prev", "hash", "signature", "public_key")}
        parts = (record.get("type", "end"), *(record.get(key, "") for key in ("name", "gate", "engine", "fault")))
        out[" ".join(str(part) for part in parts if part)] = kept
    return out


def fields(record: Record, at: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a record by their dotted names."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from fields(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value
