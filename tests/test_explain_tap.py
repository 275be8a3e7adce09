"""A tensor of a run is explained from the right inputs: what the reference made comes out identical, tap by tap."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnomon.cli import main
from gnomon.compare.diff import diff
from gnomon.compare.explain.ops import OPS
from gnomon.compare.explain.script import script
from gnomon.compare.explain.tap import explain_divergence, explain_tap
from gnomon.compare.explain.traces import explain_traces
from gnomon.compare.lane import Array, Lane
from gnomon.compare.trace_read import Trace
from gnomon.compare.trace_write import write_trace
from gnomon.engines import engine
from gnomon.loading import load
from gnomon.models import micro
from gnomon.planted import sum_from_the_end
from gnomon.reference.errors import NotRunError, UsageError

IDS = [3, 14, 15, 92, 65, 35, 89, 79]
MODEL = micro()
CALLS = script(MODEL)
MENU = [name for name, call in CALLS.items() if call.op in OPS]


@pytest.fixture(scope="module")
def taps() -> dict[str, Array]:
    """Every tensor of one pass over IDS."""
    lane = Lane("observed", engine("numpy", MODEL))
    names = {*CALLS, *(f"blocks.{i}.kv.{x}" for i in range(MODEL.config.layers) for x in "kv")}
    return {key.name: array for key, array in lane.capture(IDS, names).items()}


@pytest.mark.parametrize("name", MENU)
def test_no_tap_is_explained_from_other_inputs(name: str, taps: dict[str, Array]) -> None:
    """For all rows, and for the later ones alone, as in a second step."""
    for start in (0, 5):

        def kept(name: str, first: int, stop: int) -> Array | None:
            return taps[name][first:stop] if name in taps else None

        if "attn." in name and any(word in name for word in (".scores", ".exp", ".denom", ".z")) and start:
            continue  # T is that of the step
        try:
            found = explain_tap(MODEL, name, (start, len(IDS)), taps[name][start:], kept)
        except NotRunError as error:
            pytest.skip(str(error))
        assert found.verdict == "identical", found.text()


def test_no_kind_of_tap_is_left_out() -> None:
    kinds = {CALLS[name].op for name in MENU}
    assert kinds >= {"linear", "rms_norm", "rope", "scores", "exp_scores", "denom", "mix", "swiglu", "add"}


def test_no_second_step_is_explained_from_the_first() -> None:
    """The card of a diff whose first difference lies in the third step."""
    right, wrong = engine("numpy", MODEL), engine("numpy", MODEL)
    scores = wrong.ops.scores

    def late(*args: object) -> object:
        s = scores(*args)
        return [np.roll(x, 1, axis=-1) if x.shape[-1] > len(IDS) + 1 else x for x in s]

    setattr(wrong.ops, "scores", late)  # noqa: B010 - on this one op table only
    report = diff(right, wrong, IDS, steps=3)
    card = report.first_divergence
    assert card is not None
    assert (card.op, card.step) == ("scores", 2)
    feed = [IDS, *([r] for r in greedy(3))]
    found = explain_divergence(card, wrong, feed)
    assert found.verdict == "not explained", found.text()
    assert found.shape[-1] == len(IDS) + 2
    assert explain_divergence(card, right, feed).verdict == "identical"


def greedy(steps: int) -> list[int]:
    return list(engine("numpy", MODEL).generate(IDS, steps))


@pytest.mark.parametrize("at", ["blocks.2.mlp.gate", "blocks.1.attn.q"])
def test_no_reordered_sum_goes_without_its_name(at: str) -> None:
    model = load("tiny-dense")
    right, wrong = engine("numpy", model), sum_from_the_end(engine("numpy", model), at)
    card = diff(right, wrong, IDS, steps=0).first_divergence
    assert card is not None
    found = explain_divergence(card, wrong, [IDS])
    assert (found.name, found.verdict) == (at, "explained"), found.text()
    assert all("reversed" in name for names in found.causes for name in names), found.text()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["gnomon", "explain", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, out, err

    return run


def test_no_exit_code_calls_a_difference_equal(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    at = "blocks.0.mlp.up"
    write_trace(engine("numpy", MODEL), IDS, tmp_path / "a")
    write_trace(sum_from_the_end(engine("numpy", micro()), at), IDS, tmp_path / "b")
    write_trace(engine("numpy", MODEL), IDS, tmp_path / "digests", digests_only=True)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert command(a, a)[0] == 0
    code, out, _ = command(a, b, "--json")
    found = json.loads(out)
    assert (code, found["type"], found["name"], found["verdict"]) == (1, "explanation", at, "explained")
    assert command(a, b, "--tap", "blocks.0.ln2")[0] == 0
    for words, message in (
        ((a, b, "--tap", "blocks.9.ln2"), "Expected a tensor of both traces but got 'blocks.9.ln2'"),
        ((a, b, "--model", "tiny-dense"), "Expected a trace of model tiny-dense"),
        ((a, str(tmp_path / "none")), "Expected a trace directory"),
    ):
        code, _, err = command(*words)
        assert code == 2
        assert message in err


def test_no_damage_is_explained(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(engine("numpy", MODEL), IDS, tmp_path / name)
    shard = tmp_path / "b" / "shard-00000.safetensors"
    data = bytearray(shard.read_bytes())
    data[-50] ^= 1  # of a state
    shard.write_bytes(data)
    with pytest.raises(
        UsageError, match=r"Expected a whole trace but in the observed one, .* do not match their record"
    ):
        explain_traces(Trace(tmp_path / "a"), Trace(tmp_path / "b"), MODEL)


def test_no_digest_is_explained(tmp_path: Path) -> None:
    write_trace(engine("numpy", MODEL), IDS, tmp_path / "a")
    wrong = sum_from_the_end(engine("numpy", micro()), "blocks.0.mlp.up")
    write_trace(wrong, IDS, tmp_path / "b", digests_only=True)
    with pytest.raises(UsageError, match="keeps digests only"):
        explain_traces(Trace(tmp_path / "a"), Trace(tmp_path / "b"), MODEL)
