"""Contract, sections 5 and 7: `linear` in its three arms, and what the key-value store keeps."""

from oracle.f32 import add, bits, chunked_dot, div, from_bits, mul, rint, settle

Matrix = list[list[float]]


def bf16(x: float) -> float:
    """x rounded to bf16, halves to even, and widened again"""
    word = bits(x)
    return from_bits((word + 0x7FFF + (word >> 16 & 1)) & 0xFFFF0000)


def quant(x: list[float]) -> tuple[list[int], float]:
    """A row as integers in [-127, 127] and their scale."""
    s = settle(div(max(abs(a) for a in x), 127.0))
    if s == 0.0:
        s = 1.0
    return [int(rint(div(a, s))) for a in x], s


def linear(x: Matrix, w: Matrix, b: list[float] | None = None, arm: str = "f32") -> Matrix:
    """x [R, K], w [N, K] as loaded (settled), b [N] -> [R, N]"""
    dots = {"f32": linear_f32, "bf16": linear_bf16, "int8": linear_int8}[arm](x, w)
    if b is None:
        return dots
    return [[settle(add(y, bias)) for y, bias in zip(row, b, strict=True)] for row in dots]


def linear_f32(x: Matrix, w: Matrix) -> Matrix:
    return [[settle(chunked_dot(row, weights)) for weights in w] for row in x]


def linear_bf16(x: Matrix, w: Matrix) -> Matrix:
    return linear_f32([[bf16(a) for a in row] for row in x], [[bf16(a) for a in weights] for weights in w])


def linear_int8(x: Matrix, w: Matrix) -> Matrix:
    quantised = [quant(weights) for weights in w]
    out = []
    for row in x:
        qx, sx = quant(row)
        dots = [(sum(a * b for a, b in zip(qx, qw, strict=True)), sw) for qw, sw in quantised]
        out.append([settle(mul(mul(float(dot), sx), sw)) for dot, sw in dots])
    return out


def stored(x: list[float], storage: str) -> list[float]:
    """One key or value of one position and head as every later read sees it; storage: f32, bf16 or int8"""
    if storage == "bf16":
        return [bf16(a) for a in x]
    if storage == "int8":
        q, s = quant(x)
        return [mul(float(a), s) for a in q]
    return x
