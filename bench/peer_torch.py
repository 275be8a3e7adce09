"""PyTorch as a runner: the weights of a GGUF file in transformers' LlamaForCausalLM, logits of the last row.

In the type of the file, f32 or bf16: in bf16 activations are rounded to bf16 too, which ours are not. Attention is what
transformers picks (sdpa); nothing is compiled.
"""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from gnomon.reference.errors import NotRunError
from gnomon.reference.model import Model
from gnomon.reference.widen import widen

NAMES = {  # canonical name, without "blocks.{i}." -> name there, without "model.layers.{i}."
    "ln1": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj", "attn.out": "self_attn.o_proj", "ln2": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj", "mlp.out": "mlp.down_proj",
}  # fmt: skip
TOP = {
    "embed.weight": "model.embed_tokens.weight",
    "ln_final.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
CACHE = "cache" if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters else "past_key_values"
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}


class TorchRunner:
    """A llama model in transformers. form: F32 or BF16; ids: as many as the longest prefill"""

    def __init__(self, model: Model, form: str, ids: Sequence[int], threads: int) -> None:
        if model.config.family != "llama" or model.config.rope is None:
            raise NotRunError(f"Expected a model of family llama for PyTorch but got {model.config.family}")
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(threads)
        c = model.config
        config = LlamaConfig(
            vocab_size=c.vocab, hidden_size=c.width, intermediate_size=c.ffn, num_hidden_layers=c.layers,
            num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, head_dim=c.head_dim,
            max_position_embeddings=c.max_positions, rms_norm_eps=c.eps, tie_word_embeddings=c.tied,
            rope_parameters={"rope_type": "default", "rope_theta": model.config.rope.theta},
        )  # fmt: skip
        self.model = LlamaForCausalLM(config).to(DTYPES[form]).eval()
        self.model.load_state_dict({theirs(n): torch.from_numpy(widen(w)) for n, w in model.weights.items()})
        self.form, self.ids = form, torch.tensor([list(ids)])
        self.caches: dict[int, DynamicCache] = {}
        self.cache = DynamicCache()

    @torch.inference_mode()
    def step(self, ids: torch.Tensor) -> None:
        self.out = self.model(ids, use_cache=True, logits_to_keep=1, **{CACHE: self.cache}).logits

    def logits(self) -> NDArray[np.float32]:
        """Of the last row of the last step"""
        found: NDArray[np.float32] = self.out[0, -1].float().numpy()
        return found

    def prefill(self, length: int) -> None:
        self.cache = DynamicCache()
        self.step(self.ids[:, :length])
        self.caches.setdefault(length, self.cache)

    def stand(self, position: int) -> None:
        if position and position not in self.caches:
            self.prefill(position)
        self.cache = copy.deepcopy(self.caches[position]) if position else DynamicCache()
        self.decode(1)

    def decode(self, tokens: int) -> None:
        for i in range(tokens):
            self.step(self.ids[:, i : i + 1])

    def facts(self) -> dict[str, Any]:
        """What runs: versions, threads, arithmetic"""
        return {
            "name": "PyTorch",
            "package": f"torch {torch.__version__}, transformers {transformers.__version__}",
            "threads": torch.get_num_threads(),
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "attention": self.model.config._attn_implementation,
            "compiled": False,
        }


def theirs(name: str) -> str:
    """blocks.0.attn.q.weight -> model.layers.0.self_attn.q_proj.weight"""
    if name in TOP:
        return TOP[name]
    _, i, rest = name.split(".", 2)
    module, _, kind = rest.rpartition(".")
    return f"model.layers.{i}.{NAMES[module]}.{kind}"
