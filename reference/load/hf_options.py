"""What is known of the options of config.json: defaults of transformers, and what cannot reach the arithmetic."""

from typing import Any

# The decoders read here, and what transformers assumes where their config.json leaves an option out.
DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
    "qwen3_moe": {
        "num_key_value_heads": 4,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "norm_topk_prob": False,
    },
    "qwen3_next": {
        "num_key_value_heads": 2,
        "head_dim": 256,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "norm_topk_prob": True,
        "shared_expert_intermediate_size": 512,
    },
    "qwen3_5_text": {"num_key_value_heads": 4, "head_dim": 256},
}
QK_NORM = ("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text")  # q and k are normalised per head, before rope
MIXTURES = ("qwen3_moe", "qwen3_next")
HYBRIDS = ("qwen3_next", "qwen3_5_text")  # delta layers beside gated attention; norms multiply by 1 + w

# Options with one value that this contract can honour.
NEUTRAL: dict[str, Any] = {
    "activation": "swiglu",
    "add_cross_attention": False,
    "attention_bias": False,
    "chunk_size_feed_forward": 0,
    "hidden_act": "silu",
    "is_causal": True,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "pruned_heads": {},
    "qkv_bias": False,
    "rope_interleaved": False,
    "tie_encoder_decoder": False,
    "use_mrope": False,
    "use_sliding_window": False,
}
# The same, in some families only.
FAMILY_NEUTRAL: dict[str, dict[str, Any]] = {
    "qwen2": {"qkv_bias": True},
    "qwen3": {"use_qk_norm": True},
    "qwen3_moe": {"use_qk_norm": True, "shared_expert_intermediate_size": 0},
    "qwen3_next": {"attn_output_gate": True, "output_gate_type": "swish", "use_qk_norm": True},
    "qwen3_5_text": {
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "mlp_only_layers": [],
        "output_gate_type": "swish",
        "use_qk_norm": True,
    },
    "gpt2": {
        "n_special": 0,
        "qkv_bias": True,
        "reorder_and_upcast_attn": False,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
    },
}

# Book-keeping, training and text generation: no value of these reaches the arithmetic of a forward pass.
HARMLESS = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path _num_labels
    architectures attention_dropout attn_implementation auto_map bad_words_ids begin_suppress_tokens
    bos_token_id classifier_dropout decoder_start_token_id diversity_penalty do_sample dtype
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty
    finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label
    initializer_range is_llama_config keys_to_ignore_at_inference label2id length_penalty max_length
    max_sequence_length min_length name_or_path no_repeat_ngram_size num_beam_groups num_beams
    num_labels num_return_sequences output_attentions output_hidden_states output_scores
    pad_token_id prefix problem_type remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature
    tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config
    transformers_version typical_p unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache
    """.split()  # noqa: SIM905 one word per line would take a page
)
# The same, in some families only: training of a router, heads that draft tokens, windows that are not used, dropout
# and classifiers of GPT-2.
FAMILY_HARMLESS: dict[str, tuple[str, ...]] = {
    "qwen3_moe": ("max_window_layers", "output_router_logits", "router_aux_loss_coef", "sliding_window"),
    "qwen3_next": ("output_router_logits", "router_aux_loss_coef"),
    "qwen3_5_text": ("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
    "gpt2": (
        *("attn_pdrop", "embd_pdrop", "n_ctx", "predict_special_tokens", "resid_pdrop"),
        *("summary_activation", "summary_first_dropout"),
        *("summary_proj_to_labels", "summary_type", "summary_use_proj"),
    ),
}
# Around the text model of a multimodal config. The ids are those of tokens that pictures would replace;
# language_model_only asks a server not to load what reads pictures.
MULTIMODAL = (
    *("image_token_id", "video_token_id", "vision_config", "vision_start_token_id", "vision_end_token_id"),
    "language_model_only",
    *HARMLESS,
)
