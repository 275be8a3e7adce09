# mypy: disallow-subclassing-any=False
# Without torch installed its classes are of unknown type.
"""The gated delta rule in torch: chunk by chunk for training, row by row as the definition, and the layer around it.

    S = S * exp(g);  S = S + k outer (beta * (v - S^T k));  o = S^T q          S [dk, dv], zero at the start

Training takes the chunk-parallel form. It is the same function, but not the same bytes: those of the model come
from the rows, one after another.

Source: Yang et al. 2024, arXiv 2412.06464; the wiring is that of Qwen3.5 in transformers.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, rms_norm, silu, softplus


@dataclass(frozen=True)
class DeltaShape:
    """Sizes of a delta layer; value head j reads the query and key of key head j // (value_heads / key_heads)."""

    width: int
    key_heads: int
    value_heads: int
    dk: int
    dv: int
    conv: int
    eps: float


def rows_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """One row at a time. q, k [B, H, T, dk], v [B, H, T, dv], g, beta [B, H, T] to o [B, H, T, dv]."""
    S = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for t in range(v.shape[2]):
        S = S * g[:, :, t].exp()[..., None, None]
        held = (S * k[:, :, t, :, None]).sum(dim=-2)
        new = (v[:, :, t] - held) * beta[:, :, t, None]
        S = S + k[:, :, t, :, None] * new[..., None, :]
        out.append((S * q[:, :, t, :, None]).sum(dim=-2))
    return torch.stack(out, dim=2)


def chunk_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk: int = 64) -> Tensor:
    """The same in chunks of `chunk` rows: inside a chunk one triangular system, between chunks the state.

    What row i writes is u_i = beta_i (v_i - decayed S^T k_i - sum over j < i of decay_ij (k_i . k_j) u_j): linear in
    the u of the chunk, hence the system; its right-hand side has a part from v and a part from the state S.
    """
    rows = v.shape[2]
    fill = -rows % chunk  # rows of zeros write nothing: their beta is 0
    q, k, v = (pad(x, (0, 0, 0, fill)).unflatten(2, (-1, chunk)) for x in (q, k, v))  # [B, H, chunks, chunk, d]
    g, beta = (pad(x, (0, fill)).unflatten(2, (-1, chunk)) for x in (g, beta))
    since = g.cumsum(dim=-1)  # log of the decay since the chunk began
    future = torch.ones(chunk, chunk, dtype=torch.bool, device=g.device).triu(1)
    decay = (since[..., :, None] - since[..., None, :]).masked_fill(future, -math.inf).exp()
    k_beta = k * beta[..., None]
    system = (k_beta @ k.mT) * decay
    right = torch.cat((v * beta[..., None], k_beta * since.exp()[..., None]), dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    from_values, from_state = solved.split((v.shape[-1], k.shape[-1]), dim=-1)
    within = (q @ k.mT) * decay
    q = q * since.exp()[..., None]
    k = k * (since[..., -1:] - since).exp()[..., None]
    whole = since[..., -1].exp()[..., None, None]

    S = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    out = []
    for c in range(v.shape[2]):
        new = from_values[:, :, c] - from_state[:, :, c] @ S
        out.append(q[:, :, c] @ S + within[:, :, c] @ new)
        S = S * whole[:, :, c] + k[:, :, c].mT @ new
    return torch.cat(out, dim=2)[:, :, :rows]


def l2_norm(x: Tensor) -> Tensor:
    """x / sqrt(sum(x^2) + 1e-6) over the last axis."""
    return x * (x.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()


class GatedNorm(nn.Module):
    """rms_norm(x) * weight * silu(z): the one norm of the family whose weight is not stored as w of 1 + w."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """[..., width] and [..., width] to [..., width]."""
        return rms_norm(x, self.weight.shape, self.weight, self.eps) * silu(z)


class DeltaLayer(nn.Module):
    """Projections, convolution, delta rule, gated norm, projection; parameter names are those of transformers."""

    def __init__(self, shape: DeltaShape) -> None:
        super().__init__()
        self.shape = shape
        keys, values = shape.key_heads * shape.dk, shape.value_heads * shape.dv
        self.in_proj_qkv = nn.Linear(shape.width, 2 * keys + values, bias=False)
        self.in_proj_z = nn.Linear(shape.width, values, bias=False)
        self.in_proj_b = nn.Linear(shape.width, shape.value_heads, bias=False)
        self.in_proj_a = nn.Linear(shape.width, shape.value_heads, bias=False)
        channels = 2 * keys + values
        self.conv1d = nn.Conv1d(channels, channels, shape.conv, groups=channels, padding=shape.conv - 1, bias=False)
        # A row forgets exp(-exp(A_log) * softplus(a + dt_bias)); the heads start out remembering one row to hundreds.
        step = torch.empty(shape.value_heads).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus(dt_bias) = step
        self.A_log = nn.Parameter(torch.empty(shape.value_heads).uniform_(1.0, 16.0).log())
        self.norm = GatedNorm(shape.dv, shape.eps)
        self.out_proj = nn.Linear(values, shape.width, bias=False)

    def heads(self, x: Tensor, width: int) -> Tensor:
        """[B, T, H * width] to [B, value_heads, T, width]."""
        x = x.unflatten(-1, (-1, width)).transpose(1, 2)
        return x.repeat_interleave(self.shape.value_heads // x.shape[1], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        s = self.shape
        keys, values = s.key_heads * s.dk, s.value_heads * s.dv
        mixed = self.conv1d(self.in_proj_qkv(x).mT)[..., : x.shape[1]].mT  # padded on both sides: the last rows go
        q, k, v = silu(mixed).split((keys, keys, values), dim=-1)
        q, k, v = (self.heads(part, width) for part, width in ((q, s.dk), (k, s.dk), (v, s.dv)))
        q, k = l2_norm(q) * s.dk**-0.5, l2_norm(k)
        beta = self.in_proj_b(x).sigmoid().mT
        g = (-self.A_log.exp() * softplus(self.in_proj_a(x) + self.dt_bias)).mT  # [B, value_heads, T]
        o = chunk_delta_rule(q, k, v, g, beta)
        o = self.norm(o.transpose(1, 2), self.in_proj_z(x).unflatten(-1, (-1, s.dv)))
        out: Tensor = self.out_proj(o.flatten(2))
        return out
