"""A model is its weights and every field of its config that touches arithmetic: no file of one config is taken for one
of another, and the refusal names the field with both values."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from config_fields import IDS, MODEL, OTHERS, TOUCHING, UNTOUCHING, engine, perturbed
from gnomon.cli import app
from gnomon.cli.digest import digest
from gnomon.compare.bisect import bisect
from gnomon.compare.diff import diff
from gnomon.compare.explain.traces import explain_traces
from gnomon.compare.isolate import grafted, isolate
from gnomon.compare.record import Problem
from gnomon.compare.trace_compare import compare_traces
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace
from gnomon.decode.checkpoints import Checkpoints
from gnomon.decode.state_file import StateIdentityError, pack, receive, signed
from gnomon.decode.state_header import first_difference, identity
from gnomon.decode.transcript import IncomparableError, produce, verify
from gnomon.decode.transcript_file import parse
from gnomon.gates.receipt_compare import differences
from gnomon.gates.transcript import opened, sealed
from gnomon.reference import identity as covered
from gnomon.reference.chain import Chain, write
from gnomon.reference.config import Config
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.ledger import Ledger
from gnomon.serve.app import app as node
from serving import BINARY, file_of, listening, serving
from state_edits import metadata


def leaves(part: Any, at: str = "") -> Iterator[str]:
    """Every field of Config and of its parts, found from their types."""
    for field in fields(part):
        inner = next((kind for kind in (field.type, *get_args(field.type)) if is_dataclass(kind)), None)
        yield from leaves(inner, f"{at}{field.name}.") if inner else [f"{at}{field.name}"]


def test_no_field_of_the_config_is_left_unclassified() -> None:
    """A new field fails here until it is said whether it touches arithmetic, and is tried below."""
    assert sorted(leaves(Config)) == sorted([*TOUCHING, *UNTOUCHING])
    assert sorted(covered.UNTOUCHING) == sorted(UNTOUCHING)


def named(name: str) -> str:
    """What a refusal calls the field: of a list of one entry a layer, the entry."""
    return name + {"windows": "[0]", "kinds": "[0]", "moe.layers": "[0]"}.get(name, "")


def theirs(name: str) -> str:
    """The perturbed value as a refusal shows it."""
    value = OTHERS[name]
    return json.dumps(value[0] if named(name) != name else value, separators=(",", ":"))


@pytest.fixture(scope="module")
def own() -> Engine[Any]:
    return engine(MODEL)


every_field = pytest.mark.parametrize("name", OTHERS)


@pytest.fixture(scope="module")
def state(own: Engine[Any]) -> bytes:
    return file_of(own, IDS)


@every_field
def test_no_state_of_another_config_is_taken(state: bytes, name: str) -> None:
    other = engine(perturbed(name, OTHERS[name]))
    with pytest.raises(StateIdentityError) as raised:
        receive(other, [state], len(state))
    error = raised.value
    assert (error.exit_code, error.field, error.ours) == (3, named(name), theirs(name))
    assert error.theirs != error.ours
    assert f"Expected a state of {named(name)} {theirs(name)} but" in str(error)


@every_field
def test_no_checkpoint_of_another_config_is_found(own: Engine[Any], name: str) -> None:
    keys = [next(Checkpoints(one, 1).keys(IDS, [8])) for one in (own, engine(perturbed(name, OTHERS[name])))]
    assert keys[0] != keys[1]
    found = first_difference(identity(own), identity(engine(perturbed(name, OTHERS[name]))))
    assert found is not None
    assert (found.field, found.theirs) == (named(name), theirs(name))


def test_no_node_takes_a_state_of_another_config(own: Engine[Any]) -> None:
    """Every field against one node; then a fork to a peer that runs another config."""
    arrays = pack(own, own.forward(IDS)[1]).arrays
    with serving(own) as client:
        for name in OTHERS:
            whose = identity(engine(perturbed(name, OTHERS[name])))
            sent = b"".join(signed(whose, IDS, arrays).pieces())
            reply = client.post("/v1/state/import", content=sent, headers=BINARY)
            expected = {"error": "state_identity", "field": named(name), "theirs": theirs(name)}
            assert (reply.status_code, reply.json()) == (409, {**expected, "ours": reply.json()["ours"]}), name
        assert client.get("/v1/state").json()["data"] == []
        assert client.get("/v1/models").json()["data"][0]["gnomon"]["config"] == covered.arithmetic(MODEL)
    with listening(node(engine(perturbed("eps", 2e-5)))) as target, serving(own, peers={target: None}) as client:
        made = client.post("/v1/completions", json={"prompt": IDS, "max_tokens": 1}).json()["gnomon"]["state"]
        reply = client.post("/v1/fork", json={"state": made, "target": target})
        assert (reply.status_code, reply.json()["field"]) == (409, "eps")


def test_a_ledger_says_which_config_ran(own: Engine[Any], tmp_path: Path) -> None:
    with serving(own, ledger=Ledger(tmp_path / "ledger")):
        pass
    started = json.loads((tmp_path / "ledger").read_text().splitlines()[0])
    assert (started["schema"], started["config"]) == (2, covered.arithmetic(MODEL))


@pytest.fixture(scope="module")
def trace(own: Engine[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("traces") / "own"
    write_trace(own, IDS, out)
    return out


@every_field
def test_no_traces_of_two_configs_are_compared(trace: Path, tmp_path: Path, name: str) -> None:
    other = Path(shutil.copytree(trace, tmp_path / "other"))
    said = json.loads((other / "manifest.json").read_text())
    said["config"] = covered.arithmetic(perturbed(name, OTHERS[name]))
    (other / "manifest.json").write_text(json.dumps(said))
    expected, observed = Trace(trace), Trace(other)
    report = compare_traces(expected, observed)
    assert (report.verdict, report.exit_code, report.tensors) == ("not-run", 3, [])
    (problem,) = (r for r in report.records if isinstance(r, Problem))
    assert f"{named(name)}={theirs(name)}" in problem.message
    with pytest.raises(UsageError, match=rf"{re.escape(named(name))}=.* but got one of {re.escape(named(name))}="):
        explain_traces(expected, observed, MODEL)
    with pytest.raises(UsageError, match=re.escape(f"{named(name)}={theirs(name)}")):
        explain_traces(observed, expected, MODEL)


@every_field
def test_no_engines_of_two_configs_are_held_against_each_other(own: Engine[Any], tmp_path: Path, name: str) -> None:
    """diff, --isolate, --op-set and bisect; where the weights are the same, an op would be blamed for the config."""
    other = engine(perturbed(name, OTHERS[name]))
    for report in (diff(own, other, IDS, 0), isolate(own, other, IDS, 0)):
        assert (report.verdict, report.exit_code, report.tensors) == ("not-run", 3, [])
        (problem,) = (r for r in report.records if isinstance(r, Problem))
        assert f"{named(name)}={theirs(name)}" in problem.message
    for refused in (lambda: grafted(own, other, ["linear"]), lambda: bisect(own, other, IDS, log=tmp_path / "log")):
        with pytest.raises(UsageError, match=re.escape(f"{named(name)}={theirs(name)}")):
            refused()
    assert not (tmp_path / "log").exists()


def test_no_log_of_a_search_on_another_config_is_continued(own: Engine[Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    bisect(own, own, IDS[:1], steps=0, log=log)
    other = engine(perturbed("eps", 2e-5))
    with pytest.raises(UsageError, match=r"another search, of config\.eps=1e-05 where this one has config\.eps=2e-05"):
        bisect(other, other, IDS[:1], steps=0, log=log)


@pytest.fixture(scope="module")
def transcript(own: Engine[Any]) -> list[str]:
    return produce(own, IDS, 3).chain.lines


@every_field
def test_no_transcript_of_another_config_is_verified(transcript: list[str], name: str) -> None:
    with pytest.raises(IncomparableError) as raised:
        verify(engine(perturbed(name, OTHERS[name])), parse(transcript))
    error = raised.value
    assert (error.exit_code, error.field, error.loaded) == (3, named(name), theirs(name))
    assert f"{named(name)}={theirs(name)}, which is loaded" in str(error)


@every_field
def test_no_receipts_of_two_configs_are_compared_as_if_of_one(tmp_path: Path, name: str) -> None:
    files = []
    for number, model in enumerate((MODEL, perturbed(name, OTHERS[name]))):
        chain = Chain()
        record = {"type": "model", "name": "micro", "weights_sha256": "0" * 64, "config": covered.arithmetic(model)}
        chain.append({"type": "run"})
        chain.append(record)
        chain.close("PASS", None)
        write(tmp_path / str(number), chain)
        files.append(str(tmp_path / str(number)))
    result = CliRunner().invoke(app, ["receipts", "compare", *files])
    assert result.exit_code == 3
    assert f"incomparable: model micro has config.{name.partition('[')[0]}" in result.stdout


def test_a_digest_says_which_config_it_is_of(own: Engine[Any]) -> None:
    """So that two machines see another model, and not another result."""
    told = digest(own, IDS, 0)
    assert (told["model"], told["config"]) == (MODEL.digest, covered.arithmetic(MODEL))


# Files of before.


@pytest.mark.parametrize("lacks", ["eps", "rope", "windows", "moe", "plus_one"])
def test_what_an_old_file_lacks_is_said(state: bytes, trace: Path, transcript: list[str], tmp_path: Path, lacks: str):
    """Nobody can tell whose arithmetic it is of, so it is refused: exit code 2."""
    old = Path(shutil.copytree(trace, tmp_path / "old"))
    said = json.loads((old / "manifest.json").read_text())
    del said["config"]
    (old / "manifest.json").write_text(json.dumps({**said, "schema": 1}))
    lines = opened(transcript)
    del lines[0]["config"]
    lines[0]["schema"] = 1
    for read in (
        lambda: receive(engine(MODEL), [metadata(schema="1")(state)]),
        lambda: Trace(old),
        lambda: parse(sealed(lines)),
    ):
        with pytest.raises(Exception, match=rf"schema 1 lacks these fields of the model's config: .*\b{lacks}\b") as e:
            read()
        assert e.value.exit_code == 2


def test_what_an_old_receipt_lacks_is_said() -> None:
    new = {"type": "model", "name": "micro", "weights_sha256": "0", "config": covered.arithmetic(MODEL)}
    old = {name: value for name, value in new.items() if name != "config"}
    found = {d.field: (d.first, d.other_model) for d in differences([old], [new])}
    assert found["config.eps"] == found["config.rope.theta"] == ("(missing)", True)


# What is not identity.
