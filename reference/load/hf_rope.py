"""The rotation that config.json asks for."""

from gnomon.reference.config import Rope, RopeScaling
from gnomon.reference.errors import ModelError
from gnomon.reference.load.options import Options
from gnomon.reference.strict_json import show

KINDS = ("default", "linear", "llama3")

# A Qwen3.5 rotates pairs by one of three positions (time, height, width). In text the three are equal, so which pair
# follows which changes nothing.
MROPE = ("mrope_interleaved", "mrope_section")


def rope(options: Options, head_dim: int, partial: float | None) -> Rope:
    """Base, width and scaling of the rotation

    transformers 4: `rope_theta`, `partial_rotary_factor`, and `rope_scaling` null or {"rope_type" or "type": ...}
    transformers 5: `rope_parameters` {"rope_theta": ..., "rope_type": ..., "partial_rotary_factor": ...}
    partial: the share of a head that turns where none is named; None in a family whose heads turn whole
    """
    scaling, parameters = options.take("rope_scaling"), options.take("rope_parameters")
    if scaling and parameters and scaling != parameters:
        raise options.wrong("rope_scaling", scaling, "rope_scaling to be the same as rope_parameters")
    given = scaling or parameters or {}
    if not isinstance(given, dict):
        raise options.wrong("rope_parameters" if parameters else "rope_scaling", given, "an object")
    inner = Options(given, f"the rope parameters of {options.where}")
    old_key, new_key = inner.take("type"), inner.take("rope_type")
    kind = next(key for key in (new_key, old_key, "default") if key is not None)
    if kind not in KINDS:
        raise ModelError(f"Expected a rope type among {', '.join(KINDS)} but {options.where} asks for {show(kind)}")
    theta = once(options, inner, "rope_theta", 10000.0)
    share = once(options, inner, "partial_rotary_factor", 1.0 if partial is None else partial)
    if partial is None and share != 1.0:
        raise options.wrong("partial_rotary_factor", share, "heads of this family to turn whole")
    if not 0.0 < share <= 1.0:
        raise options.wrong("partial_rotary_factor", share, "a share above 0 and at most 1")
    if not 0 < head_dim < 1 << 31:
        raise options.wrong("head_dim", head_dim, "a width from 1 to 2^31 - 1")
    stretch = None
    if kind == "linear":
        stretch = RopeScaling("linear", factor(inner, "factor"))
    elif kind == "llama3":
        low, high = factor(inner, "low_freq_factor"), factor(inner, "high_freq_factor")
        if low >= high:
            raise inner.wrong("high_freq_factor", high, f"a high_freq_factor above low_freq_factor={low}")
        stretch = RopeScaling(
            "llama3", factor(inner, "factor"), low, high, inner.size("original_max_position_embeddings")
        )
    inner.refuse_rest({}, () if partial is None else MROPE)
    return Rope(theta, int(head_dim * share), stretch)  # cut off, as transformers does


def once(options: Options, inner: Options, key: str, default: float) -> float:
    """A number that may stand in the config, in its rope parameters, or in both if it is the same."""
    given = options.left.get(key) is not None
    outer = options.number(key, default)
    value = inner.number(key, outer)
    if given and value != outer:
        raise ModelError(f"Expected one {key} in {options.where} but got {outer} and, in its rope parameters, {value}")
    return value


def factor(inner: Options, key: str) -> float:
    """A positive factor; required."""
    value = inner.number(key)
    if value <= 0.0:
        raise inner.wrong(key, value, "a positive factor")
    return value
