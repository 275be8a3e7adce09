"""`linear` for `check-op` in the other arms, and with weights as GGUF files store them: what the kernel is handed then.

An arm hands over the weight as it multiplies, rounded or quantised; the activation row stays f32, and what becomes of
it is the kernel's part. Stored weights are handed over as bytes; the kernel widens and settles them itself.
"""

import gguf
import numpy as np
from numpy.typing import NDArray

from gnomon.compare.op_cases import Case, Draw
from gnomon.compare.op_table import LENGTHS, OPS, ROWS, WIDTHS, OpUnderTest
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.arms import Int8Matrix, arm_linear, int8_linear, pack
from gnomon.reference.ops.bf16 import from_bf16, round_bf16, to_bf16
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.tiling import pack_matrix
from gnomon.reference.widen import widen_stored

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

ARMS = ("f32", "bf16", "int8")
PRODUCTS = ("linear", "linear_bias")
# Stored type -> where in a block its f16 numbers stand, in bytes; all other bytes are quants and may be anything.
SCALES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2),
    "Q6_K": (208,), "F16": (0,), "BF16": (),
}  # fmt: skip
EXPONENT = {"tiny": 28, "huge": -42}  # brings f32 values of a kind into the range of f16: its subnormals, and 2^8 up


def form(name: str, arm: str = "f32", weights: str = "") -> OpUnderTest:
    """The op in an arm, with weights of a stored type ("" hands over f32, or what the arm makes of it).

    Raises UsageError for another op than a matrix product, an unknown arm, an unknown type.
    """
    if name not in OPS:
        raise UsageError(f"Expected an op among {', '.join(OPS)} but got {name!r}")
    if arm not in ARMS:
        raise UsageError(f"Expected arm to be one of {', '.join(ARMS)} but got {arm!r}")
    if weights and weights not in SCALES:
        raise UsageError(f"Expected weights to be one of {', '.join(SCALES)} but got {weights!r}")
    if (arm, weights) == ("f32", ""):
        return OPS[name]
    if name not in PRODUCTS:
        asked = f"--weights {weights}" if weights else f"--arm {arm}"
        raise UsageError(
            f"Expected {' or '.join(PRODUCTS)} for {asked}, since no other op has that form, but got {name!r}"
        )
    biased = name == "linear_bias"
    if weights:
        return _stored(weights, arm, biased)
    return _bf16(biased) if arm == "bf16" else _int8(biased)


def _op(weight: str, sizes: tuple[int, ...], arguments: object, contract: object, biased: bool) -> OpUnderTest:
    signature = f"x [rows, K], {weight}" + ", b [N]" * biased
    return OpUnderTest(signature, "[rows, N]", {"rows": ROWS, "N": WIDTHS, "K": sizes}, arguments, contract)  # type: ignore[arg-type]


def _bf16(biased: bool) -> OpUnderTest:
    def arguments(case: Case, draw: Draw) -> list[object]:
        x, w = draw(case["rows"], case["K"]), to_bf16(draw(case["N"], case["K"]))
        return [x, w, *([draw(case["N"])] if biased else [])]

    def contract(x: F32, w: NDArray[np.uint16], b: F32 | None = None) -> F32:
        return linear(round_bf16(x), pack_matrix(from_bf16(w)), b)

    return _op("w [N, K] bf16", LENGTHS, arguments, contract, biased)


def _int8(biased: bool) -> OpUnderTest:
    def arguments(case: Case, draw: Draw) -> list[object]:
        x, (q, s) = draw(case["rows"], case["K"]), quant(draw(case["N"], case["K"]))
        return [x, q, s, *([draw(case["N"])] if biased else [])]

    def contract(x: F32, q: NDArray[np.int8], s: F32, b: F32 | None = None) -> F32:
        return int8_linear(x, Int8Matrix(q.astype(np.float64), s), b)

    return _op("q [N, K] i8, s [N]", LENGTHS, arguments, contract, biased)


def _stored(weights: str, arm: str, biased: bool) -> OpUnderTest:
    size, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[weights]]
    sizes = LENGTHS if size == 1 else tuple(size * n for n in ((1, 2, 3, 4, 5, 9) if size == 32 else (1, 2, 3)))

    def arguments(case: Case, draw: Draw) -> list[object]:
        if case["K"] % size:
            raise UsageError(f"Expected K to be a multiple of {size} for {weights} but got K={case['K']}")
        x, w = draw(case["rows"], case["K"]), blocks(weights, case, draw, nbytes, case["K"] // size)
        return [x, w, *([draw(case["N"])] if biased else [])]

    def contract(x: F32, w: U8, b: F32 | None = None) -> F32:
        wide = settle(widen_stored(weights, w.reshape(len(w), -1)))  # [N, K]
        return arm_linear(x, pack(wide, arm), b)

    return _op(f"w [N, K / {size}, {nbytes}] u8, {weights} blocks as stored", sizes, arguments, contract, biased)


def blocks(weights: str, case: Case, draw: Draw, nbytes: int, count: int) -> U8:
    """Blocks [N, count, nbytes] of a stored type: scales of the case's kind, and every pattern of quants."""
    if weights == "BF16":
        return to_bf16(draw(case["N"], count)).astype("<u2").view(np.uint8).reshape(case["N"], count, 2)
    # The quants are random bytes, seeded by the case's own values.
    noise = np.random.Generator(np.random.PCG64(list(draw(4).view(np.uint32))))
    made: U8 = noise.integers(0, 256, (case["N"], count, nbytes), np.uint8)
    for at in SCALES[weights]:
        value = draw(case["N"], count) * np.float32(2.0 ** EXPONENT.get(case.kind, 0))
        made[..., at : at + 2] = value.astype("<f2").view(np.uint8).reshape(case["N"], count, 2)
    return made
