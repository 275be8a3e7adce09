"""Stored weights widen to what a scalar reader of their format says, bit for bit."""

import numpy as np
import pytest
from numpy.typing import NDArray

from blocks_oracle import FORMATS, read_blocks
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen, widen_stored
from oracle.f32 import bits, settle

BLOCKED = [dtype for dtype, (_, values, _, _) in FORMATS.items() if values > 1]
HALVES = np.arange(65536, dtype="<u2")
SCALES = HALVES[(HALVES >> 10 & 31) < 31]  # every finite f16
TINY_SCALES = HALVES[(HALVES >> 10 & 31) == 0]  # subnormal f16 and both zeros


def random_blocks(dtype: str, rows: int, per_row: int, scales: NDArray[np.uint16], seed: int) -> NDArray[np.uint8]:
    """Blocks of random bytes, uint8 [rows, bytes per row], with f16 scales out of `scales`."""
    size, _, places, _ = FORMATS[dtype]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, per_row, size), np.uint8)
    for at in places:
        chosen = rng.choice(scales, (rows, per_row, 1))
        blocks[..., at : at + 2] = chosen.view(np.uint8)
    return blocks.reshape(rows, -1)


def expected_bits(dtype: str, data: NDArray[np.uint8]) -> list[int]:
    return [bits(value) for value in read_blocks(dtype, data.tobytes())]


@pytest.mark.parametrize("scales", ["all", "subnormal"])
@pytest.mark.parametrize("dtype", BLOCKED)
def test_no_block_widens_otherwise(dtype: str, scales: str) -> None:
    data = random_blocks(dtype, 35, 3, SCALES if scales == "all" else TINY_SCALES, seed=len(dtype))
    got = widen_stored(dtype, data)

    assert got.shape == (35, 3 * FORMATS[dtype][1])
    assert got.view(np.uint32).ravel().tolist() == expected_bits(dtype, data)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_no_half_widens_otherwise(dtype: str) -> None:
    finite = SCALES if dtype == "F16" else HALVES[(HALVES >> 7 & 255) < 255]
    data = finite.view(np.uint8).reshape(1, -1)

    assert widen_stored(dtype, data).view(np.uint32).ravel().tolist() == expected_bits(dtype, data)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_nan_and_infinity_stay_what_they_are(dtype: str) -> None:
    rest = HALVES[(HALVES >> 10 & 31) == 31] if dtype == "F16" else HALVES[(HALVES >> 7 & 255) == 255]
    got = widen_stored(dtype, rest.view(np.uint8).reshape(1, -1)).ravel()
    expected = np.array(read_blocks(dtype, rest.tobytes()))

    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_no_subnormal_and_no_negative_zero_leaves_widen(dtype: str) -> None:
    if dtype in BLOCKED:
        data = random_blocks(dtype, 4, 2, TINY_SCALES, seed=1)
    else:
        words = [
            0x80000000,
            0x00000001,
            0x80000001,
            0x26800000,
            0x267FFFFF,
            0xA6800000,
            0xA67FFFFF,
            0x3F800000,
        ]
        step = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
        data = np.array(words, "<u4").view(np.uint8).reshape(len(words), 4)[:, 4 - step :].reshape(1, -1).copy()
    values = read_blocks(dtype, data.tobytes())
    got = widen(Weight("w", dtype, (len(values),), data, "vector"))

    assert got.view(np.uint32).tolist() == [bits(settle(value)) for value in values]


@pytest.mark.parametrize("dtype", [dtype for dtype in BLOCKED if FORMATS[dtype][2]])
def test_an_infinite_scale_is_no_crash(dtype: str) -> None:
    size, _, places, _ = FORMATS[dtype]
    block = np.zeros((1, size), np.uint8)
    block[0, places[0] + 1] = 0x7C  # +infinity

    assert not np.isfinite(widen_stored(dtype, block)).any()


def test_no_exponent_of_mxfp4_is_a_crash() -> None:
    """All 256 of them with every nibble: the largest give infinity, and none a warning."""
    nibbles = np.arange(0, 256, 17, dtype=np.uint8)
    data = np.array([[e, *nibbles] for e in range(256)], np.uint8)
    got = widen_stored("MXFP4", data)

    assert got.view(np.uint32).ravel().tolist() == expected_bits("MXFP4", data)
    assert np.isinf(got[255]).any()
