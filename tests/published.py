"""config.json of much used models, key by key as published, with small sizes; llama to gpt2, about forty of them."""

from typing import Any

SIZES: dict[str, Any] = {
    **{"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"num_key_value_heads": 1, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2},
    **{"initializer_range": 0.02, "hidden_act": "silu", "use_cache": True},
}
LLAMA = SIZES | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5}
LLAMA |= {"tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.40.0"}
LLAMA2 = LLAMA | {"num_key_value_heads": 2, "pretraining_tp": 1, "rope_scaling": None, "torch_dtype": "float16"}
LLAMA3 = LLAMA | {"attention_bias": False, "attention_dropout": 0.0, "rope_theta": 500000.0, "pretraining_tp": 1}
LLAMA31 = LLAMA3 | {"mlp_bias": False, "head_dim": 8, "max_position_embeddings": 131072, "eos_token_id": [2, 3, 4]}
LLAMA31["rope_scaling"] = {
    **{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3"},
    "original_max_position_embeddings": 8192,
}
LLAMA32 = LLAMA31 | {"rope_scaling": LLAMA31["rope_scaling"] | {"factor": 32.0}, "tie_word_embeddings": True}
MISTRAL = SIZES | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "rms_norm_eps": 1e-5}
MISTRAL |= {"rope_theta": 10000.0, "sliding_window": 3, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
QWEN2 = SIZES | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rms_norm_eps": 1e-6}
QWEN2 |= {"attention_dropout": 0.0, "max_window_layers": 1, "rope_theta": 1000000.0, "sliding_window": 3}
QWEN2 |= {"use_sliding_window": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
QWEN3 = QWEN2 | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": False}
QWEN3 |= {"head_dim": 6, "rope_scaling": None, "sliding_window": None}
MOE = QWEN3 | {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "tie_word_embeddings": False}
MOE |= {"decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 6, "norm_topk_prob": True}
MOE |= {"num_experts": 5, "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001}
HYBRID = SIZES | {"attention_bias": False, "attention_dropout": 0.0, "head_dim": 8, "rms_norm_eps": 1e-6}
HYBRID |= {"full_attention_interval": 2, "linear_conv_kernel_dim": 3, "linear_key_head_dim": 3}
HYBRID |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 5}
NEXT = HYBRID | {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1}
NEXT |= {"mlp_only_layers": [], "moe_intermediate_size": 6, "norm_topk_prob": True, "num_experts": 5}
NEXT |= {"num_experts_per_tok": 2, "output_router_logits": False, "partial_rotary_factor": 0.25, "rope_scaling": None}
NEXT |= {"rope_theta": 10000000, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 7}
NEXT |= {"tie_word_embeddings": False, "use_sliding_window": False, "torch_dtype": "bfloat16"}
TEXT = HYBRID | {"model_type": "qwen3_5_text", "attn_output_gate": True, "mamba_ssm_dtype": "float32"}
TEXT |= {"layer_types": ["linear_attention", "full_attention"], "mlp_only_layers": [], "mtp_num_hidden_layers": 1}
TEXT |= {"mtp_use_dedicated_embeddings": False, "tie_word_embeddings": True, "dtype": "bfloat16"}
TEXT["rope_parameters"] = {
    **{"mrope_interleaved": True, "mrope_section": [1, 0, 0], "partial_rotary_factor": 0.25},
    **{"rope_theta": 10000000, "rope_type": "default"},
}
VISION = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2, "out_hidden_size": 8}
GPT2: dict[str, Any] = {
    **{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new"},
    **{"attn_pdrop": 0.1, "bos_token_id": 1, "embd_pdrop": 0.1, "eos_token_id": 2, "initializer_range": 0.02},
    **{"layer_norm_epsilon": 1e-5, "n_ctx": 16, "n_embd": 8, "n_head": 2, "n_layer": 2, "n_positions": 16},
    **{"resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True},
    **{"summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 11},
}
FULL = {"layer_types": ["full_attention"] * 2}

PUBLISHED: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-2-7b-chat-hf": LLAMA2 | {"_name_or_path": "meta-llama/Llama-2-7b-chat-hf"},
    "codellama/CodeLlama-7b-hf": LLAMA2 | {"rope_theta": 1000000},
    "lmsys/vicuna-7b-v1.5": LLAMA2 | {"_name_or_path": "vicuna-7b-v1.5", "max_sequence_length": 64, "pad_token_id": 0},
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": LLAMA2 | {"attention_bias": False, "num_key_value_heads": 1},
    "princeton-nlp/Sheared-LLaMA-1.3B": LLAMA2 | {"pad_token_id": 0, "rms_norm_eps": 1e-5},
    "openlm-research/open_llama_3b_v2": LLAMA | {"num_key_value_heads": None, "rms_norm_eps": 1e-6, "pad_token_id": 0},
    "meta-llama/Meta-Llama-3-8B-Instruct": LLAMA3 | {"rope_scaling": None},
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA31,
    "meta-llama/Llama-3.2-1B-Instruct": LLAMA32,
    "meta-llama/Llama-3.3-70B-Instruct": LLAMA31 | {"num_key_value_heads": 2},
    "unsloth/Llama-3.2-3B-Instruct": LLAMA32 | {"unsloth_fixed": True, "pad_token_id": 5},
    "NousResearch/Hermes-3-Llama-3.1-8B": LLAMA31 | {"_name_or_path": "x", "eos_token_id": 2, "_num_labels": 2},
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": LLAMA31 | {"bos_token_id": 1, "eos_token_id": 2},
    "HuggingFaceTB/SmolLM2-135M-Instruct": LLAMA
    | {"is_llama_config": True, "rope_interleaved": False, "rope_theta": 100000, "tie_word_embeddings": True}
    | {"pad_token_id": 2, "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}},
    "01-ai/Yi-6B": LLAMA
    | {"auto_map": {"AutoConfig": "configuration_yi.YiConfig", "AutoModelForCausalLM": "modeling_yi.YiForCausalLM"}}
    | {"pad_token_id": 0, "rope_theta": 5000000.0},
    "01-ai/Yi-1.5-9B-Chat": LLAMA3 | {"rope_theta": 5000000.0, "keys_to_ignore_at_inference": ["past_key_values"]},
    "deepseek-ai/deepseek-llm-7b-chat": LLAMA2 | {"rms_norm_eps": 1e-6},
    "deepseek-ai/deepseek-coder-6.7b-instruct": LLAMA2
    | {"rope_scaling": {"factor": 4.0, "type": "linear"}, "rope_theta": 100000},
    "tiiuae/Falcon3-7B-Instruct": LLAMA3 | {"activation": "swiglu", "head_dim": 8, "rope_theta": 1000042},
    "Skywork/Skywork-Reward-Llama-3.1-8B": LLAMA31 | {"gradient_checkpointing": False, "classifier_dropout": None},
    "saved-by-a-newer-transformers/llama": LLAMA3 | FULL | {"use_sliding_window": False, "sliding_window": 4096},
    "mistralai/Mistral-7B-v0.1": MISTRAL,
    "mistralai/Mistral-7B-Instruct-v0.2": MISTRAL | {"attention_dropout": 0.0, "sliding_window": None},
    "mistralai/Mistral-7B-Instruct-v0.3": MISTRAL | {"rope_theta": 1000000.0, "sliding_window": None},
    "mistralai/Mistral-Nemo-Instruct-2407": MISTRAL | {"head_dim": 6, "sliding_window": None},
    "HuggingFaceH4/zephyr-7b-beta": MISTRAL | {"_name_or_path": "x", "pad_token_id": 2},
    "teknium/OpenHermes-2.5-Mistral-7B": MISTRAL | {"use_cache": False},
    "mistralai/Mathstral-7B-v0.1": MISTRAL | {"head_dim": 4, "sliding_window": None, "use_sliding_window": False},
    "Qwen/Qwen2-0.5B": QWEN2,
    "Qwen/Qwen2.5-7B-Instruct": QWEN2 | {"tie_word_embeddings": False},
    "Qwen/Qwen2.5-Coder-7B-Instruct": QWEN2 | {"tie_word_embeddings": False, "max_window_layers": 2},
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": QWEN2 | {"use_mrope": False, "tie_word_embeddings": False},
    "saved-by-a-newer-transformers/qwen2": QWEN2 | FULL | {"dtype": "bfloat16", "sliding_window": None},
    "Qwen/Qwen3-0.6B": QWEN3,
    "Qwen/Qwen3-8B": QWEN3 | {"tie_word_embeddings": False},
    "Qwen/Qwen3-4B-Instruct-2507": QWEN3 | {"use_qk_norm": True, "rope_theta": 5000000},
    "Qwen/Qwen3-30B-A3B": MOE,
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": MOE
    | {"qkv_bias": False, "use_qk_norm": True, "shared_expert_intermediate_size": 0, "rope_theta": 10000000},
    "Qwen/Qwen3-Next-80B-A3B-Instruct": NEXT | {"output_gate_type": "swish"},
    "Qwen/Qwen3.5-4B": {
        **{"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 3},
        **{"text_config": TEXT | {"output_gate_type": "swish"}, "tie_word_embeddings": True, "video_token_id": 4},
        **{"vision_config": VISION, "vision_start_token_id": 5, "vision_end_token_id": 6},
        "language_model_only": False,
    },
    "openai-community/gpt2": GPT2
    | {"task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}},
    "openai-community/gpt2-medium": GPT2 | {"n_special": 0, "predict_special_tokens": True},
    "distilbert/distilgpt2": GPT2 | {"_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}},
    "microsoft/DialoGPT-medium": GPT2 | {"gradient_checkpointing": False, "pad_token_id": 2},
}
WITHOUT_PREFIX = ("Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B-Instruct")  # as a base model would be saved
