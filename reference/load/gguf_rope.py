"""The rotation that a GGUF file asks for: metadata under rope., and the tensor rope_freqs.weight of a Llama 3.

llama.cpp's converter writes no parameters of the scaling `llama3`. It writes, for each pair of a head, the f32 number
that divides its frequency. Those numbers are rounded twice, and the contract scales real numbers; so they serve to
recognise the scaling, whose parameters then hold. Numbers that no known parameters give are refused.
"""

from collections.abc import Mapping

import mpmath
import numpy as np

from gnomon.reference.config import Rope, RopeScaling
from gnomon.reference.errors import ModelError
from gnomon.reference.load.options import Options
from gnomon.reference.load.stored import Stored
from gnomon.reference.ops.rope import scaled
from gnomon.reference.strict_json import show

FREQS = "rope_freqs.weight"
KINDS = ("none", "linear")
# Of every published Llama 3.1, 3.2 and 3.3; the factor, 8 or 32, is the largest number of the tensor.
LOW, HIGH, ORIGINAL = 1.0, 4.0, 8192
NEAR = 1e-5  # relative; the converter's f32 arithmetic is off by up to 3e-7 for the published models
MAX_HEAD = 4096  # each pair costs a calculation with real numbers
# They tell how a model was trained; only yarn, which is refused, would read them.
HARMLESS = ("rope.scaling.finetuned", "rope.scaling.original_context_length")


def rope(options: Options, tensors: Mapping[str, Stored], dim: int) -> Rope:
    """Base, width and scaling. dim: the width of a head, all of which turns. Raises ModelError."""
    theta = options.number("rope.freq_base", 10000.0)
    if theta <= 0.0:
        raise options.wrong("rope.freq_base", theta, "a positive number")
    kind = options.left.pop("rope.scaling.type", "linear")  # as llama.cpp reads a file that names only a factor
    if kind not in KINDS:
        raise options.wrong("rope.scaling.type", kind, f"a rope scaling among {', '.join(KINDS)}")
    older = options.number("rope.scale_linear", 1.0)
    factor = options.number("rope.scaling.factor", older)
    if factor <= 0.0:
        raise options.wrong("rope.scaling.factor", factor, "a positive factor")
    linear = RopeScaling("linear", factor) if kind == "linear" and factor != 1.0 else None
    if FREQS not in tensors:
        return Rope(theta, dim, linear)
    found = recognised(tensors[FREQS], theta, dim)
    if linear is not None and found is not None:
        raise ModelError(f"Expected one rope scaling but the file has {FREQS} and asks for factor {factor} as well")
    return Rope(theta, dim, found or linear)


def recognised(stored: Stored, theta: float, dim: int) -> RopeScaling | None:
    """The scaling `llama3` that gives these factors, f32 [dim / 2]; None where all of them are 1."""
    if stored.dtype != "F32" or stored.shape != (dim // 2,):
        raise ModelError(
            f"Expected {FREQS} to have type F32 and shape [{dim // 2}] but got {stored.dtype} {list(stored.shape)}"
        )
    if dim > MAX_HEAD:
        raise ModelError(f"Expected heads of at most {MAX_HEAD} values beside {FREQS} but got {dim}")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        factors = stored.data.view("<f4").astype(np.float64)
    if np.all(factors == 1.0):
        return None
    factor = float(factors.max())
    if not 1.0 < factor < float("inf"):  # NaN as well
        raise ModelError(f"Expected {FREQS} to hold factors of at least 1 but its largest is {factor}")
    scaling = RopeScaling("llama3", factor, LOW, HIGH, ORIGINAL)
    for i, (value, expected) in enumerate(zip(factors, divisors(theta, dim, scaling), strict=True)):
        if not abs(value - expected) <= NEAR * expected:
            raise ModelError(
                f"Expected {FREQS} to hold the factors of rope scaling llama3 ({factor=}, low_freq_factor={LOW}, "
                f"high_freq_factor={HIGH}, original_max_position_embeddings={ORIGINAL}) but entry {i} is "
                f"{show(float(value))}, not {expected:.7g}"
            )
    return scaling


def divisors(theta: float, dim: int, scaling: RopeScaling) -> list[float]:
    """What the scaling divides each frequency by: [dim / 2]"""
    exact = [mpmath.mpf(theta) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]
    return [float(freq / scaled(freq, scaling)) for freq in exact]
