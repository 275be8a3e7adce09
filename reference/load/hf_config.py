"""config.json of transformers 4 and 5 -> Config.

The rule for options: each is read, or listed as harmless (it cannot reach the arithmetic of a forward pass),
or has the one value that changes nothing, or is null. Any other option refuses the model, by name: what this
reader does not know might change the arithmetic. What config.json leaves out has transformers' default.
"""

from typing import Any

from gnomon.reference.config import Config
from gnomon.reference.errors import ModelError
from gnomon.reference.load import hf_layers as layer
from gnomon.reference.load.hf_gpt2 import read_gpt2
from gnomon.reference.load.hf_options import (
    DEFAULTS,
    FAMILY_HARMLESS,
    FAMILY_NEUTRAL,
    HARMLESS,
    HYBRIDS,
    MULTIMODAL,
    NEUTRAL,
    QK_NORM,
)
from gnomon.reference.load.hf_rope import rope
from gnomon.reference.load.options import Options, head_width
from gnomon.reference.strict_json import show

MODEL_TYPES = (*DEFAULTS, "gpt2", "qwen3_5")


def read_config(given: dict[str, Any]) -> Config:
    """The Config that config.json describes. Raises ModelError for an option it cannot honour."""
    options = Options(given, "config.json")
    name = options.text("model_type")
    if name not in MODEL_TYPES:
        raise ModelError(f"Expected a model_type among {', '.join(MODEL_TYPES)} in config.json but got {show(name)}")
    if name == "gpt2":
        return read_gpt2(options)
    if name == "qwen3_5":
        name, options = "qwen3_5_text", text_options(options)
    return read_decoder(options, name)


def text_options(outer: Options) -> Options:
    """The options of the text model of a Qwen3.5; those around it place pictures among its rows, and text has none."""
    given = outer.take("text_config")
    if not isinstance(given, dict):
        raise outer.wrong("text_config", given, "an object")
    options = Options(given, "text_config of config.json")
    if (name := options.text("model_type")) != "qwen3_5_text":
        raise options.wrong("model_type", name, "model_type='qwen3_5_text'")
    tied = outer.flag("tie_word_embeddings", False)
    if (options.left.get("tie_word_embeddings") or False) is not tied:
        raise outer.wrong("tie_word_embeddings", tied, "tie_word_embeddings to be the same as in its text_config")
    outer.refuse_rest({}, MULTIMODAL)
    return options


def read_decoder(options: Options, name: str) -> Config:
    """The Config of one of the decoders."""
    defaults, hybrid = DEFAULTS[name], name in HYBRIDS
    width, layers = options.integer("hidden_size"), options.layers("num_hidden_layers")
    heads = options.integer("num_attention_heads")
    kv_heads = options.integer_or_none("num_key_value_heads", defaults.get("num_key_value_heads"))
    head_dim = options.integer_or_none("head_dim", defaults.get("head_dim"))
    head_dim = head_width(width, heads) if head_dim is None else head_dim
    kinds = layer.kinds(options, layers) if hybrid else ()
    delta = layer.delta(options) if hybrid else None
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
        rope=rope(options, head_dim, 0.25 if hybrid else None),
        max_positions=options.integer("max_position_embeddings"),
        windows=layer.windows(options, name, layers),
        tied=options.flag("tie_word_embeddings", False),
        qkv_bias=name == "qwen2",
        qk_norm=name in QK_NORM,
        gated=hybrid,
        kinds=kinds,
        delta=delta if "delta" in kinds else None,
        moe=layer.moe(options, name, layers),
    )
    options.refuse_rest(NEUTRAL | FAMILY_NEUTRAL.get(name, {}), (*HARMLESS, *FAMILY_HARMLESS.get(name, ())))
    return config
