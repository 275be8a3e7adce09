"""Engine "cupy" where there is no GPU: dispatch on NumPy memory, kernels by the stand-in, bits by the reference."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fake_cupy
import gnomon.gpu
from gnomon.compare.probe_short import short_probe
from gnomon.compare.same import assert_same_bytes
from gnomon.engines import engine, engines
from gnomon.gpu import cupy_engine, launch_pointers, launch_stand_in
from gnomon.gpu.launch import Block, Launch
from gnomon.gpu.launch_engine import LaunchEngine
from gnomon.gpu.launch_pointers import PointerOps
from gnomon.gpu.launch_stand_in import StandInDriver
from gnomon.models import micro
from gnomon.reference.errors import NonFiniteError, NotRunError
from launched import (
    PROMPT,
    assert_same_batches,
    assert_same_steps,
    assert_same_taps,
    differs,
    mixture,
)
from running import STORAGES

pytest.importorskip("ziglang", reason="the stand-in needs the Clang of ziglang")


def submissions(shadow: LaunchEngine) -> int:
    driver = shadow.device.driver
    assert isinstance(driver, StandInDriver)
    return driver.submissions


@pytest.mark.parametrize("kv", STORAGES)
@pytest.mark.parametrize("arm", STORAGES)
def test_no_form_changes_a_bit_on_cuda(arm: Any, kv: Any) -> None:
    assert_same_steps(launch_stand_in.cuda(micro(), arm, kv), [5, 1, 1], arm, kv)


@pytest.mark.parametrize("form", STORAGES)
def test_no_form_changes_a_bit_on_rocm(form: Any) -> None:
    assert_same_steps(launch_stand_in.hip(micro(), form, form), [5, 1], form, form)


def test_a_token_is_one_submission_on_cuda_and_launches_on_rocm() -> None:
    counts = []
    for make in (launch_stand_in.cuda, launch_stand_in.hip):
        shadow = make(micro())
        _, state = shadow.forward(PROMPT[:2])
        for token in PROMPT[2:5]:
            shadow.forward([token], state)
        counts.append(submissions(shadow))
    assert counts == [3, 0]


@pytest.mark.parametrize("kv", STORAGES)
def test_growth_past_a_chunk_changes_no_bit(kv: Any) -> None:
    """Keys and values move, and the bound launches with them."""
    assert_same_steps(launch_stand_in.cuda(micro(), kv=kv), [1, 1, 2, 1], kv=kv, start=126)


def test_a_neighbour_changes_no_bit() -> None:
    assert_same_batches(launch_stand_in.cuda(micro()), [(3, 1, 2), (1, 1, 1), (1, 1, 1), (1, 2, 1)])


def test_pieces_of_a_long_step_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_pointers, "PIECE", 3)
    monkeypatch.setattr(launch_pointers, "SCRATCH_FLOATS", 8000)
    assert_same_steps(launch_stand_in.cuda(micro()), [7, 1])


def test_what_memory_held_before_changes_no_bit() -> None:
    ops = PointerOps(StandInDriver("cuda"), scratch_fill=float("nan"))
    assert_same_steps(LaunchEngine("nan", micro(), ops), [4, 1])


def test_a_tap_shows_the_tensors_of_the_reference() -> None:
    assert_same_taps(launch_stand_in.cuda(micro()))


def test_experts_take_only_the_rows_that_chose_them() -> None:
    assert_same_steps(launch_stand_in.cuda(mixture()), [4, 1])


def test_a_fork_shares_nothing_that_changes() -> None:
    shadow, reference = launch_stand_in.cuda(micro()), engine("numpy", micro())
    _, state = shadow.forward(PROMPT[:3])
    other = shadow.fork(state)
    shadow.forward(PROMPT[:1], other)
    expected = reference.forward(PROMPT[3:4], reference.forward(PROMPT[:3])[1])[0]
    assert_same_bytes(shadow.forward(PROMPT[3:4], state)[0], expected, "logits")


def test_a_changed_op_table_is_not_hidden_by_a_plan() -> None:
    shadow = launch_stand_in.cuda(micro())
    ops, original = shadow.device, shadow.device.embed
    ops.embed = lambda at, rows, w: ops.add("", *[original(at, rows, w)] * 2)  # type: ignore[method-assign]
    assert differs(shadow, PROMPT[:2])


def test_the_device_answers_the_probe() -> None:
    devices = PointerOps(StandInDriver("cuda")).devices()
    assert not list(short_probe(devices))


# Planted faults: each must show.


def wrong_grid(patch: pytest.MonkeyPatch) -> None:
    """A group short"""
    launch = StandInDriver.launch

    def short(self: StandInDriver, one: Launch) -> None:
        launch(self, replace(one, grid=(max(1, one.grid[0] - 1), one.grid[1])))

    patch.setattr(StandInDriver, "launch", short)


def one_sequence(patch: pytest.MonkeyPatch) -> None:
    """The sequences of a step taken for one"""
    launch = StandInDriver.launch
    patch.setattr(StandInDriver, "launch", lambda self, one: launch(self, replace(one, grid=(one.grid[0], 1))))


def swapped(patch: pytest.MonkeyPatch) -> None:
    """gate and up in the place of each other"""
    swiglu = PointerOps.swiglu
    patch.setattr(PointerOps, "swiglu", lambda self, at, gate, up: swiglu(self, at, up, gate))
    call = PointerOps.call

    def other(self: PointerOps, name: str, inputs: Any, outputs: Any, sizes: Any, sequences: int = 1) -> Any:
        if name == "swiglu":
            inputs = {"x": inputs["y"], "y": inputs["x"]}
        return call(self, name, inputs, outputs, sizes, sequences)

    patch.setattr(PointerOps, "swiglu", swiglu)
    patch.setattr(PointerOps, "call", other)


def stale_ids(patch: pytest.MonkeyPatch) -> None:
    """A graph that is submitted again without the small arrays of its step"""
    patch.setattr(Block, "update", lambda self, arrays: made(self, arrays) if not self.host.any() else None)


made: Callable[[Block, Any], None] = Block.update


def unset(patch: pytest.MonkeyPatch) -> None:
    """What a recurrent layer held before its first row, not set to zero"""
    patch.setattr(PointerOps, "before", lambda self, state, layer, field: self.room(shape_of(state, layer, field)))


def shape_of(state: Any, layer: int, field: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = getattr(state.cache(layer), field).shape
    return shape


def skipped(patch: pytest.MonkeyPatch) -> None:
    """A kernel that is never launched, so that its output is what memory held"""
    launch = StandInDriver.launch
    patch.setattr(StandInDriver, "launch", lambda self, one: None if one.function == "slice" else launch(self, one))


@pytest.mark.parametrize("fault", [wrong_grid, swapped, unset, skipped])
def test_a_planted_fault_shows(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    try:
        seen = differs(launch_stand_in.cuda(micro()), PROMPT[:3])
    except NonFiniteError:
        seen = True
    assert seen


def test_a_graph_without_its_small_arrays_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    stale_ids(monkeypatch)
    with pytest.raises(AssertionError, match="logits at 4"):
        assert_same_steps(launch_stand_in.cuda(micro()), [2, 1, 1, 1])


def test_sequences_taken_for_one_show(monkeypatch: pytest.MonkeyPatch) -> None:
    one_sequence(monkeypatch)
    with pytest.raises((AssertionError, NonFiniteError)):
        assert_same_batches(launch_stand_in.cuda(micro()), [(2, 2)])


def test_a_size_no_group_has_room_for_is_refused() -> None:
    ops = PointerOps(StandInDriver("cuda"))
    with pytest.raises(Exception, match="Expected experts of route to be at most 1024 on a GPU but got 1025"):
        ops.route("", ops.array(np.zeros((1, 1025), np.float32)), 2, True)


# CuPy itself, by a module in its place.


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Any]:
    """The module that stands for cupy.cuda"""
    made = fake_cupy.modules()
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "gnomon.gpu.cupy_driver", raising=False)
    monkeypatch.delattr(gnomon.gpu, "cupy_driver", raising=False)
    monkeypatch.setattr("gnomon.gpu.host_build.cache_folder", lambda: tmp_path)
    launch_stand_in.stand_in("cuda")
    cupy_engine.available.cache_clear()
    yield made["cupy.cuda"]
    cupy_engine.available.cache_clear()
    sys.modules.pop("gnomon.gpu.cupy_driver", None)


def test_the_driver_casts_the_bytes_of_the_reference(faked: Any) -> None:
    shadow = cupy_engine.engine(micro())
    assert_same_steps(shadow, [3, 1, 1])
    facts = shadow.describe()
    assert (facts["device"], facts["compiler"], facts["submission"]) == (
        "a fake device", "NVRTC 12.9", "one graph per token",
    )  # fmt: skip


def test_no_unit_is_compiled_with_flush_to_zero_or_contraction(faked: Any) -> None:
    cupy_engine.engine(micro()).forward(PROMPT[:2])
    assert faked.nvrtc.compiled
    for options in faked.nvrtc.compiled:
        assert {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"} <= set(options)
        assert "--gpu-architecture=sm_90" in options
        assert not any("fast" in option for option in options)


def test_a_binary_is_made_once(faked: Any) -> None:
    for _ in range(2):
        cupy_engine.engine(micro()).forward(PROMPT[:2])
    assert len(faked.nvrtc.compiled) == len(set(faked.nvrtc.programs))


def test_a_unit_that_does_not_compile_says_why(faked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon.gpu import cupy_driver

    monkeypatch.setattr(cupy_driver, "device_unit", lambda target, kernels: "nonsense")
    with pytest.raises(NotRunError, match=r"Expected NVRTC 12.9 to compile kernel embed_F32 but .*: error: nonsense"):
        cupy_engine.engine(micro()).forward(PROMPT[:2])


def test_without_cupy_the_engine_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    cupy_engine.available.cache_clear()
    assert engines()["cupy"] == "cupy is not installed: pip install '.[cuda]' in the checkout, or the extra rocm"
    with pytest.raises(NotRunError, match="Expected a GPU for engine cupy but cupy is not installed"):
        engine("cupy", micro())
    cupy_engine.available.cache_clear()


@pytest.mark.parametrize(("count", "said"), [(0, "no GPU is found"), (None, "no GPU is found: no driver")])
def test_without_a_gpu_the_engine_says_why(faked: Any, count: int | None, said: str) -> None:
    def devices() -> int:
        if count is None:
            raise RuntimeError("no driver\nand more")
        return count

    faked.runtime.getDeviceCount = devices
    assert cupy_engine.available() == said
