"""What only the host engine has: packed weights, plans, a thread team, a compiler."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from blocks_oracle import FORMATS as BLOCK_FORMATS
from gnomon.compare.same import assert_same_bytes
from gnomon.engines import engine, engines
from gnomon.gpu import host, host_build
from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_engine import HostEngine
from gnomon.gpu.host_library import FORMATS, Team, library
from gnomon.gpu.host_pack import pack
from gnomon.models import micro
from gnomon.reference.config import Rope
from gnomon.reference.errors import ModelError, NotRunError, UsageError
from gnomon.reference.load.stored import BLOCKS
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Rows
from gnomon.reference.weights import Weight
from running import LONG, STORAGES, assert_same_state, attention_only, in_batches, in_steps

pytestmark = pytest.mark.skipif(bool(engines()["host"]), reason=f"engine host: {engines()['host']}")

SIZES = {
    "one block": (64, 128),
    "tails of both": (70, 40),
    "two blocks, short chunk": (130, 288),
    "nine chunks": (66, 1100),
    "tiny": (3, 7),
}
SUPER = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")  # gguf reads them and does not write them
ROWS = (1, 2, 3, 5, 8, 13, 70)


def stored(dtype: str, N: int, K: int) -> NDArray[np.uint8]:
    """Random weights in a stored type: bytes [N, bytes per row]"""
    rng = np.random.default_rng(N * K)
    values, size = BLOCKS[dtype]
    x = rng.normal(size=(N, K)).astype(np.float32)
    if dtype in SUPER:
        data = rng.integers(0, 256, (N, K // values, size), dtype=np.uint8)
        for at in BLOCK_FORMATS[dtype][2]:
            scales = rng.normal(size=data.shape[:2]).astype("<f2")[..., None]
            data[..., at : at + 2] = scales.view(np.uint8).reshape(*data.shape[:2], 2)
        return data.reshape(N, -1)
    if dtype == "F16":
        x[0, :3] = 2.0**-24, -(2.0**-20), -0.0  # subnormals of the type
    return gguf.quants.quantize(x, gguf.GGMLQuantizationType[dtype]).view(np.uint8).reshape(N, -1)


def weights() -> Iterator[Any]:
    for dtype, (values, _) in BLOCKS.items():
        for name, (N, K) in SIZES.items():
            wide = -(-K // values) * values
            yield pytest.param(dtype, N, wide, id=f"{dtype} {name}")


@pytest.fixture(scope="module")
def team() -> Team:
    return Team(library(), 2)


@pytest.mark.parametrize(("dtype", "N", "K"), list(weights()))
def test_a_packed_weight_is_widened_to_no_other_value(team: Team, dtype: str, N: int, K: int) -> None:
    weight = Weight("w", dtype, (N, K), stored(dtype, N, K), "table")
    ids = Rows(np.arange(N, dtype=np.int32), np.arange(N, dtype=np.int64), ())
    reference, shadow = NumpyOps(), HostArrayOps(team)
    expected = reference.embed("", ids, reference.pack(weight))
    assert_same_bytes(shadow.embed("", ids, shadow.pack(weight)), expected, dtype)


@pytest.mark.parametrize("arm", STORAGES)
@pytest.mark.parametrize(("dtype", "N", "K"), list(weights()))
def test_no_row_count_changes_a_product(team: Team, arm: Any, dtype: str, N: int, K: int) -> None:
    weight = Weight("w", dtype, (N, K), stored(dtype, N, K), "linear")
    reference, shadow = NumpyOps(arm), HostArrayOps(team, arm)
    expected_w, w = reference.pack(weight), shadow.pack(weight)
    x = np.random.default_rng(7).normal(size=(max(ROWS), K)).astype(np.float32)
    bias = np.linspace(-1, 1, N, dtype=np.float32)
    expected = reference.linear("", x, expected_w, bias)
    for rows in ROWS:
        assert_same_bytes(shadow.linear("", x[:rows], w, bias), expected[:rows], f"{dtype}, {rows} rows")


def test_a_minimum_that_does_not_shift_exactly_takes_the_plain_path() -> None:
    """m - 16d is not exact in f32 where m is far below d: the kernel that relies on it must not be chosen."""
    data = stored("Q4_1", 64, 64).reshape(64, 2, 20)
    data[..., :2] = np.full((64, 2, 1), 1000.0, "<f2").view(np.uint8).reshape(64, 2, 2)
    data[..., 2:4] = np.full((64, 2, 1), 2.0**-24, "<f2").view(np.uint8).reshape(64, 2, 2)
    assert FORMATS[pack(Weight("w", "Q4_1", (64, 64), data.reshape(64, -1)), "f32").format] == "Q4M"
    assert FORMATS[pack(Weight("w", "Q4_1", (64, 64), stored("Q4_1", 64, 64)), "f32").format] == "Q4Half"


@pytest.mark.parametrize(("least", "form"), [(78, "Q8"), (77, "F32"), (0, "F32")])
def test_no_exponent_of_mxfp4_escapes_settling(team: Team, least: int, form: str) -> None:
    """Values below 2^-50 settle where a weight is widened, and a kernel that scales by 2^-51 would not settle them."""
    data = stored("MXFP4", 64, 96).reshape(64, 3, 17)
    data[..., 0] = np.random.default_rng(1).integers(least, 100, (64, 3))
    data[0, 0, 0] = least
    weight = Weight("w", "MXFP4", (64, 96), data.reshape(64, -1), "table")
    ids = Rows(np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int64), ())
    reference, shadow = NumpyOps(), HostArrayOps(team)
    assert FORMATS[pack(weight, "f32").format] == form
    expected = reference.embed("", ids, reference.pack(weight))
    assert_same_bytes(shadow.embed("", ids, shadow.pack(weight)), expected, form)


def test_an_int8_sum_that_could_overflow_is_refused() -> None:
    weight = Weight("wide", "F32", (1, 131104), np.zeros((1, 4 * 131104), np.uint8))
    with pytest.raises(ModelError, match="Expected at most 131072 terms in wide on the int8 arm but got 131104"):
        pack(weight, "int8")


@pytest.mark.parametrize("kv", STORAGES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(threads: int, kv: Any) -> None:
    reference, shadow = engine("numpy", micro(), kv=kv), host.engine(micro(), kv=kv, threads=threads)
    a, b = reference.new(), shadow.new()
    steps = [1, 130, 1, 18]
    assert_same_bytes(in_steps(shadow, b, LONG, steps), in_steps(reference, a, LONG, steps), "logits")
    assert_same_state(shadow.export(b), reference.export(a))


def test_a_changed_op_table_is_not_hidden_by_a_plan() -> None:
    shadow = engine("host", micro())
    expected = shadow.forward(LONG[:3])[0]
    original = shadow.ops.embed
    shadow.ops.embed = lambda at, rows, w: original(at, rows, w) * np.float32(2)  # type: ignore[method-assign]
    assert not np.array_equal(shadow.forward(LONG[:3])[0], expected)


def test_a_forked_child_does_not_wait_for_threads_it_has_not() -> None:
    """In a child of a fork only the calling thread exists; the same bytes come from it alone."""
    code = (
        "import os, gnomon; e = gnomon.engine('host', gnomon.load('micro')); a = e.forward([1, 2, 3])[0]\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if e.forward([1, 2, 3])[0].tobytes() == a.tobytes() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert done.returncode == 0


def test_a_forked_child_does_not_write_into_its_parent() -> None:
    """Neither into small memory nor into large, where weights and long caches lie."""
    code = (
        "import os\nfrom gnomon.gpu.host_memory import HUGE, aligned\n"
        "made = [aligned((size,), 'u1') for size in (64, HUGE)]\nfor a in made: a[:] = 0\n"
        "pid = os.fork()\n"
        "if pid == 0: [a.fill(1) for a in made]; os._exit(0)\n"
        "os.waitpid(pid, 0)\nraise SystemExit(sum(int(a.sum()) for a in made) > 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


# Steps of one row, which go on from the step before.


@pytest.mark.parametrize("kv", STORAGES)
def test_a_step_goes_on_from_no_other_step(team: Team, kv: Any) -> None:
    """One row at a time, while all that a step was prepared for changes: the sequence, its length, its caches, their
    room, a failed step, a batch in between."""
    reference = engine("numpy", attention_only(), kv=kv)
    shadow = HostEngine("host", attention_only(), HostArrayOps(team, "f32", kv, np.nan))

    def story(e: Any) -> list[Any]:
        first, out = e.new(), []
        for token in range(132):  # into a second chunk of positions, and a larger cache
            out.append(e.forward([token % 97], first)[0])
        e.forward([token % 97 for token in range(248)], first)
        out += [e.forward([token], first)[0] for token in range(8)]  # into a fourth chunk, which has room
        other = e.fork(first)
        for token in (5, 6, 7):
            out += [e.forward([token], first)[0], e.forward([token + 1], other)[0]]
        with pytest.raises(UsageError):
            e.forward([97], first)
        e.truncate(first, 40)
        out += [e.forward([8], first)[0], e.forward([9], first, want="all")[0]]
        out.append(e.step(Rows.of([(first, [1]), (other, [2])])))
        out += [e.forward([3], first)[0], e.forward([3, 4], other)[0]]
        assert len(e.forward([4], other, want="none")[0]) == 0
        e.truncate(first, 0)  # its caches are new ones
        out += [e.forward([token], first)[0] for token in (1, 2, 3)]
        moved = e.load(e.export(other), other.ids)
        out += [e.forward([5], moved)[0], e.forward([5], other)[0]]
        return [*out, *(array for state in (first, other) for _, array in sorted(e.export(state).items()))]

    for i, (expected, got) in enumerate(zip(story(reference), story(shadow), strict=True)):
        assert_same_bytes(got, expected, f"step {i}", uint16="bf16")


# Attention of many rows, whose lanes are queries and not positions.


@pytest.mark.parametrize("kv", STORAGES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "d", "window"),
    [(6, 2, 130, 140), (66, 1, 12, None), (3, 3, 64, 70)],
    ids=["more entries than a chunk holds", "more heads than lanes", "a window within the rows"],
)
def test_no_lane_takes_from_another_query(
    team: Team, heads: int, kv_heads: int, d: int, window: int | None, kv: Any
) -> None:
    model = attention_only(heads=heads, kv_heads=kv_heads, head_dim=d, rope=Rope(1e4, d), windows=(window, None))
    reference = engine("numpy", model, kv=kv)
    shadow = HostEngine("host", model, HostArrayOps(team, "f32", kv, np.nan))
    sequences = {"one": LONG, "two": LONG[::-1]}
    steps = [{"one": 9, "two": 70}, {"one": 130, "two": 66}, {"one": 11, "two": 14}]
    expected, a = in_batches(reference, sequences, steps)
    got, b = in_batches(shadow, sequences, steps)
    for name in sequences:
        assert_same_bytes(got[name], expected[name], name)
        assert_same_state(shadow.export(b[name]), reference.export(a[name]))


# The compiler.


def test_no_compiler_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_build, "COMPILERS", ("no-such-compiler",))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    host_build.compiler.cache_clear()
    with pytest.raises(NotRunError, match=r"Expected a C\+\+ compiler .* but none is found; install one"):
        host.engine(micro())
    host_build.compiler.cache_clear()


@pytest.mark.parametrize("text", ["0", "abc", "-1", "1025"])
def test_no_odd_number_of_threads_is_taken(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_THREADS", text)
    with pytest.raises(UsageError, match=r"Expected GNOMON_THREADS to be a number from 1 to 1024 but got"):
        host.engine(micro())


def test_a_compiler_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path))
    with pytest.raises(NotRunError, match=r"to compile the kernels but it failed: .*nonsense"):
        host_build.build("nonsense;", {})
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []  # nothing half-written


def test_a_compiler_that_makes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path))
    with pytest.raises(NotRunError, match="to compile the kernels but it made no library"):
        host_build.build("int one;", {}, cxx="true")


@pytest.mark.parametrize("left", [0, 1000])
def test_half_a_library_is_not_loaded(left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path))
    source = 'extern "C" int one() { return 1; }'
    path = host_build.build(source, {}).path
    half = path.read_bytes()[:left]
    path.unlink()  # this process has it in its memory
    path.write_bytes(half)
    again = f"from gnomon.gpu.host_build import build; print(build({source!r}, {{}}).library.one())"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_an_edited_kernel_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE", str(tmp_path))
    first, second = (host_build.build(f'extern "C" int one() {{ return {n}; }}', {}) for n in (1, 2))
    assert first.path != second.path
    assert first.sources != second.sources
    assert (first.library.one(), second.library.one()) == (1, 2)
    assert sorted(tmp_path.glob("*.so")) == sorted([first.path, second.path])


def other_compilers() -> list[str]:
    return [name for name in ("clang++", "clang++-19", "clang++-16", "clang++-14") if shutil.which(name)][:1]


def test_another_compiler_changes_no_bit() -> None:
    found = other_compilers()
    if not found:
        pytest.skip("no clang++ beside the default compiler")
    built = library(cxx=found[0])
    reference, shadow = NumpyOps(), HostArrayOps(Team(built, 2))
    x = np.random.default_rng(3).normal(size=(9, 288)).astype(np.float32)
    weight = Weight("w", "Q8_0", (70, 288), stored("Q8_0", 70, 288))
    expected = reference.linear("", x, reference.pack(weight))
    assert_same_bytes(shadow.linear("", x, shadow.pack(weight)), expected, found[0])
