# mypy: disallow-subclassing-any=False
# Without torch installed its classes are of unknown type.
"""Train `tiny-hybrid`, a Qwen3.5 text model of about 2.2M parameters, on the text and the tokens of `tiny-dense`.

    python models/train_hybrid.py --out models/tiny_hybrid [--minutes 13 | --steps N]

Three delta layers, then one of gated attention. The sizes are odd on purpose: no width is a multiple of 64, the
value heads are twice the key heads and of another width, and only 10 of the 40 entries of a head are rotated.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from gnomon.models.command import run
from gnomon.models.delta import DeltaLayer, DeltaShape
from gnomon.models.text import END_ID
from gnomon.models.training import Recipe


@dataclass(frozen=True)
class Shape:
    """Sizes of the model, under the names of the Hugging Face configuration."""

    vocab_size: int = 2003
    hidden_size: int = 200
    intermediate_size: int = 532
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 40
    linear_num_key_heads: int = 3
    linear_num_value_heads: int = 6
    linear_key_head_dim: int = 24
    linear_value_head_dim: int = 28
    linear_conv_kernel_dim: int = 4
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02

    @property
    def layer_types(self) -> list[str]:
        """Every fourth layer is attention."""
        return ["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(self.num_hidden_layers)]

    @property
    def rope_parameters(self) -> dict[str, Any]:
        """Rotate the first quarter of a head."""
        return {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}

    @property
    def delta(self) -> DeltaShape:
        """Sizes of the delta layers."""
        return DeltaShape(
            width=self.hidden_size,
            key_heads=self.linear_num_key_heads,
            value_heads=self.linear_num_value_heads,
            dk=self.linear_key_head_dim,
            dv=self.linear_value_head_dim,
            conv=self.linear_conv_kernel_dim,
            eps=self.rms_norm_eps,
        )

    def config(self) -> dict[str, Any]:
        """The content of `config.json`, as transformers writes it for a Qwen3_5ForCausalLM."""
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5_text",
            **dataclasses.asdict(self),
            "layer_types": self.layer_types,
            "rope_parameters": self.rope_parameters,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": END_ID,
            "eos_token_id": END_ID,
            "pad_token_id": None,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "dtype": "bfloat16",
            "use_cache": True,
        }


def rope_tables(shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, rotated / 2] of position * theta^(-2i / rotated)."""
    rotated = int(shape.head_dim * shape.rope_parameters["partial_rotary_factor"])
    inverse = shape.rope_parameters["rope_theta"] ** -(torch.arange(0, rotated, 2, dtype=torch.float64) / rotated)
    angle = torch.arange(shape.max_position_embeddings, dtype=torch.float64)[:, None] * inverse
    return angle.cos().float(), angle.sin().float()


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first 2n entries of x [B, H, T, d], half layout, by tables [T, n]; the others pass."""
    n = cos.shape[-1]
    first, second, rest = x.split((n, n, x.shape[-1] - 2 * n), dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)


class Norm(nn.Module):
    """x * (1 + weight) / sqrt(mean(x^2) + eps) over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to [..., width]."""
        return rms_norm(x, self.weight.shape, 1.0 + self.weight, self.eps)


class GatedAttention(nn.Module):
    """Causal attention with grouped queries and q, k norms; each head's output is multiplied by sigmoid(its gate)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.group = shape.num_attention_heads // shape.num_key_value_heads
        queries = shape.num_attention_heads * shape.head_dim
        keys = shape.num_key_value_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, 2 * queries, bias=False)  # per head [query | gate]
        self.k_proj = nn.Linear(shape.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden_size, bias=False)
        self.q_norm = Norm(shape.head_dim, shape.rms_norm_eps)
        self.k_norm = Norm(shape.head_dim, shape.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        q, gate = self.q_proj(x).unflatten(-1, (-1, 2 * self.head_dim)).chunk(2, dim=-1)
        k, v = (part.unflatten(-1, (-1, self.head_dim)) for part in (self.k_proj(x), self.v_proj(x)))
        q, k, v = (part.transpose(1, 2) for part in (self.q_norm(q), self.k_norm(k), v))
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        k, v = (part.repeat_interleave(self.group, dim=1) for part in (k, v))
        seen = scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.head_dim**-0.5)
        out: Tensor = self.o_proj((seen.transpose(1, 2) * gate.sigmoid()).flatten(2))
        return out


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Delta rule or attention, then MLP, each behind its norm and added to the residual."""

    def __init__(self, shape: Shape, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.input_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        if kind == "linear_attention":
            self.linear_attn = DeltaLayer(shape.delta)
        else:
            self.self_attn = GatedAttention(shape)
        self.post_attention_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = Mlp(shape.hidden_size, shape.intermediate_size)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        a = self.input_layernorm(h)
        h = h + (self.linear_attn(a) if self.kind == "linear_attention" else self.self_attn(a, cos, sin))
        out: Tensor = h + self.mlp(self.post_attention_layernorm(h))
        return out


class Trunk(nn.Module):
    """Embedding, layers and final norm: what transformers calls `model`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape, kind) for kind in shape.layer_types)
        self.norm = Norm(shape.hidden_size, shape.rms_norm_eps)


class Hybrid(nn.Module):
    """The hybrid decoder with its head tied to the embedding; parameter names are those of transformers."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Trunk(shape)
        cos, sin = rope_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        # The projections that write to the residual start smaller, lest its size grow with depth.
        narrow = shape.initializer_range / math.sqrt(2 * shape.num_hidden_layers)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                writes = any(part in name for part in ("o_proj", "out_proj", "down_proj"))
                nn.init.normal_(weight, std=narrow if writes else shape.initializer_range)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [B, T] to logits [B, T, V]."""
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        h: Tensor = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            h = layer(h, cos, sin)
        return linear(self.model.norm(h), self.model.embed_tokens.weight)


if __name__ == "__main__":
    shape = Shape()
    run("tiny-hybrid", shape, lambda: Hybrid(shape), Recipe(batch=2), minutes=13.0)
