"""The numbers that wire a model. A family builds one from a config file; nothing in it is optional or guessed later."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from typing import Literal

from gnomon.reference.errors import ModelError


@dataclass(frozen=True)
class RopeScaling:
    """How a model stretches its frequencies: "linear" divides them by `factor`; "llama3" divides the low ones and
    blends between the wavelengths original_positions / low and original_positions / high."""

    kind: Literal["linear", "llama3"]
    factor: float
    low: float = 1.0
    high: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True)
class Rope:
    """Rotary embedding: `theta` ** (-2i/dim) for the first `dim` entries of a head."""

    theta: float
    dim: int
    scaling: RopeScaling | None = None


@dataclass(frozen=True)
class Delta:
    """A layer of convolution and delta rule: head counts, head widths, and the taps of the convolution."""

    key_heads: int
    value_heads: int
    dk: int
    dv: int
    conv: int

    @property
    def channels(self) -> int:
        """q, k and v side by side."""
        return 2 * self.key_heads * self.dk + self.value_heads * self.dv


@dataclass(frozen=True)
class Moe:
    """A mixture of experts: `layers` have it, the others a plain mlp; shared_ffn = 0 means no shared expert."""

    experts: int
    top_k: int
    ffn: int
    normalise: bool
    layers: tuple[int, ...]
    shared_ffn: int = 0


@dataclass(frozen=True)
class Config:
    """A decoder. Widths are numbers of f32 values; `windows` and `kinds` hold one entry per layer.

    windows: None sees everything; kinds: "attention" or "delta"; gated: attention multiplies by sigmoid(gate)
    """

    family: str
    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    eps: float
    rope: Rope | None
    max_positions: int
    windows: tuple[int | None, ...]
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    gated: bool = False
    kinds: tuple[str, ...] = ()
    delta: Delta | None = None
    moe: Moe | None = None

    def __post_init__(self) -> None:
        for name, value in self._integers():
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
                raise ModelError(f"Expected a positive integer below 2^31 but got {name}={value!r}")
        if self.heads % self.kv_heads:
            raise ModelError(
                "Expected n_heads to be a multiple of n_kv_heads "
                f"but got n_heads={self.heads}, n_kv_heads={self.kv_heads}"
            )
        if not self.kinds:
            object.__setattr__(self, "kinds", ("attention",) * self.layers)
        self._check_rope()
        self._check_layers()

    def _integers(self) -> Iterator[tuple[str, object]]:
        """Every integer that an engine may hand to native code, which holds 32 bits, with its name."""
        for name in ("vocab", "width", "layers", "heads", "kv_heads", "head_dim", "ffn", "max_positions"):
            yield name, getattr(self, name)
        for window in self.windows:
            yield "window", 1 if window is None else window
        if self.rope is not None:
            yield "rope.dim", self.rope.dim
            yield "rope.original_positions", 1 if self.rope.scaling is None else self.rope.scaling.original_positions
        if self.delta is not None:
            yield from ((f"delta.{key}", value) for key, value in vars(self.delta).items())
        if self.moe is not None:
            yield from ((f"moe.{key}", getattr(self.moe, key)) for key in ("experts", "top_k", "ffn"))
            yield "moe.shared_ffn", self.moe.shared_ffn or 1

    def _check_rope(self) -> None:
        if self.rope is None:
            return
        if self.rope.dim % 2 or not 2 <= self.rope.dim <= self.head_dim:
            raise ModelError(
                f"Expected an even rotary width of at most head_dim={self.head_dim} but got {self.rope.dim}"
            )
        if not 0.0 < self.rope.theta < float("inf"):
            raise ModelError(f"Expected a positive rope theta but got rope_theta={self.rope.theta!r}")
        factor = 1.0 if self.rope.scaling is None else self.rope.scaling.factor
        if not 0.0 < factor < float("inf"):
            raise ModelError(f"Expected a positive factor of the rope scaling but got {factor!r}")
        fastest = max(0.0, -log2(self.rope.theta) * (self.rope.dim - 2) / self.rope.dim) + max(0.0, -log2(factor))
        if fastest > 64.0:  # times a position it might be beyond f32
            raise ModelError(
                f"Expected rope frequencies of at most 2^64 but rope_theta={self.rope.theta!r} and "
                f"factor={factor!r} give 2^{fastest:.0f}"
            )

    def _check_layers(self) -> None:
        if not 0.0 < self.eps < 1.0:
            raise ModelError(f"Expected a norm epsilon between 0 and 1 but got eps={self.eps!r}")
        if len(self.windows) != self.layers:
            raise ModelError(f"Expected one window entry for each of {self.layers} layers but got {len(self.windows)}")
        if len(self.kinds) != self.layers or any(kind not in ("attention", "delta") for kind in self.kinds):
            raise ModelError(f"Expected {self.layers} layers of attention or delta but got {list(self.kinds)}")
        if ("delta" in self.kinds) != (self.delta is not None):
            raise ModelError("Expected the sizes of delta layers exactly where there are delta layers")
        if self.delta is not None and self.delta.value_heads % self.delta.key_heads:
            raise ModelError(
                "Expected the value heads of a delta layer to be a multiple of its key heads "
                f"but got value_heads={self.delta.value_heads}, key_heads={self.delta.key_heads}"
            )
        if self.moe is not None and not 1 <= self.moe.top_k <= self.moe.experts:
            raise ModelError(f"Expected top_k from 1 to experts={self.moe.experts} but got top_k={self.moe.top_k}")
