"""The stand-in sees what it is there to see: a fault planted into the generated text makes a case of it fail."""

import platform
from collections.abc import Callable

import pytest

import test_kernels_attention as states
import test_kernels_linear as linears
import test_kernels_rows as rows
from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_units import BODIES, Target, common
from gnomon.gpu.stand_in import StandIn
from gnomon.reference.errors import NotRunError
from kernels_on import On

Case = Callable[[On], None]
NORMS = ("rms_norm", "layer_norm", "l2_norm", "gated_norm", "row_sum")
LINEAR = ("linear_F32", "linear_F32_rows")


def of_storage(storage: str, append: str) -> tuple[str, ...]:
    each = (append, "attention_scores", "attention_mix", "tap_scores", "tap_mix")
    return (*(f"{name}_{storage}" for name in each), "attention_merge", "tap_exp")


ATTENTION, TAIL, TAIL_F32 = (
    of_storage("int8", "kv_append"),
    of_storage("int8", "kv_append_tail"),
    of_storage("f32", "kv_append_tail"),
)


def norms(run: On) -> None:
    rows.test_norms_and_sums_change_no_bit(run, 700)


def quant(run: On) -> None:
    rows.test_quant_changes_no_bit(run, 129)


def linear(run: On) -> None:
    linears.test_linear_in_a_stored_format_changes_no_bit(run, "F32", 1100)


def narrow(run: On) -> None:
    linears.test_linear_in_a_stored_format_changes_no_bit(run, "BF16", 45)


def attention(run: On) -> None:
    states.test_attention_changes_no_bit(run, "int8", "a window within a chunk")


def attention_f32(run: On) -> None:
    states.test_attention_changes_no_bit(run, "f32", "a window within a chunk")


# every BARRIER(); of the bodies, in order: what it stands in, target, kernels, a case that needs it
BARRIERS: list[tuple[str, Target, tuple[str, ...], Case]] = [
    ("chunked_sum", "cuda", NORMS, norms),
    ("layer_norm", "cuda", NORMS, norms),
    ("largest", "cuda", ("quant_rows",), quant),
    ("append_head", "hip", ATTENTION, attention),
    ("linear_tile, chunks", "hip", LINEAR, linear),
    ("linear_tile, next chunks", "cuda", LINEAR, linear),
    ("score_chunk", "cuda", ATTENTION, attention),
    ("attention_scores", "metal", TAIL, attention),
    ("attention_mix", "cuda", ATTENTION, attention),
    ("tap_exp", "hip", ATTENTION, attention),
    ("kv_append_tail, copy", "metal", TAIL_F32, attention_f32),
    ("kv_append_tail, next row", "metal", TAIL, attention),
]


def planted(target: Target, names: tuple[str, ...], edit: Callable[[str], str], *flags: str) -> On:
    """The kernels with a fault in their text, compiled in a hurry"""

    def edited(text: str) -> str:
        changed = edit(text)
        assert changed != text or flags, "Expected the fault to change the text"
        return changed

    return On(target, StandIn(target, [TABLE[name] for name in names], extra=("-O0", *flags), edit=edited))


def nth_replaced(text: str, old: str, new: str, n: int) -> str:
    parts = text.split(old)
    return old.join(parts[: n + 1]) + new + old.join(parts[n + 1 :])


def seen(run: On, case: Case) -> bool:
    try:
        case(run)
    except AssertionError:
        return True
    return False


def test_every_barrier_has_its_fault() -> None:
    text = common("cuda")
    assert text.index("BARRIER();") > text.index("namespace gnomon"), BODIES
    assert text.count("BARRIER();") == len(BARRIERS)


@pytest.mark.parametrize("i", range(len(BARRIERS)), ids=[name for name, *_ in BARRIERS])
def test_a_missing_barrier_is_seen(i: int) -> None:
    _, target, names, case = BARRIERS[i]
    assert seen(planted(target, names, lambda text: nth_replaced(text, "BARRIER();", ";", i)), case)


def test_a_barrier_that_some_threads_miss_is_seen() -> None:
    run = planted("cuda", ("quant_rows",), lambda text: text.replace("BARRIER();", "if (lane != 5) BARRIER();"))
    with pytest.raises(RuntimeError, match="Expected every thread of a group to reach the barriers of quant_rows"):
        quant(run)


WRONG: dict[str, tuple[Target, tuple[str, ...], Case, str, str]] = {
    "swapped arguments": ("cuda", NORMS, norms, " rms_norm(x, w, out", " rms_norm(w, x, out"),
    "swapped arguments of an entry": ("hip", NORMS, norms, "run_gated_norm(o, w, z", "run_gated_norm(z, w, o"),
    "sizes out of order": ("metal", LINEAR, linear, "int K = sizes[1]", "int K = sizes[2]"),
    "a group too few": ("cuda", NORMS, norms, "if (task >= tasks)", "if (task >= tasks - 1)"),
    "no guard past the grid": ("hip", NORMS, norms, "if (task >= tasks) return;", ""),
    "a group off by one": ("metal", NORMS, norms, "(int)threadgroup_position", "1 + (int)threadgroup_position"),
    "a lane off by one": ("cuda", ("quant_rows",), quant, "lane = threadIdx.x % 64", "lane = (threadIdx.x + 1) % 65"),
    "a chunk too long": ("hip", LINEAR, linear, "#define CHUNK 128", "#define CHUNK 160"),
    "the tail of a row": ("metal", ("linear_BF16", "linear_BF16_rows"), narrow, "stride, K, a", "stride, F::PER, a"),
    "the tail of the outputs": ("cuda", LINEAR, linear, "row + part >= first && n < l.N", "row + part >= first"),
    "the window": ("metal", TAIL, attention, "position - window + 1", "position - window"),
    "the last position": ("hip", ATTENTION, attention, "position <= last", "position < last"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_planted_fault_is_seen(what: str) -> None:
    target, names, case, old, new = WRONG[what]
    assert seen(planted(target, names, lambda text: text.replace(old, new)), case)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the flag is that of x86")
def test_contraction_is_seen() -> None:
    flags = ("-O1", "-mfma", "-ffp-contract=fast")
    assert seen(planted("hip", LINEAR, lambda text: text.replace("#pragma clang fp contract(off)", ""), *flags), linear)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int n, SHARED float* most LANE_PARAM", "int n, DEVICE float* most LANE_PARAM"),
        ("const device float* x,", "const constant float* x,"),  # as MLX declares fewer than 8 elements
        ("SHARED float* taken = ", "THREAD float* taken = "),
        ("run_quant_rows(const DEVICE float* x", "run_quant_rows(const THREAD float* x"),
    ],
)  # fmt: skip
def test_a_wrong_address_space_does_not_compile(old: str, new: str) -> None:
    with pytest.raises(NotRunError, match=r"no matching function|cannot initialize"):
        planted("metal", ("quant_rows",), lambda text: text.replace(old, new))


def test_no_fault_is_seen_where_there_is_none() -> None:
    sound: list[tuple[Target, tuple[str, ...], Case]] = [
        ("cuda", NORMS, norms),
        ("hip", LINEAR, linear),
        ("metal", TAIL, attention),
    ]
    for target, names, case in sound:
        assert not seen(planted(target, names, lambda text: text + "\n"), case), (target, names)
