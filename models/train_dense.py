# mypy: disallow-subclassing-any=False
# Without torch installed its classes are of unknown type.
"""Train `tiny-dense`, a Llama of about 3M parameters, on the standard library of the running interpreter.

    python models/train_dense.py --out models/tiny_dense [--minutes 35 | --steps N]

The sizes are odd on purpose: 6 heads of 36 do not make up the model width, and neither the width, the
vocabulary nor the intermediate width is a multiple of 64, so an engine that forgets its remainders shows it.
(The width is a multiple of the number of heads, though it need not be: transformers insists on it.)
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from gnomon.models.command import run
from gnomon.models.text import END_ID
from gnomon.models.training import Recipe


@dataclass(frozen=True)
class Shape:
    """Sizes of the model, under the names of the Hugging Face configuration."""

    vocab_size: int = 2003
    hidden_size: int = 204
    intermediate_size: int = 520
    num_hidden_layers: int = 6
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 36
    max_position_embeddings: int = 1024
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    initializer_range: float = 0.02

    def config(self) -> dict[str, Any]:
        """The content of `config.json`, as transformers writes it for a LlamaForCausalLM."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **dataclasses.asdict(self),
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": END_ID,
            "eos_token_id": END_ID,
            "pad_token_id": None,
            "hidden_act": "silu",
            "mlp_bias": False,
            "pretraining_tp": 1,
            "rope_scaling": None,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
        }


def rope_tables(shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head_dim / 2] of the f32 product position * theta^(-2i / head_dim)."""
    exponent = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    inverse = (shape.rope_theta**-exponent).float()
    # The angle is rounded to f32 as engines round it; exact angles differ visibly at high positions.
    angle = (torch.arange(shape.max_position_embeddings)[:, None].float() * inverse).double()
    return angle.cos().float(), angle.sin().float()


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x [B, H, T, d], half layout: element i goes with i + d/2 (rotate_half of transformers)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Norm(nn.Module):
    """x * weight / sqrt(mean(x^2) + eps) over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to [..., width]."""
        return rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Causal attention with grouped queries: query head i reads key-value head i // (H / Hkv)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.group = shape.num_attention_heads // shape.num_key_value_heads
        queries = shape.num_attention_heads * shape.head_dim
        keys = shape.num_key_value_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        q, k, v = (
            part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for part in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        k, v = (part.repeat_interleave(self.group, dim=1) for part in (k, v))
        seen = scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.head_dim**-0.5)
        out: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return out


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Attention and MLP, each behind its norm and added to the residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = Mlp(shape)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        h = h + self.self_attn(self.input_layernorm(h), cos, sin)
        out: Tensor = h + self.mlp(self.post_attention_layernorm(h))
        return out


class Trunk(nn.Module):
    """Embedding, layers and final norm: what transformers calls `model`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = Norm(shape.hidden_size, shape.rms_norm_eps)


class Llama(nn.Module):
    """The dense decoder with its head tied to the embedding; parameter names are those of transformers."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Trunk(shape)
        cos, sin = rope_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        # The two projections that write to the residual start smaller, lest its size grow with depth.
        narrow = shape.initializer_range / math.sqrt(2 * shape.num_hidden_layers)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(
                    weight, std=narrow if "o_proj" in name or "down_proj" in name else shape.initializer_range
                )

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [B, T] to logits [B, T, V]."""
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        h: Tensor = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            h = layer(h, cos, sin)
        return linear(self.model.norm(h), self.model.embed_tokens.weight)


if __name__ == "__main__":
    shape = Shape()
    run("tiny-dense", shape, lambda: Llama(shape), Recipe(), minutes=35.0)
