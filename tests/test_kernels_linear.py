"""linear and embed in every format and arm, as CUDA, HIP and Metal get them, run by the stand-in: N off the block of 64
outputs, K off the group of 32 terms and the chunk of 128 where the format lets it, rows off the tile of 4."""

import gguf
import numpy as np
import pytest

from blocks_oracle import FORMATS as BLOCK_FORMATS
from gnomon.gpu.host_library import FORMATS, WEIGHT_FORMATS
from gnomon.gpu.host_pack import STORED, Packed, pack
from gnomon.gpu.kernel_table import BIAS, RESIDUAL, TILE_ROWS
from gnomon.reference.load.stored import BLOCKS, DTYPES
from gnomon.reference.ops import arms
from gnomon.reference.ops.add import add
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen
from kernels_on import F32, TARGETS, Array, On, assert_same, numbers, on

N = 70
WIDTHS = {"F32": (1, 31, 129, 1100), "BF16": (45,), "F16": (130,)}  # 1100 terms: more chunks than a group has parts
ROWS = (1, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1)


@pytest.fixture(params=TARGETS, scope="module")
def run(request: pytest.FixtureRequest) -> On:
    return on(request.param)


EXACT = "Q4_1, even scales"  # for which there is a format of its own


def weight(name: str, N: int, K: int) -> Weight:
    """A matrix in a stored type"""
    x, dtype = numbers(N, K, seed=K), name.partition(",")[0]
    if dtype == "F32":
        data = x.view(np.uint8)
    elif dtype == "F16":
        data = x.astype(np.float16).view(np.uint8)
    elif dtype == "BF16":
        data = (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    elif dtype in ("Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"):  # which gguf only reads: any bits, with
        size, width = BLOCKS[dtype]  # scales that are numbers
        random = np.random.default_rng(K)
        data = random.integers(0, 256, (N, K // size, width), dtype=np.uint8)
        for at in BLOCK_FORMATS[dtype][2]:
            data[..., at : at + 2] = random.normal(size=(N, K // size, 1)).astype(np.float16).view(np.uint8)
        data = data.reshape(N, -1)
    else:
        data = gguf.quants.quantize(x, gguf.GGMLQuantizationType[dtype])
    if name == EXACT:
        data.reshape(N, -1, 20)[..., :4] = np.array([0.0625, -0.5], np.float16).view(np.uint8)
    return Weight("w", dtype, (N, K), data)


def linear(run: On, x: F32, w: Packed, scales: tuple[F32, F32] | None, bias: F32 | None, residual: F32 | None) -> F32:
    """By the kernel that an engine takes for so many rows"""
    rows, (outputs, K) = len(x), w.shape
    name = f"linear_{FORMATS[w.format]}" + ("_rows" if rows >= TILE_ROWS else "")
    none = np.full(8, np.nan, np.float32)
    inputs: dict[str, Array] = {"x": x, "w": w.words, "bias": none, "residual": none}
    inputs |= ({} if bias is None else {"bias": bias}) | ({} if residual is None else {"residual": residual})
    inputs |= {} if scales is None else {"sx": scales[0], "sw": scales[1]}
    given = BIAS * (bias is not None) + RESIDUAL * (residual is not None)
    return run(name, inputs, {"out": (rows, outputs)}, rows=rows, K=K, N=outputs, given=given)["out"]


def cases() -> list[tuple[str, int]]:
    """Types that a kernel reads; the others are widened at load, to F32."""
    read = [dtype for dtype in DTYPES if dtype == "F32" or dtype in STORED]
    stored = [(dtype, K) for dtype in read for K in WIDTHS.get(dtype, (256,) if BLOCKS[dtype][0] == 256 else (160,))]
    return [*stored, (EXACT, 160)]


def test_every_format_is_tried() -> None:
    assert {FORMATS[pack(weight(dtype, N, K), "f32").format] for dtype, K in cases()} == set(WEIGHT_FORMATS)


@pytest.mark.parametrize(("dtype", "K"), cases())
def test_linear_in_a_stored_format_changes_no_bit(run: On, dtype: str, K: int) -> None:
    w = weight(dtype, N, K)
    packed, matrix = pack(w, "f32"), arms.pack(widen(w), "f32")
    bias, residual = numbers(N, seed=1), numbers(max(ROWS), N, seed=2)
    for i, rows in enumerate(ROWS):
        x = numbers(rows, K, seed=rows)
        b, r = bias if i % 2 else None, residual[:rows] if i % 3 else None
        expected = arms.arm_linear(x, matrix, b)
        assert_same(linear(run, x, packed, None, b, r), expected if r is None else add(r, expected))


@pytest.mark.parametrize("K", [45, 160, 1100])
@pytest.mark.parametrize("arm", ["bf16", "int8"])
def test_linear_in_an_arm_changes_no_bit(run: On, arm: str, K: int) -> None:
    w, bias = weight("F32", N, K), numbers(N, seed=1)
    packed, matrix = pack(w, arm), arms.pack(widen(w), arm)
    for rows in ROWS:
        x = numbers(rows, K, seed=rows)
        if arm == "bf16":
            given, scales = run("round_bf16", {"x": x}, {"out": x.shape}, n=x.size)["out"], None
        else:
            assert packed.scale is not None
            made = run("quant_rows", {"x": x}, {"q": x.shape, "scale": (rows,)}, rows=rows, n=K)
            given, scales = made["q"], (made["scale"], packed.scale)
        assert_same(linear(run, given, packed, scales, bias, None), arms.arm_linear(x, matrix, bias))


@pytest.mark.parametrize(("dtype", "K"), cases())
def test_embed_changes_no_bit(run: On, dtype: str, K: int) -> None:
    w, ids = weight(dtype, N, K), np.array([0, 69, 63, 64, 1], np.int32)
    packed = pack(w, "f32")
    name = f"embed_{FORMATS[packed.format]}"
    made = run(name, {"table": packed.words, "ids": ids}, {"out": (5, K)}, rows=5, width=K)
    assert_same(made["out"], widen(w)[ids])
