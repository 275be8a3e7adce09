"""What a trace holds, and what is left when it cannot be completed."""

import getpass
import json
import os
import socket
import weakref
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from broken_engines import IDS, MODEL, TAPS, Constant, ShownOtherwise, reference
from gnomon.compare import trace_shard
from gnomon.compare.record import Problem
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from trace_edits import EveryType, Opened, compare, describe, make, unequal


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_every_tap_of_every_step_has_its_record_in_order(tmp_path):
    opened = Opened(make(tmp_path / "t", steps=2))
    taps = [(r["name"], r["pos"]) for r in opened.records if r["kind"] == "tap"]
    assert taps == [(name, pos) for pos in ([0, 8], [8, 9], [9, 10]) for name in TAPS]
    state = [(r["name"], r["pos"], r["op"]) for r in opened.records if r["kind"] == "state"]
    assert state == [(f"blocks.{i}.kv.{n}", [0, 10], "export") for i in (0, 1) for n in "kv"]
    assert [r["seq"] for r in opened.records] == list(range(len(opened.records)))
    assert opened.manifest["ids"] == [*IDS, *reference().generate(IDS, 2)]
    assert (opened.manifest["prompt"], opened.manifest["failed"]) == (8, None)


def test_the_bytes_are_what_the_engine_showed(tmp_path):
    shown = {}
    engine = ShownOtherwise(lambda name, value, pos: [(name, shown.setdefault(name, value.copy()), pos)])
    opened = Opened(make(tmp_path / "t", engine=engine))
    stored = load_file(opened.folder / "shard-00000.safetensors")
    for record in opened.records[: len(TAPS)]:
        name = f"tap/{record['name']}@0:8"
        assert stored[name].tobytes() == shown[record["name"]].tobytes()
        assert (list(stored[name].shape), record["dtype"]) == (record["shape"], "f32")
    assert opened.record("blocks.0.attn.q")["inputs"] == ["blocks.0.ln1", "blocks.0.attn.q.weight"]
    assert opened.record("blocks.0.attn.q")["op"] == "linear"


def test_digests_and_counts_are_those_of_the_format(tmp_path):
    opened = Opened(make(tmp_path / "t", engine=EveryType(), steps=1))
    for record in opened.records:
        told = json.loads(json.dumps(record))
        describe(record, opened.arrays[record["kind"], record["name"], record["pos"][0]])
        assert told == record


def test_the_same_run_gives_the_same_files_and_tells_nothing_of_the_machine(tmp_path):
    first, again = (files(make(tmp_path / name, steps=1)) for name in ("first", "again"))
    assert first == again
    text = (first["manifest.json"] + first["tensors.jsonl"]).decode()
    for private in (socket.gethostname(), getpass.getuser(), str(Path.home()), os.getcwd(), str(tmp_path)):
        assert private not in text or private in MODEL.name or len(private) < 5


def test_digests_only_keeps_no_value_and_the_same_digests(tmp_path):
    full, digests = make(tmp_path / "full"), make(tmp_path / "digests", digests_only=True)
    assert sorted(files(digests)) == ["manifest.json", "tensors.jsonl"]
    lines = [(f / "tensors.jsonl").read_text().splitlines() for f in (full, digests)]
    kept = [[json.loads(line) | {"shard": None} for line in side] for side in lines]
    assert kept[0] == kept[1]
    assert compare(full, digests).verdict == "identical"


@pytest.mark.parametrize("limit", ["bytes", "header"])
def test_tensors_go_to_the_next_shard_when_one_is_full(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(trace_shard, *(("SHARD", 4000) if limit == "bytes" else ("HEADER", 1000)))
    folder = make(tmp_path / "t")
    shards = sorted(folder.glob("shard-*.safetensors"))
    assert len(shards) > 4
    for shard in shards:
        tensors = load_file(shard)
        assert limit == "header" or len(tensors) == 1 or sum(t.nbytes for t in tensors.values()) <= 4000
    assert compare(make(tmp_path / "rows", "rows"), folder).verdict == "identical"


def test_memory_does_not_grow_with_the_trace(tmp_path):
    """A tensor may be dropped by the writer as soon as the next one comes."""
    alive, most = [], 0

    class Watched(np.ndarray):
        pass

    def show(name, value, pos):
        nonlocal most
        value = np.array(value).view(Watched)
        alive.append(weakref.ref(value))
        most = max(most, sum(ref() is not None for ref in alive))
        return [(name, value, pos)]

    make(tmp_path / "t", engine=ShownOtherwise(show), steps=1)
    assert most <= 2


@pytest.mark.parametrize("what", ["file", "full directory"])
def test_what_exists_is_not_overwritten(tmp_path, what):
    out = tmp_path / "t"
    if what == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(UsageError, match="new or empty directory"):
        make(out)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["t" if what == "file" else "mine"]


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "t").mkdir()
    assert compare(make(tmp_path / "t"), tmp_path / "t").verdict == "identical"


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no"):
        make(tmp_path / "no" / "t")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_an_interrupted_run_leaves_nothing(tmp_path, stop):
    def show(name, value, pos):
        if name == "blocks.1.ln2":
            raise stop
        return [(name, value, pos)]

    with pytest.raises(stop):
        make(tmp_path / "t", engine=ShownOtherwise(show))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ids", "steps", "message"),
    [([], 0, "at least one token"), ([1], -1, "steps=-1"), ([1], 4096, "max_positions=4096"), ([97], 0, "0 to 96")],
)
@pytest.mark.parametrize("schedule", ["whole", "rows"])
def test_what_cannot_be_run_is_refused_and_leaves_nothing(tmp_path, ids, steps, message, schedule):
    with pytest.raises(UsageError, match=message):
        write_trace(reference(), ids, tmp_path / "t", steps=steps, schedule=schedule)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schedule", ["whole", "rows"])
@pytest.mark.parametrize("start", [0, 5, 9])
def test_a_step_that_is_refused_is_part_of_the_trace(tmp_path, schedule, start):
    broken = make(tmp_path / "broken", schedule, Engine("broken", MODEL, Constant(np.nan, start)), steps=3)
    manifest = Trace(broken).manifest
    assert "gave NaN or infinity" in manifest.failed
    assert len(manifest.ids) == (max(8, start + 1) if schedule == "whole" else start + 1)
    assert all(r.kind == "tap" for r in Trace(broken).records)
    report = compare(make(tmp_path / "whole", schedule, steps=3), broken)
    assert [p.verdict for p in report.records if isinstance(p, Problem)] == ["nonfinite"]
    assert report.exit_code == 3  # what was not run any more is missing
    assert (report.first_divergence.tap, report.first_divergence.verdict) == ("embed", "nonfinite")


def test_a_tap_shown_twice_does_not_hide_its_first_value(tmp_path):
    twice = ShownOtherwise(lambda name, value, pos: [(name, value, pos)] * (1 + (name == "embed")))
    report = compare(make(tmp_path / "once"), make(tmp_path / "twice", engine=twice))
    assert unequal(report) == [("embed#2", (0, 8), "extra")]
