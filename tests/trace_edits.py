"""Traces opened up, changed and closed again, with the standard library and NumPy alone, beside the code under test."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from broken_engines import IDS, MODEL, ShownOtherwise, reference
from gnomon.cli import main
from gnomon.compare.trace_compare import compare_traces
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace

STORED = {  # dtype of a record -> type in a shard, type in NumPy
    "f64": ("F64", "<f8"), "f32": ("F32", "<f4"), "f16": ("F16", "<f2"), "bf16": ("BF16", "<u2"),
    "i64": ("I64", "<i8"), "i32": ("I32", "<i4"), "i16": ("I16", "<i2"), "i8": ("I8", "<i1"),
    "u64": ("U64", "<u8"), "u32": ("U32", "<u4"), "u16": ("U16", "<u2"), "u8": ("U8", "<u1"), "bool": ("BOOL", "|b1"),
}  # fmt: skip
SHOWN = dict(  # taps that are shown in another type than f32, so that a trace holds every type there is
    zip(
        ("embed", *(f"blocks.0.{n}" for n in ("ln1", "attn.q", "attn.k", "attn.v", "attn.q_rot", "attn.k_rot",
         "attn.z", "attn.out", "resid_mid", "ln2"))),
        ("f64", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"),
        strict=True,
    )
)  # fmt: skip


def as_type(value, dtype):
    if dtype == "bool":
        return value > 0
    if dtype[0] == "f":
        return value.astype(STORED[dtype][1])
    return (np.abs(value * 20) + 1 if dtype[0] == "u" else value * 20).astype(STORED[dtype][1])


class EveryType(ShownOtherwise):
    """Shows some taps in other types, and exports a state in bf16, as uint16."""

    def __init__(self):
        super().__init__(lambda name, value, pos: [(name, as_type(value, SHOWN.get(name, "f32")), pos)])

    def export(self, state):
        return {name: (a.view(np.uint32) >> 16).astype(np.uint16) for name, a in super().export(state).items()}


def make(folder, schedule="whole", engine=None, **options):
    """A trace of the small model, or of another engine on it."""
    write_trace(engine or reference(), IDS, folder, schedule=schedule, **options)
    return folder


class Opened:
    """manifest, records: as parsed; arrays: by (kind, name, first position), bf16 as uint16, writable"""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.records = [json.loads(line) for line in (self.folder / "tensors.jsonl").read_text().splitlines()]
        self.arrays, shards = {}, {}
        for record in self.records:
            if record["shard"] not in shards:
                shards[record["shard"]] = self.shard(record)
            data, header, start = shards[record["shard"]]
            a, b = header[shard_key(record)]["data_offsets"]
            values = np.frombuffer(data[start + a : start + b], STORED[record["dtype"]][1]).reshape(record["shape"])
            self.arrays[key(record)] = values.copy()

    def shard(self, record):
        data = (self.folder / record["shard"]).read_bytes()
        length = int.from_bytes(data[:8], "little")
        return data, json.loads(data[8 : 8 + length]), 8 + length

    def record(self, name, kind="tap", start=0):
        return next(r for r in self.records if key(r) == (kind, name, start))

    def __getitem__(self, name):
        return self.arrays["tap", name, 0]

    def __setitem__(self, name, array):
        record = self.record(name)
        record["shape"] = list(array.shape)
        self.arrays[key(record)] = array

    def remove(self, name, kind="tap", start=0):
        self.records.remove(self.record(name, kind, start))
        del self.arrays[kind, name, start]

    def add(self, name, like):
        record = json.loads(json.dumps(self.record(like))) | {"name": name}
        self.records.append(record)
        self.arrays[key(record)] = self[like].copy()

    def save(self, hashed=True):
        """Write everything back; hashed: with records that tell the truth."""
        header, data = {}, b""
        for seq, record in enumerate(self.records):
            record["seq"] = seq
            record["shard"] = "shard-00000.safetensors"
            array = np.ascontiguousarray(self.arrays[key(record)]).reshape(record["shape"])
            if hashed:
                describe(record, array)
            raw = array.tobytes()
            offsets = [len(data), len(data) + len(raw)]
            header[shard_key(record)] = {
                "dtype": STORED[record["dtype"]][0], "shape": record["shape"], "data_offsets": offsets
            }  # fmt: skip
            data += raw
        for old in self.folder.glob("shard-*"):
            old.unlink()
        text = json.dumps(header).encode()
        (self.folder / "shard-00000.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        self.save_records()
        return self.folder

    def save_records(self):
        """Only the two text files."""
        lines = "".join(json.dumps(r) + "\n" for r in self.records).encode()
        self.manifest |= {"records": len(self.records), "records_sha256": hashlib.sha256(lines).hexdigest()}
        (self.folder / "tensors.jsonl").write_bytes(lines)
        (self.folder / "manifest.json").write_text(json.dumps(self.manifest))
        return self.folder


def key(record):
    return record["kind"], record["name"], record["pos"][0]


def shard_key(record):
    return f"{record['kind']}/{record['name']}@{record['pos'][0]}:{record['pos'][1]}"


def describe(record, array):
    """Digests and counts, as docs/traces.md defines them."""
    rows = array if record["kind"] == "tap" and array.ndim and len(array) == record["pos"][1] - record["pos"][0] else []
    last = record["name"].rpartition(".")[2]
    record["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()
    record["stats"] = counted(array, last, record["dtype"])
    record["rows"] = {"sha256": [], "finite": [], "live": [], "rows_without_one": []}
    for p, row in enumerate(rows, record["pos"][0]):
        cut = last in ("scores", "exp") and not row[..., p + 1 :].view("<u4").any()
        seen = np.ascontiguousarray(row[..., : p + 1]) if cut else row
        record["rows"]["sha256"].append(hashlib.sha256(seen.tobytes()).hexdigest())
        for column, count in counted(row, last, record["dtype"]).items():
            record["rows"][column].append(count)


def counted(array, last, dtype):
    if dtype == "bf16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    finite = np.isfinite(array)
    without = int((~(array == 1).any(axis=-1)).sum()) if last == "exp" else 0
    return {
        "finite": int(finite.sum()), "live": int((finite & (array != 0)).sum()), "rows_without_one": without
    }  # fmt: skip


def copied(folder, to):
    shutil.copytree(folder, to)
    return Opened(to)


def compare(expected, observed, **options):
    with_bytes = not options.get("digests")
    return compare_traces(Trace(expected, with_bytes), Trace(observed, with_bytes), **options)


def unequal(report):
    return [(r.name, r.pos, r.verdict) for r in report.tensors if r.verdict != "identical"]


__all__ = ["IDS", "MODEL", "EveryType", "Opened", "compare", "copied", "make", "unequal"]


def run(*arguments):
    """Exit code of the command."""
    before, sys.argv = sys.argv, ["gnomon", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        sys.argv = before
    return left.value.code or 0, None
