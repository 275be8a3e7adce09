"""config.json of transformers 4 and 5 -> Config.

The rule for options: each is read, or listed as harmless (it cannot reach the arithmetic of a forward pass),
or has the one value that changes nothing, or is null. Any other option refuses the model, by name: what this
reader does not know might change the arithmetic. What config.json leaves out has transformers' default.
"""

from typing import Any

from gnomon.reference.config import Config, Rope
from gnomon.reference.errors import ModelError
from gnomon.reference.load.options import Options, head_width
from gnomon.reference.load.strict_json import show

# The families read here, and what transformers assumes where their config.json leaves an option out.
DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
}

# Options with one value that this contract can honour.
NEUTRAL: dict[str, Any] = {
    "add_cross_attention": False,
    "attention_bias": False,
    "chunk_size_feed_forward": 0,
    "hidden_act": "silu",
    "is_causal": True,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "mlp_bias": False,
    "partial_rotary_factor": 1.0,
    "pretraining_tp": 1,
    "pruned_heads": {},
    "rope_interleaved": False,
    "tie_encoder_decoder": False,
    "use_mrope": False,
}

# Book-keeping, training and text generation: no value of these reaches the arithmetic of a forward pass.
HARMLESS = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path architectures
    attention_dropout attn_implementation bad_words_ids begin_suppress_tokens bos_token_id
    decoder_start_token_id diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size
    eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id id2label initializer_range is_llama_config label2id length_penalty max_length
    max_sequence_length min_length name_or_path no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_attentions output_hidden_states output_scores pad_token_id prefix
    problem_type remove_invalid_values repetition_penalty return_dict return_dict_in_generate
    sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class top_k
    top_p torch_dtype torchscript transformers.js_config transformers_version typical_p unk_token_id
    unsloth_fixed unsloth_version use_bfloat16 use_cache
    """.split()  # noqa: SIM905 one word per line would take a page
)


def read_config(given: dict[str, Any]) -> Config:
    """The Config that config.json describes. Raises ModelError for an option it cannot honour."""
    options = Options(given, "config.json")
    name = options.text("model_type")
    if name not in DEFAULTS:
        raise ModelError(f"Expected a model_type among {', '.join(DEFAULTS)} in config.json but got {show(name)}")
    defaults = DEFAULTS[name]
    width, layers = options.integer("hidden_size"), options.layers("num_hidden_layers")
    heads = options.integer("num_attention_heads")
    kv_heads = options.integer_or_none("num_key_value_heads", defaults.get("num_key_value_heads"))
    head_dim = options.integer_or_none("head_dim", defaults.get("head_dim"))
    head_dim = head_width(width, heads) if head_dim is None else head_dim
    config = Config(
        family=name,
        vocab=options.integer("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        ffn=options.integer("intermediate_size"),
        eps=options.number("rms_norm_eps"),
        rope=rope(options, head_dim),
        max_positions=options.integer("max_position_embeddings"),
        windows=windows(options, name, layers),
        tied=options.flag("tie_word_embeddings", False),
        qkv_bias=name == "qwen2",
        qk_norm=name == "qwen3",
    )
    options.refuse_rest(NEUTRAL, HARMLESS)
    return config


def rope(options: Options, head_dim: int) -> Rope:
    """Base and width of the rotation

    transformers 4: `rope_theta`, and `rope_scaling` null or {"rope_type" or "type": ...}
    transformers 5: `rope_parameters` {"rope_theta": ..., "rope_type": ...}
    """
    scaling, parameters = options.take("rope_scaling"), options.take("rope_parameters")
    if scaling and parameters and scaling != parameters:
        raise options.wrong("rope_scaling", scaling, "rope_scaling to be the same as rope_parameters")
    given = scaling or parameters or {}
    if not isinstance(given, dict):
        raise options.wrong("rope_parameters" if parameters else "rope_scaling", given, "an object")
    inner = Options(given, "the rope parameters of config.json")
    old_key, new_key = inner.take("type"), inner.take("rope_type")
    kind = next(key for key in (new_key, old_key, "default") if key is not None)
    if kind != "default":
        raise ModelError(f"Expected rope type 'default' but config.json asks for rope_type={show(kind)}")
    theta = inner.number("rope_theta", options.left.get("rope_theta") or 10000.0)
    if options.number("rope_theta", theta) != theta:
        raise ModelError(f"Expected one rope_theta in config.json but its rope parameters say {theta}")
    inner.refuse_rest({"partial_rotary_factor": 1.0})
    return Rope(theta=theta, dim=head_dim)


def windows(options: Options, name: str, layers: int) -> tuple[int | None, ...]:
    """The window of each layer; W positions include the row's own, as in transformers' mask (j > p - W)

    Mistral: `sliding_window` in every layer. Qwen: only with `use_sliding_window`, and then in the layers
    that `layer_types` calls "sliding_attention" or, without it, in those from `max_window_layers` on.
    """
    if name == "llama":
        return (None,) * layers
    window = options.integer_or_none("sliding_window", DEFAULTS[name]["sliding_window"])
    if name == "mistral":
        return (window,) * layers
    used = options.flag("use_sliding_window", False)
    first = options.integer("max_window_layers", 28)
    kinds = options.take("layer_types")
    if kinds is None:
        slides = used and window is not None
        kinds = ["sliding_attention" if slides and i >= first else "full_attention" for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise options.wrong("layer_types", kinds, f"a list with one entry for each of {layers} layers")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise ModelError(f"Expected layer types full_attention and sliding_attention but got {show(kind)}")
        if kind == "sliding_attention" and (window is None or not used):
            raise ModelError(
                "Expected sliding_window and use_sliding_window for layers of sliding_attention but got none"
            )
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
