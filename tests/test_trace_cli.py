"""The command line of traces: trace, compare, inspect."""

import json

import numpy as np
import pytest

from trace_edits import IDS, Opened, copied, make, run


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    return make(made / "one pass"), make(made / "row by row", "rows")


@pytest.mark.parametrize("options", [[], ["--schedule", "rows"], ["--digests-only"], ["--steps", "2"]], ids=str)
def test_trace_and_compare_agree_with_themselves(tmp_path, capsys, options):
    for name in ("a", "b"):
        assert run("trace", "micro", "--ids", "5,80,13", "-o", tmp_path / name, *options)[0] == 0
    capsys.readouterr()
    assert run("compare", tmp_path / "a", tmp_path / "b", "--json")[0] == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["records"][-1]["type"]) == ("identical", "summary")
    assert told["records"][0]["command"] == f"gnomon compare {tmp_path / 'a'} {tmp_path / 'b'}"


def test_exit_codes_are_the_verdict(traces, tmp_path, capsys):
    opened = copied(traces[0], tmp_path / "t")
    opened["embed"].view(np.uint32)[0, 0] ^= 1
    assert run("compare", traces[0], opened.save())[0] == 1
    assert "embed: ulp<=1" in capsys.readouterr().out
    opened.remove("blocks.0.ln1")
    assert run("compare", traces[0], opened.save())[0] == 3
    (opened.folder / "manifest.json").unlink()
    assert run("compare", traces[0], opened.folder)[0] == 2
    assert run("compare", opened.folder, traces[0])[0] == 2
    assert run("compare", traces[0], tmp_path / "none")[0] == 2
    assert run("compare", traces[0], tmp_path / "none", "--digests")[0] == 2
    assert run("trace", "micro", "--ids", "1", "-o", traces[0])[0] == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert [line[:16] for line in told] == ["gnomon: Expected"] * 5


def test_inspect_shows_a_trace_and_a_tensor(traces, capsys):
    assert run("inspect", "trace", traces[0])[0] == 0
    shown = capsys.readouterr().out
    assert "blocks.*.attn.scores" in shown
    assert " ".join(map(str, IDS)) in shown
    assert run("inspect", "tensor", traces[1], "embed", "--pos", "3", "--json")[0] == 0
    (view,) = json.loads(capsys.readouterr().out)
    first = Opened(traces[0])["embed"][3, 0]
    assert (view["pos"], int(view["first"][0]["bits"], 16)) == ([3, 4], int(first.view(np.uint32)))
    assert run("inspect", "tensor", traces[1], "embod")[0] == 2


def test_a_bar_that_nobody_watches_prints_nothing(tmp_path, capsys):
    assert run("trace", "micro", "--ids", "5,80,13", "-o", tmp_path / "t")[0] == 0
    told = capsys.readouterr()
    assert (told.err, len(told.out.splitlines())) == ("", 1)


def test_a_dump_of_many_names_does_not_fill_the_screen(traces, tmp_path, capsys):
    np.savez(tmp_path / "d.npz", **{f"layer{i}": np.ones((8, 3)) for i in range(100)})
    assert run("compare", traces[0], tmp_path / "d.npz")[0] == 3
    told = capsys.readouterr().out
    kinds = 100 + len(
        {r["name"].replace("blocks.1.", "blocks.0.") for r in Opened(traces[0]).records if r["kind"] == "tap"}
    )
    assert f"and {kinds - 20} more kinds of tensors" in told
    assert len(told.splitlines()) < 60
