"""The numbers that wire a model. A family builds one from a config file; nothing in it is optional or guessed later."""

from dataclasses import dataclass

from gnomon.reference.errors import ModelError


@dataclass(frozen=True)
class Rope:
    """Rotary embedding: `theta` ** (-2i/dim) for the first `dim` entries of a head."""

    theta: float
    dim: int


@dataclass(frozen=True)
class Config:
    """Dense decoder. Widths are numbers of f32 values; `windows` holds one entry per layer (None: sees everything)."""

    family: str
    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    eps: float
    rope: Rope
    max_positions: int
    windows: tuple[int | None, ...]
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab", "width", "layers", "heads", "kv_heads", "head_dim", "ffn", "max_positions"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
                raise ModelError(f"Expected a positive integer below 2^31 but got {name}={value!r}")
        if self.heads % self.kv_heads:
            raise ModelError(
                "Expected n_heads to be a multiple of n_kv_heads "
                f"but got n_heads={self.heads}, n_kv_heads={self.kv_heads}"
            )
        if self.rope.dim % 2 or not 2 <= self.rope.dim <= self.head_dim:
            raise ModelError(
                f"Expected an even rotary width of at most head_dim={self.head_dim} but got {self.rope.dim}"
            )
        if not 0.0 < self.rope.theta < float("inf"):
            raise ModelError(f"Expected a positive rope theta but got rope_theta={self.rope.theta!r}")
        if not 0.0 < self.eps < 1.0:
            raise ModelError(f"Expected a norm epsilon between 0 and 1 but got eps={self.eps!r}")
        if len(self.windows) != self.layers:
            raise ModelError(f"Expected one window entry for each of {self.layers} layers but got {len(self.windows)}")
        for window in self.windows:
            if window is not None and (not isinstance(window, int) or window < 1):
                raise ModelError(f"Expected an attention window of at least 1 position but got {window!r}")
