"""Tensors from elsewhere, under other names, against a trace."""

import json
import pickle
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from gnomon.compare.aliases import ALIASES
from gnomon.compare.record import Config
from gnomon.compare.trace_compare import compare_dump
from gnomon.compare.trace_import import Dump
from gnomon.compare.trace_map import read_map
from gnomon.compare.trace_read import Trace
from gnomon.reference.errors import GnomonError, NotRunError
from trace_edits import Opened, copied, make, run, unequal

LENS = {  # hook -> tap, heads
    "hook_embed": ("embed", 0),
    "blocks.{i}.attn.hook_q": ("blocks.{i}.attn.q", 4),
    "blocks.{i}.attn.hook_z": ("blocks.{i}.attn.z", 4),
    "blocks.{i}.mlp.hook_pre_linear": ("blocks.{i}.mlp.up", 0),
    "blocks.{i}.hook_resid_post": ("blocks.{i}.resid_post", 0),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    return make(made / "one pass"), make(made / "row by row", "rows")


@pytest.fixture
def hooks(traces):
    """What another program would have dumped: a batch of one, heads as an axis of their own."""
    opened, out = Opened(traces[0]), {}
    for foreign, (ours, heads) in LENS.items():
        for i in (0, 1) if "{i}" in foreign else (0,):
            value = opened[ours.replace("{i}", str(i))]
            shape = (1, 8, heads, -1) if heads else (1, 8, -1)
            out[foreign.replace("{i}", str(i))] = value.reshape(shape)
    return out


def against(trace, path, names=None):
    read = Trace(trace)
    return compare_dump(read, Dump(path, read, names and read_map(str(names))), {"dump": path.name})


def dump(arrays, folder, form):
    folder.mkdir(exist_ok=True)
    if form == "npy":
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return folder
    path = folder / f"dump.{form}"
    np.savez(path, **arrays) if form == "npz" else save_file(arrays, path)
    return path


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("schedule", [0, 1], ids=["one pass", "row by row"])
def test_a_dump_of_the_same_bytes_is_identical(traces, hooks, tmp_path, form, schedule):
    report = against(traces[schedule], dump(hooks, tmp_path / "d", form), "transformer-lens")
    assert (report.verdict, report.exit_code, len(report.tensors)) == ("identical", 0, len(hooks))
    (config,) = (r for r in report.records if isinstance(r, Config))
    assert config.observed["taps held against it"] == "9 of 43"


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_a_flipped_bit_of_a_dump_is_named(traces, hooks, tmp_path, form):
    hooks["blocks.1.attn.hook_q"] = hooks["blocks.1.attn.hook_q"].copy()
    hooks["blocks.1.attn.hook_q"].view(np.uint32)[0, 3, 2, 1] ^= 1
    report = against(traces[0], dump(hooks, tmp_path / "d", form), "transformer-lens")
    assert unequal(report) == [("blocks.1.attn.q", (0, 8), "ulp<=1")]
    assert report.first_divergence.mismatch.first[0].index == (3, 21)


def test_a_dump_under_our_names_needs_no_map_and_misses_what_it_lacks(traces, tmp_path):
    arrays = {name: a for (kind, name, _), a in Opened(traces[0]).arrays.items() if kind == "tap"}
    assert against(traces[0], dump(arrays, tmp_path / "all", "npz")).verdict == "identical"
    del arrays["blocks.1.ln2"]
    report = against(traces[1], dump(arrays, tmp_path / "less", "npz"))
    assert {(r.name, r.verdict) for r in report.tensors if r.verdict != "identical"} == {("blocks.1.ln2", "missing")}
    assert report.exit_code == 3


def test_a_layer_that_a_mapped_dump_lacks_is_missing(traces, hooks, tmp_path):
    del hooks["blocks.1.hook_resid_post"]
    report = against(traces[0], dump(hooks, tmp_path / "d", "npz"), "transformer-lens")
    assert (unequal(report), report.exit_code) == ([("blocks.1.resid_post", (0, 8), "missing")], 3)


def test_a_name_that_nothing_explains_is_extra(traces, hooks, tmp_path):
    report = against(traces[0], dump(hooks | {"mine": np.ones((8, 3))}, tmp_path / "d", "npz"), "transformer-lens")
    assert (unequal(report), report.exit_code) == ([("mine", (0, 8), "extra")], 3)


def test_bf16_is_another_type_and_not_rounded_away(traces, tmp_path):
    embed = Opened(traces[0])["embed"]
    raw = (embed.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    header = json.dumps({"embed": {"dtype": "BF16", "shape": [8, 40], "data_offsets": [0, len(raw)]}}).encode()
    (tmp_path / "d.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + raw)
    (tmp_path / "map").write_text("embed = embed")
    report = against(traces[0], tmp_path / "d.safetensors", tmp_path / "map")
    assert (unequal(report), report.exit_code) == ([("embed", (0, 8), "dtype")], 3)
    assert report.first_divergence.detail == "observed bf16, expected f32"


@pytest.mark.parametrize(
    "change", [lambda a: a[:, ::-1].T, lambda a: a[:-1], lambda a: a[None, None]], ids=["transposed", "cut", "nested"]
)
def test_a_dump_of_another_shape_is_not_compared(traces, tmp_path, change):
    np.save(tmp_path / "embed.npy", change(Opened(traces[0])["embed"]))
    (tmp_path / "map").write_text("embed = embed")
    report = against(traces[0], tmp_path / "embed.npy", tmp_path / "map")
    assert (unequal(report), report.exit_code) == ([("embed", (0, 8), "shape")], 3)


@pytest.mark.parametrize(
    "text",
    [
        "# our names\nw.{i}.q = blocks.{i}.attn.q  # the query\n\nw.e=embed\nscratch = -\n",
        '{"w.{i}.q": "blocks.{i}.attn.q", "w.e": "embed", "scratch": "-"}',
    ],
    ids=["lines", "json"],
)
def test_a_mapping_file_names_the_tensors(traces, tmp_path, text):
    opened = Opened(traces[0])
    arrays = {"w.e": opened["embed"], "scratch": np.ones(3)}
    arrays |= {f"w.{i}.q": opened[f"blocks.{i}.attn.q"] for i in (0, 1)}
    (tmp_path / "map").write_text(text)
    report = against(traces[0], dump(arrays, tmp_path / "d", "npz"), tmp_path / "map")
    assert (report.verdict, len(report.tensors)) == ("identical", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("w.e = embed\nw.x = ln_final", "a tensor named 'w.x', as map says"),
        ("w.e = embedding", "a tap for 'w.e' but the trace has no 'embedding'"),
        ("w.{i}.q = blocks.{i}.attn.k\nw.e = embed\nw.{i}.r = blocks.{i}.attn.q", "a tensor named 'w.{i}.r'"),
        ("w.e = embed\nw.0.q = embed", "one tensor for 'embed' but got 'w.e' and 'w.0.q'"),
        ("w.{i}.q = blocks.0.attn.q", "{i} once on both sides"),
        ("w.e = blocks.{i}.attn.q", "{i} once on both sides"),
        ("w.e = embed\nw.e = ln_final", "line 2 of map"),
        ("w.e", "line 1 of map"),
        ("= embed", "foreign = ours"),
        ("w.e =", "foreign = ours"),
        ("# nothing", "at least one line"),
        ('{"w.e": 3}', "foreign = ours"),
        ('{"w.e": "embed", "w.e": "embed"}', "stands there twice"),
    ],
)
def test_a_map_that_does_not_resolve_is_an_error(traces, tmp_path, text, message):
    opened = Opened(traces[0])
    arrays = {"w.e": opened["embed"]} | {f"w.{i}.q": opened[f"blocks.{i}.attn.q"] for i in (0, 1)}
    (tmp_path / "map").write_text(text)
    with pytest.raises(GnomonError) as raised:
        against(traces[0], dump(arrays, tmp_path / "d", "npz"), tmp_path / "map")
    assert message in str(raised.value)
    assert raised.value.exit_code == 2


def test_an_unknown_table_is_refused_by_name():
    with pytest.raises(GnomonError, match="hugging-face, transformer-lens, ggml"):
        read_map("pytorch")


def test_a_table_that_knows_no_name_is_an_error(traces, tmp_path):
    with pytest.raises(GnomonError, match="names that table hugging-face knows"):
        against(traces[0], dump({"x": np.ones(3)}, tmp_path / "d", "npz"), "hugging-face")


@pytest.mark.parametrize("table", ALIASES)
def test_every_alias_is_a_tap_of_a_dense_model(traces, table):
    taps = {r["name"] for r in Opened(traces[0]).records} | {f"blocks.0.attn.{n}" for n in ("q_norm", "k_norm")}
    ours = [target.replace("{i}", "0") for target in ALIASES[table].values() if target != "-"]
    assert set(ours) <= taps
    assert len(set(ours)) == len(ours)


def test_names_of_a_trace_are_mapped_as_well(traces, tmp_path):
    opened = copied(traces[0], tmp_path / "renamed")
    for record in opened.records:
        if record["name"].endswith("mlp.up"):
            old = (record["kind"], record["name"], record["pos"][0])
            record["name"] = record["name"].replace("blocks", "layer")
            opened.arrays[record["kind"], record["name"], record["pos"][0]] = opened.arrays.pop(old)
    (tmp_path / "map").write_text("layer.{i}.mlp.up = blocks.{i}.mlp.up")
    renamed = opened.save()
    assert run("compare", traces[0], renamed)[0] == 3
    assert run("compare", traces[0], renamed, "--map", tmp_path / "map")[0] == 0


@pytest.mark.parametrize("name", ["dump.npy", "dump.npz", "dump.safetensors"])
def test_what_cannot_be_read_is_one_sentence(traces, tmp_path, name):
    (tmp_path / name).write_bytes(b"not at all")
    with pytest.raises(GnomonError, match=rf"Expected .*{name}") as raised:
        against(traces[0], tmp_path / name)
    assert raised.value.exit_code == 2


class Opens:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("form", ["npy", "npz", "pickle as npy"])
def test_a_pickle_is_not_executed(traces, tmp_path, form):
    evil = np.array([Opens(tmp_path / "opened")], object)
    path = tmp_path / ("embed.npz" if form == "npz" else "embed.npy")
    if form == "npz":
        np.savez(path, embed=evil, allow_pickle=True)
    elif form == "npy":
        np.save(path, evil, allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(evil[0]))
    with pytest.raises(GnomonError, match=path.name) as raised:
        against(traces[0], path)
    assert raised.value.exit_code == 2
    assert not (tmp_path / "opened").exists()


def test_the_same_name_twice_is_refused(traces, tmp_path):
    np.savez(tmp_path / "a.npz", embed=np.ones(3))
    np.savez(tmp_path / "b.npz", embed=np.ones(3))
    with pytest.raises(GnomonError, match=r"in a\.npz and in b\.npz"):
        against(traces[0], tmp_path)


def test_torch_that_is_not_installed_is_not_run(traces, tmp_path, monkeypatch):
    (tmp_path / "dump.pt").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotRunError, match=r"Expected torch to read dump\.pt") as raised:
        against(traces[0], tmp_path / "dump.pt")
    assert raised.value.exit_code == 3


@pytest.mark.peers
def test_a_torch_dump_is_read_without_its_pickle(traces, hooks, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({name: torch.from_numpy(a.copy()) for name, a in hooks.items()}, tmp_path / "d.pt")
    assert against(traces[0], tmp_path / "d.pt", "transformer-lens").verdict == "identical"
    (tmp_path / "map").write_text("embed = embed")
    torch.save(torch.from_numpy(Opened(traces[0])["embed"]).bfloat16(), tmp_path / "embed.pt")
    assert against(traces[0], tmp_path / "embed.pt", tmp_path / "map").first_divergence.verdict == "dtype"
    torch.save({"embed": [print]}, tmp_path / "evil.pt")
    with pytest.raises(GnomonError, match=r"evil\.pt"):
        against(traces[0], tmp_path / "evil.pt")


# --- the command line -------------------------------------------------------------------------------------------------
