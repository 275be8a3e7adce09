"""`gnomon state`: a conversation as a file that moves between engines: written, restored, compared, corrupted."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import (
    ArmOption,
    EngineOption,
    IdsOption,
    JsonOption,
    KvOption,
    ModelArgument,
    PromptOption,
    StateArgument,
    present,
    prompt_ids,
    read_ids,
)
from gnomon.cli.show import Output
from gnomon.compare.state_diff import diff_states
from gnomon.compare.verdict import exit_code, worst
from gnomon.decode.state_file import StateIdentityError, open_state, read_state, write_state
from gnomon.decode.state_header import StateHeader, first_difference
from gnomon.gates.faults.states import FAULTS
from gnomon.reference.aside import write_aside
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.model import Model
from gnomon.reference.state import State

IS_THERE = present("a state file")
OutOption = Annotated[Path, typer.Option("--out", "-o", help="the file to write")]


def group() -> None:
    """Write, restore, compare and corrupt state files."""


def export_state(
    model: ModelArgument,
    out: OutOption,
    ids: IdsOption = None,
    prompt: PromptOption = None,
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Run a prompt and write the state that it leaves. The same state gives the same bytes on every engine."""
    writable(out)
    loaded = load(model)
    running = make_engine(engine, loaded, arm, kv)
    _, state = running.forward(prompt_ids(loaded, ids, prompt), want="none")
    told(write_state(running, state, out), out, as_json)
    return 0


def import_state(
    model: ModelArgument,
    file: StateArgument,
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    reexport: Annotated[Path | None, typer.Option("--reexport", help="write the restored state to this file")] = None,
    ids: IdsOption = None,
    prompt: PromptOption = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="greedy tokens after --ids or --prompt")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Restore a state, write it again, go on from it. A state of something else is refused by field: exit 3."""
    if reexport is not None:
        writable(reexport)
    loaded = load(model)
    following = _following(loaded, ids, prompt, steps)
    running = make_engine(engine, loaded, arm, kv)
    try:
        state = read_state(running, file)
    except StateIdentityError as error:
        if as_json:
            print(json.dumps({"error": "state_identity", **error.fields}))
            return error.exit_code
        raise
    found: dict[str, Any] = {"engine": running.name, "restored": state.length, "bytes": file.stat().st_size}
    if reexport is not None:
        header = write_state(running, state, reexport)
        found |= {"reexport": str(reexport), "payload_sha256": header.payload}
    if following:
        found |= went_on(running, state, following, steps)
        found["text"] = loaded.tokenizer.decode(found["ids"]) if loaded.tokenizer else None
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(name, value if not isinstance(value, list) else " ".join(map(str, value)))
    return 0


def diff(
    expected: Annotated[Path, typer.Argument(metavar="FILE", callback=IS_THERE, help="the expected state")],
    observed: Annotated[Path, typer.Argument(metavar="FILE", callback=IS_THERE, help="the other")],
    as_json: JsonOption = False,
) -> int:
    """Compare two state files: ids, conv, delta, K, V. Exit 0 identical, 1 other bytes, 3 not of one kind or length."""
    first, other = open_state(expected), open_state(observed)
    differs = first_difference(first.header.identity, other.header.identity)
    if differs is not None:
        if as_json:
            print(json.dumps({"error": "state_identity", **differs._asdict()}))
            return 3
        raise StateIdentityError(*differs)
    sections = diff_states(first.header.ids, first.arrays, other.header.ids, other.arrays)
    verdict = worst(section.verdict for section in sections)
    code = exit_code(verdict)
    if as_json:
        print(json.dumps({"verdict": verdict, "exit_code": code, "sections": [asdict(s) for s in sections]}))
        return code
    table = Table("section", "parts", "unequal", "verdict", "first", box=None, pad_edge=False)
    for s in sections:
        table.add_row(s.name, f"{s.parts:,}", f"{s.unequal:,}", s.verdict, s.first)
    Output(markup=False).print(table)
    print(verdict)
    return code


def swap(
    file: StateArgument,
    fault: Annotated[str, typer.Option("--fault", help=", ".join(FAULTS))],
    out: OutOption,
    other: Annotated[
        Path | None, typer.Option("--other", callback=IS_THERE, help="a state of another conversation")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Write a corrupted copy of a state file: kv, conv, delta, shift signed again; flip, position, truncated not."""
    if fault not in FAULTS:
        raise UsageError(f"Expected a fault among {', '.join(FAULTS)} but got {fault!r}")
    writable(out)
    data = FAULTS[fault](open_state(file), None if other is None else open_state(other))
    write_aside(out, [data])
    found = {"file": str(out), "fault": fault, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    print(json.dumps(found) if as_json else f"{out}: {fault}, {len(data):,} bytes, sha256 {found['sha256']}")
    return 0


def writable(path: Path) -> None:
    """Refuse a path that cannot be written before the long work, not after it."""
    if os.path.isdir(path) or not os.path.isdir(path.parent) or not os.access(path.parent, os.W_OK):
        raise UsageError(f"Expected a file in a directory that can be written but got {str(path)!r}")


def told(header: StateHeader, path: Path, as_json: bool) -> None:
    """What was written."""
    found = {"file": str(path), "bytes": path.stat().st_size, "position": len(header.ids), "payload": header.payload}
    if as_json:
        print(json.dumps({**found, **header.whose}))
    else:
        print(f"{path}: {found['position']} positions, {found['bytes']:,} bytes, payload sha256 {header.payload}")


def went_on(engine: Engine[Any], state: State, following: list[int], steps: int) -> dict[str, Any]:
    """Rows that follow a restored state. logits_sha256: over all of them, `following` and the chosen ids"""
    rows, made = hashlib.sha256(), list[int]()
    logits, _ = engine.forward(following, state, want="all")
    rows.update(logits.tobytes())
    for _ in range(steps):
        made.append(int(np.argmax(logits[-1])))
        logits, _ = engine.forward(made[-1:], state)
        rows.update(logits.tobytes())
    return {"ids": made, "logits_sha256": rows.hexdigest()}


def _following(model: Model, ids: str | None, prompt: str | None, steps: int) -> list[int]:
    """The token ids that come first after a restored state: a state does not hold the logits of its last row."""
    if ids is not None and prompt is not None:
        raise UsageError("Expected --ids or --prompt but got both")
    following: list[int] = read_ids(ids) if ids else []
    if prompt:
        if model.tokenizer is None:
            raise UsageError(f"Expected a tokenizer for text but {model.without_tokenizer}; give --ids instead")
        following = model.tokenizer.encode(prompt, add_special=False)
    if steps and not following:
        raise UsageError(f"Expected --ids or --prompt beside --steps {steps}, to go on with, but got neither")
    return following
