"""Engine "mlx-metal" where there is no Metal: its dispatch on MLX arrays of the CPU, its kernels by the stand-in."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gnomon.compare.probe_short import short_probe
from gnomon.engines import engine, engines, full_name
from gnomon.gpu import mlx_metal
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError, NotRunError
from launched import PROMPT, assert_same_batches, assert_same_steps, assert_same_taps, differs, mixture
from running import STORAGES

mx = pytest.importorskip("mlx.core", reason="the arrays are MLX's")
pytest.importorskip("ziglang", reason="the stand-in needs the Clang of ziglang")
# MLX is there from here on
from gnomon.gpu import launch_stand_in_metal, mlx_metal_ops  # noqa: E402
from gnomon.gpu.launch import DeviceArray  # noqa: E402
from gnomon.gpu.mlx_metal_ops import MlxMetalOps  # noqa: E402

metal = launch_stand_in_metal.engine
Make = Callable[..., Any]


def made_by(make: Make) -> Engine[Any]:
    """micro, its kernels from something else than the stand-in as it is"""
    return Engine("planted", micro(), MlxMetalOps(make=make))


@pytest.mark.parametrize("kv", STORAGES)
@pytest.mark.parametrize("arm", STORAGES)
def test_no_form_changes_a_bit(arm: Any, kv: Any) -> None:
    assert_same_steps(metal(micro(), arm, kv), [5, 1], arm, kv)


@pytest.mark.parametrize("kv", STORAGES)
def test_growth_past_a_chunk_changes_no_bit(kv: Any) -> None:
    assert_same_steps(metal(micro(), kv=kv), [1, 3], kv=kv, start=126)


def test_a_neighbour_changes_no_bit() -> None:
    assert_same_batches(metal(micro()), [(3, 1), (1, 1), (1, 2)])


def test_pieces_of_a_long_step_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_metal_ops, "PIECE", 3)
    assert_same_steps(metal(micro()), [7])


def test_what_memory_held_before_changes_no_bit() -> None:
    assert_same_steps(metal(micro(), scratch_fill=float("nan")), [4, 1])


def test_a_tap_shows_the_tensors_of_the_reference() -> None:
    assert_same_taps(metal(micro()))


def test_experts_take_only_the_rows_that_chose_them() -> None:
    assert_same_steps(metal(mixture()), [4, 1])


def test_an_append_leaves_a_fork_as_it_was() -> None:
    shadow = metal(micro())
    _, state = shadow.forward(PROMPT[:3])
    before, other = shadow.export(state), shadow.fork(state)
    shadow.forward(PROMPT[:1], other)
    after = shadow.export(state)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_step_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the table itself; what stands in for a kernel evaluates what it is given."""
    shadow, calls = metal(micro()), []
    monkeypatch.setattr(mlx_metal_ops.mx, "eval", lambda *arrays: calls.append(sys._getframe(1).f_code.co_name))
    shadow.forward(PROMPT[:2])
    assert [name for name in calls if name != "call"] == ["finish"]


def test_the_device_answers_the_probe() -> None:
    assert not list(short_probe(MlxMetalOps(make=launch_stand_in_metal.make).devices()))


def test_without_metal_the_engine_says_why() -> None:
    if mx.metal.is_available():
        pytest.skip("there is Metal here")
    assert engines()["mlx-metal"] == "no Metal device is found here"
    with pytest.raises(NotRunError, match="Expected Metal for engine mlx-metal but no Metal device is found here"):
        engine("mlx-metal", micro())


@pytest.mark.parametrize(("metal_there", "expected"), [(True, "mlx-metal"), (False, "mlx-array")])
def test_mlx_is_the_best_table_that_is_there(metal_there: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_metal, "available", lambda: None if metal_there else "no Metal device is found here")
    assert full_name("mlx") == expected


def test_an_mlx_without_compile_options_is_asked_without_them() -> None:
    def older(name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str) -> Any:
        return launch_stand_in_metal.make(
            name, input_names, output_names, source, header, compile_options=launch_stand_in_metal.MATH
        )

    assert not differs(made_by(older), PROMPT[:2])


# Planted faults: each must show.


def changed(change: Callable[[dict[str, Any]], None], only: str = "") -> Make:
    """The stand-in, called with other arguments: by one kernel, or by all"""

    def make(**given: Any) -> Any:
        kernel = launch_stand_in_metal.make(**given)

        def call(**arguments: Any) -> Any:
            if only in ("", given["name"]):
                change(arguments)
            return kernel(**arguments)

        return call

    return make


def groups_for_threads(a: dict[str, Any]) -> None:
    """The grid as CUDA counts it"""
    a["grid"] = (a["grid"][0] // a["threadgroup"][0], 1, 1)


def group_short(a: dict[str, Any]) -> None:
    a["grid"] = (max(a["threadgroup"][0], a["grid"][0] - a["threadgroup"][0]), 1, 1)


def swapped(a: dict[str, Any]) -> None:
    x, y, *rest = a["inputs"]
    a["inputs"] = [y, x, *rest]


def test_a_grid_of_groups_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"Expected whole groups of 64 threads for gnomon_embed_F32 but got \(2, 1, 1\)"
    ):
        made_by(changed(groups_for_threads)).forward(PROMPT[:2])


@pytest.mark.parametrize(("change", "only"), [(group_short, ""), (swapped, "gnomon_swiglu")], ids=["grid", "arguments"])
def test_a_planted_fault_shows(change: Any, only: str) -> None:
    try:
        seen = differs(made_by(changed(change, only)), PROMPT[:3])
    except NonFiniteError:
        seen = True
    assert seen


def test_a_small_input_that_is_not_padded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MlxMetalOps, "upload", lambda self, x: DeviceArray(x.shape, mx.array(x.reshape(-1))))
    with pytest.raises(ValueError, match="Expected ids of gnomon_embed_F32 to have at least 8 elements but got 2"):
        metal(micro()).forward(PROMPT[:2])


def test_an_output_that_is_not_written_shows() -> None:
    """Outputs start as NaN; a size of nothing makes a kernel write nothing."""

    def nothing(a: dict[str, Any]) -> None:
        a["inputs"] = [*a["inputs"][:-1], mx.zeros_like(a["inputs"][-1])]

    with pytest.raises(NonFiniteError):
        made_by(changed(nothing, "gnomon_slice")).forward(PROMPT[:2])


def test_a_recurrent_state_that_is_not_set_to_zero_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mlx_metal_ops, "before", lambda old, field, zeros: DeviceArray(zeros.shape, zeros.memory + float("nan"))
    )
    with pytest.raises(NonFiniteError):
        metal(micro()).forward(PROMPT[:2])


def test_another_text_or_math_mode_is_refused() -> None:
    def relaxed(**given: Any) -> Any:
        return launch_stand_in_metal.make(**given | {"compile_options": {"math_mode": "relaxed"}})

    with pytest.raises(ValueError, match="Expected ASCII and"):
        made_by(relaxed).forward(PROMPT[:2])
