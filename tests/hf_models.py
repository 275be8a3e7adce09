"""Small models of every family as transformers saves them, their weights filled by recipe. Needs torch."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.numpy import load_file, save_file

from filling import peaked

SIZES: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rms_norm_eps": 1e-5,
}
SLIDING = {"use_sliding_window": True, "sliding_window": 3}
MIXED = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
# Of its four wavelengths one is kept, one blended, two stretched.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "head_dim": 4}
HYBRID: dict[str, Any] = {
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 3,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 3,
}
MROPE = {"mrope_section": [1, 1, 0], "mrope_interleaved": True, "rope_type": "default", "rope_theta": 20000.0}
VISION = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2, "out_hidden_size": 8}
GPT2 = {
    "vocab_size": 11,
    "n_embd": 8,
    "n_layer": 3,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SIZES),
    "llama_wide_heads_tied": ("Llama", SIZES | {"head_dim": 6, "tie_word_embeddings": True}),
    "llama_theta": ("Llama", SIZES | {"rope_theta": 500000.0, "num_key_value_heads": 2}),
    "llama_3": (
        "Llama",
        SIZES
        | {"head_dim": 8, "max_position_embeddings": 512}
        | {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 128}},
    ),
    "llama_linear_scaling": ("Llama", SIZES | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "mistral_window": ("Mistral", SIZES | {"sliding_window": 3}),
    "mistral_no_window": ("Mistral", SIZES | {"sliding_window": None}),
    "mistral_default_window": ("Mistral", SIZES),
    "qwen2": ("Qwen2", SIZES),
    "qwen2_window_unused": ("Qwen2", SIZES | {"sliding_window": 3, "max_window_layers": 0}),
    "qwen2_window_from_layer_2": ("Qwen2", SIZES | SLIDING | {"max_window_layers": 2}),
    "qwen2_window_beyond_layers": ("Qwen2", SIZES | SLIDING | {"max_window_layers": 28}),
    "qwen2_layer_types": ("Qwen2", SIZES | SLIDING | {"layer_types": MIXED, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", SIZES | {"head_dim": 4}),
    "qwen3_window_from_layer_1": ("Qwen3", SIZES | SLIDING | {"head_dim": 6, "max_window_layers": 1}),
    "qwen3_layer_types": ("Qwen3", SIZES | SLIDING | {"head_dim": 4, "layer_types": MIXED}),
    "qwen3_moe": ("Qwen3Moe", SIZES | EXPERTS),
    "qwen3_moe_normalised_in_every_second_layer": (
        "Qwen3Moe",
        SIZES | EXPERTS | {"norm_topk_prob": True, "decoder_sparse_step": 2, "num_experts_per_tok": 3},
    ),
    "qwen3_moe_with_plain_layers": ("Qwen3Moe", SIZES | EXPERTS | {"mlp_only_layers": [0, 2]}),
    "qwen3_next": ("Qwen3Next", SIZES | EXPERTS | HYBRID | {"shared_expert_intermediate_size": 7}),
    "qwen3_next_not_normalised_attention_first": (
        "Qwen3Next",
        SIZES
        | EXPERTS
        | HYBRID
        | {"shared_expert_intermediate_size": 7, "norm_topk_prob": False, "mlp_only_layers": [1]}
        | {"layer_types": ["full_attention", "linear_attention", "full_attention", "linear_attention"]},
    ),
    "qwen3_5_text": ("Qwen3_5Text", SIZES | HYBRID),
    "qwen3_5_text_tied_half_rotated": (
        "Qwen3_5Text",
        SIZES | HYBRID | {"tie_word_embeddings": True, "rope_parameters": MROPE | {"partial_rotary_factor": 0.5}},
    ),
    "qwen3_5": (
        "Qwen3_5",
        {"text_config": SIZES | HYBRID | {"rope_parameters": MROPE | {"partial_rotary_factor": 0.5}}}
        | {"vision_config": VISION, "image_token_id": 3, "video_token_id": 4}
        | {"vision_start_token_id": 5, "vision_end_token_id": 6},
    ),
    "gpt2": ("GPT2", GPT2),
    "gpt2_untied": (
        "GPT2",
        GPT2 | {"n_inner": 20, "activation_function": "gelu_pytorch_tanh", "tie_word_embeddings": False},
    ),
}
CLASSES = {"GPT2": "GPT2LMHeadModel", "Qwen3_5Text": "Qwen3_5ForCausalLM", "Qwen3_5": "Qwen3_5ForConditionalGeneration"}


def available(name: str) -> bool:
    """Whether the installed version of transformers has the family of this case."""
    return hasattr(transformers, f"{CASES[name][0]}Config")


def model_class(name: str) -> Any:
    """The class of transformers that runs it."""
    family = CASES[name][0]
    return getattr(transformers, CLASSES.get(family, f"{family}ForCausalLM"))


def build(name: str, changes: dict[str, Any] | None = None) -> Any:
    """The model of a case with random weights; `changes` to its options, or to those of its text model."""
    family, options = CASES[name]
    inner = {"text_config": options["text_config"] | changes} if changes and "text_config" in options else changes or {}
    return model_class(name)(getattr(transformers, f"{family}Config")(**(options | inner)))


def save(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """config.json and model.safetensors as save_pretrained writes them, but for the weights: they are filled, and those
    of a vision tower left out. Gives the content of the one, and the shapes in the other by name."""
    build(name).save_pretrained(folder)
    held = {key: peaked(key, array.shape) for key, array in text_weights(folder).items()}
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    return json.loads((folder / "config.json").read_text()), {key: list(held[key].shape) for key in sorted(held)}


def text_weights(folder: Path) -> dict[str, Any]:
    """The tensors that save_pretrained wrote, by name, but for those of a vision tower."""
    return {key: array for key, array in load_file(folder / "model.safetensors").items() if "visual" not in key}


def load(name: str, folder: Path) -> Any:
    """The model as transformers reads it, in float64 where its code allows

    It is read as f32 first: a model read as bf16 would have its rotary frequencies rounded too.
    """
    made = model_class(name).from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    model = made.double().eval()
    if hasattr(model, "set_experts_implementation"):  # since version 5, whose default has no float64
        model.set_experts_implementation("eager")
    return model


def step_by_step(model: Any, ids: list[int], prefill: int = 1) -> list[list[float]]:
    """Logits of every row: `prefill` ids in one call, then a call each, in which a delta layer is recurrent there."""
    rows: list[list[float]] = []
    held: dict[str, Any] = {}
    with torch.no_grad():
        for new in [ids[:prefill], *([token] for token in ids[prefill:])]:
            out = model(torch.tensor([new]), use_cache=True, **held)
            key = "cache" if "cache" in out else "past_key_values"  # of version 5, of version 4
            held = {key: out[key]}
            rows += out.logits[0].tolist()
    return rows
