"""What compilers make of every kernel for GPUs that are not here: nothing fused, nothing flushed, nothing approximate.

Nothing runs, so no GPU is needed; the two compilers come with the dev extra and must be there.
"""

import re
import sys

import pytest

from generated_code import AMD_FUSED, NO_DIVISION, amd_assembly, ptx
from gnomon.gpu.host_build import kernel_sources
from gnomon.gpu.kernel_table import TABLE
from gnomon.gpu.kernel_units import BODIES, CUDA_FLAGS, HIP_FLAGS, common, device_unit, metal_kernel
from kernel_text import forbidden

AMD_TARGETS = ("gfx1100", "gfx942", "gfx1201")
PTX_FUSED = re.compile(r"\b(?:fma\.|mad\.(?:\w+\.)*f(?:16|32|64))")
PTX_LOOSE = re.compile(r"\.ftz|\.approx|div\.full|\b(?:atom|red)\.|\.sat\.f32")
# Every kernel, quickly: whether operations may fuse is decided by flags and words, not by how hard a compiler tries.
QUICK_CUDA = (*CUDA_FLAGS, "--Ofast-compile=mid")
QUICK_HIP = tuple("-O1" if flag == "-O3" else flag for flag in HIP_FLAGS)
FEW = ("linear_Q8", "linear_F32_rows", "row_sum", "embed_Q6")  # which divide nothing, with the flags of an engine


nvrtc = pytest.mark.skipif(sys.platform != "linux", reason="NVRTC has no wheel for this system")


@nvrtc
@pytest.mark.parametrize("names", [tuple(TABLE), FEW], ids=["every kernel", "with the flags of the engine"])
def test_no_ptx_is_fused(names: tuple[str, ...]) -> None:
    made = ptx(device_unit("cuda", [TABLE[name] for name in names]), CUDA_FLAGS if names == FEW else QUICK_CUDA)
    assert set(re.findall(r"\.entry gnomon_(\w+)\(", made)) == set(names)
    assert "mul.rn.f32" in made
    assert "add.rn.f32" in made
    assert PTX_FUSED.search(made) is None
    assert PTX_LOOSE.search(made) is None
    assert set(re.findall(r"\b(?:div|sqrt)\.(\w+)\.f32", made)) == ({"rn"} if names != FEW else set())


@pytest.mark.parametrize("target", AMD_TARGETS)
def test_no_amd_code_is_fused_but_for_division_and_square_root(target: str) -> None:
    made = amd_assembly(NO_DIVISION + device_unit("hip"), target, QUICK_HIP)
    assert set(re.findall(r"\.amdhsa_kernel gnomon_(\w+)", made)) == set(TABLE)
    assert AMD_FUSED.findall(made) == []


@pytest.mark.parametrize("target", AMD_TARGETS)
def test_no_amd_code_is_fused_with_the_flags_of_the_engine(target: str) -> None:
    made = amd_assembly(device_unit("hip", [TABLE[name] for name in FEW]), target)
    assert "v_mul_f32" in made
    assert "v_add_f32" in made
    assert AMD_FUSED.findall(made) == []


@pytest.mark.parametrize("target", AMD_TARGETS)
def test_division_and_square_root_are_corrected(target: str) -> None:
    made = amd_assembly(device_unit("hip", [TABLE["probe_inverse_sqrt"]]), target)
    assert "v_div_fixup_f32" in made
    assert "v_sqrt_f32" in made
    assert len(AMD_FUSED.findall(made)) > 4  # which are those that correct a first approximation


@pytest.mark.parametrize("name", BODIES)
def test_no_body_holds_what_is_forbidden(name: str) -> None:
    assert forbidden(kernel_sources()[name]) == []


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_no_unit_holds_what_is_forbidden(target: str) -> None:
    text = device_unit("cuda" if target == "cuda" else "hip")
    assert set(forbidden(text)) <= {
        "memory without a name",
        "a constant without a place",
    }  # of which these have one kind


@pytest.mark.parametrize("name", [k.name for k in TABLE.values() if not k.named("inout")])
def test_a_metal_kernel_is_one_that_mlx_takes(name: str) -> None:
    made = metal_kernel(TABLE[name])
    text = made.header + made.source
    assert text.isascii()
    assert len(made.input_names) + len(made.output_names) <= 31  # buffers of a Metal kernel
    assert text.index("#pragma METAL fp contract(off)") < text.index("namespace gnomon")
    assert "thread_position_in_threadgroup" in made.source
    for word in (*made.input_names, *made.output_names):  # MLX would add an argument
        assert f"{word}_shape" not in made.source
        assert f"{word}_strides" not in made.source
        assert f"{word}_ndim" not in made.source


def test_metal_asks_for_precise_functions() -> None:
    assert "metal::precise::sqrt" in common("metal")
    assert "#pragma METAL fp math_mode(safe)" in common("metal")


# --- the checks themselves ------------------------------------------------------------------------------------------
@nvrtc
def test_contracted_ptx_is_seen() -> None:
    plain = device_unit("cuda", [TABLE["linear_F32"]])
    for function, sign in (("__fadd_rn", "+"), ("__fmul_rn", "*")):
        plain = plain.replace(f"{function}(a, b)", f"((a) {sign} (b))")
    assert PTX_FUSED.search(ptx(plain, CUDA_FLAGS)) is None
    contracting = [flag.replace("--fmad=false", "--fmad=true") for flag in CUDA_FLAGS]
    assert PTX_FUSED.search(ptx(plain, contracting)) is not None


@nvrtc
def test_flushing_ptx_is_seen() -> None:
    flags = [flag.replace("--ftz=false", "--ftz=true") for flag in CUDA_FLAGS]
    assert PTX_LOOSE.search(ptx(device_unit("cuda", [TABLE["add"]]), flags)) is not None


@pytest.mark.parametrize("target", AMD_TARGETS)
def test_contracted_amd_code_is_seen(target: str) -> None:
    text = device_unit("hip", [TABLE["linear_F32"]]).replace("#pragma clang fp contract(off)", "")
    flags = [flag.replace("=off", "=fast") for flag in QUICK_HIP]
    assert AMD_FUSED.findall(amd_assembly(text, target, flags)) != []


@pytest.mark.parametrize(
    ("planted", "what"),
    [
        ("atomicAdd(&sum, x);", "an atomic"),
        ("float s = simd_sum(x);", "an operation over lanes"),
        ("y = fma(a, b, c);", "a fused multiply-add"),
        ("y = __fmaf_rn(a, b, c);", "a fused multiply-add"),
        ("y = rsqrt(x);", "an approximate function"),
        ("y = metal::fast::exp(x);", "an approximate function"),
        ("// 2\N{MULTIPLICATION SIGN}2", "a character outside ASCII"),
        ("static constexpr int HEAD = 0;", "a constant without a place"),
        ("FN float f(const float* x) {", "memory without a name"),
        ("FN float f(const Linear& l) {", "memory without a name"),
    ],
)
def test_a_planted_text_is_seen(planted: str, what: str) -> None:
    assert what in forbidden(f"{planted}\n")
