"""Ways to break a model of the families beyond the dense: (stored case, name, damage, a part of what it must say)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from broken_directory import HUGE, UNSIGNED, Damage, arrays, options

ATTENTION, DELTA = "model.layers.3.self_attn", "model.layers.0.linear_attn"
EXPERTS, INNER = "model.layers.0.mlp.experts", "model.language_model.layers.0.linear_attn"
CROSS = "transformer.h.0.crossattention.c_attn.weight"
C_ATTN = "transformer.h.0.attn.c_attn.weight"


def another(name: str, change: Callable[[Any], Any]) -> Damage:
    """Another array under a name."""
    return arrays(lambda held: held.update({name: np.ascontiguousarray(change(held[name]))}))


def one_more(name: str) -> Damage:
    """A tensor more."""
    return arrays(lambda held: held.update({name: np.ones((8, 8), np.float32)}))


def without(name: str) -> Damage:
    """A tensor less."""
    return arrays(lambda held: held.pop(name))


def fused(held: dict[str, Any]) -> None:
    """All experts of layer 0 again, as one tensor beside their own."""
    gates = [np.concatenate([held[f"{EXPERTS}.{e}.{part}_proj.weight"] for part in ("gate", "up")]) for e in range(5)]
    held[f"{EXPERTS}.gate_up_proj"] = np.stack(gates)
    held[f"{EXPERTS}.down_proj"] = np.stack([held[f"{EXPERTS}.{e}.down_proj.weight"] for e in range(5)])


def fused_short(held: dict[str, Any]) -> None:
    """The same in their place, the gates and ups of one expert less."""
    fused(held)
    for name in [name for name in held if name.startswith(f"{EXPERTS}.") and name.endswith(".weight")]:
        del held[name]
    held[f"{EXPERTS}.gate_up_proj"] = held[f"{EXPERTS}.gate_up_proj"][1:].copy()


def text(**changes: Any) -> Damage:
    """Other values in the text_config of config.json."""

    def damage(path: Path) -> None:
        given = json.loads((path / "config.json").read_text())
        given["text_config"] |= changes
        (path / "config.json").write_text(json.dumps(given))

    return damage


MOE: dict[str, tuple[Damage, str]] = {
    "unknown_option": (options(router_scale=2.0), "router_scale=2.0"),
    "window_in_every_layer": (options(use_sliding_window=True, sliding_window=3), "use_sliding_window=True"),
    "no_experts": (options(num_local_experts=0), "num_local_experts=0"),
    "experts_2_60": (options(num_local_experts=HUGE), f"num_local_experts={HUGE}"),
    "experts_2_30": (options(num_local_experts=1 << 30), "at most 65536 experts"),
    "experts_are_text": (options(num_local_experts="5"), "num_local_experts='5'"),
    "experts_counted_twice": (options(num_experts=4), "num_local_experts=5"),
    "one_expert_more_than_stored": (options(num_local_experts=6), "mlp.gate.weight to have shape [6, 8]"),
    "one_expert_less_than_stored": (options(num_local_experts=4), "mlp.gate.weight to have shape [4, 8]"),
    "more_chosen_than_there_are": (options(num_experts_per_tok=6), "top_k=6"),
    "none_chosen": (options(num_experts_per_tok=0), "num_experts_per_tok=0"),
    "experts_of_no_width": (options(moe_intermediate_size=0), "moe_intermediate_size=0"),
    "every_0th_layer": (options(decoder_sparse_step=0), "decoder_sparse_step=0"),
    "plain_layers_are_text": (options(mlp_only_layers="0"), "mlp_only_layers='0'"),
    "normalised_is_a_number": (options(norm_topk_prob=1), "norm_topk_prob=1"),
    "shared_expert_of_some_width": (options(shared_expert_intermediate_size=6), "shared_expert_intermediate_size=6"),
    "heads_not_normalised": (options(use_qk_norm=False), "use_qk_norm=False"),
    "shared_expert": (one_more("model.layers.0.mlp.shared_expert.gate_proj.weight"), "shared_expert.gate_proj"),
    "router_missing": (without("model.layers.0.mlp.gate.weight"), "model.layers.0.mlp.gate.weight"),
    "router_transposed": (another("model.layers.0.mlp.gate.weight", np.transpose), "[5, 8] but got [8, 5]"),
    "expert_missing": (without(f"{EXPERTS}.3.up_proj.weight"), f"{EXPERTS}.3.up_proj.weight"),
    "expert_transposed": (another(f"{EXPERTS}.3.up_proj.weight", np.transpose), f"{EXPERTS}.3.up_proj.weight"),
    "experts_stored_twice": (arrays(fused), f"{EXPERTS}.0.down_proj.weight"),
    "fused_experts_one_less": (arrays(fused_short), "[5, 12, 8] but got [4, 12, 8]"),
}
NEXT: dict[str, tuple[Damage, str]] = {
    "unknown_option": (options(scale_by_depth=True), "scale_by_depth=True"),
    "another_output_gate": (options(output_gate_type="sigmoid"), "output_gate_type='sigmoid'"),
    "attention_without_gate": (options(attn_output_gate=False), "attn_output_gate=False"),
    "attention_with_bias": (options(attention_bias=True), "attention_bias=True"),
    "window_in_a_hybrid": (options(sliding_window=5), "sliding_window=5"),
    "sliding_layers": (options(layer_types=["sliding_attention"] * 4), "'sliding_attention'"),
    "too_few_layer_types": (options(layer_types=["full_attention"]), "each of 4 layers"),
    "every_0th_layer": (options(layer_types=None, full_attention_interval=0), "full_attention_interval=0"),
    "other_layers_than_stored": (options(layer_types=None, full_attention_interval=2), "model.layers.1.self_attn"),
    "value_heads_do_not_divide": (options(linear_num_value_heads=5), "value_heads=5"),
    "value_heads_that_32_bits_cut": (options(linear_num_value_heads=(1 << 32) + 4), f"heads={(1 << 32) + 4}"),
    "no_key_heads": (options(linear_num_key_heads=0), "linear_num_key_heads=0"),
    "key_heads_2_60": (options(linear_num_key_heads=HUGE), f"linear_num_key_heads={HUGE}"),
    "keys_2_30_wide": (options(linear_key_head_dim=1 << 30), "in_proj_qkvz.weight to have shape"),
    "no_taps": (options(linear_conv_kernel_dim=0), "linear_conv_kernel_dim=0"),
    "one_tap_more_than_stored": (options(linear_conv_kernel_dim=4), "[32, 1, 4] but got [32, 1, 3]"),
    "no_shared_expert": (options(shared_expert_intermediate_size=0), "shared_expert_intermediate_size=0"),
    "odd_rotation": (options(rope_parameters={"partial_rotary_factor": 0.4}), "even rotary width"),
    "no_rotation": (options(rope_parameters={"partial_rotary_factor": 0.0}), "partial_rotary_factor=0.0"),
    "double_rotation": (options(rope_parameters={"partial_rotary_factor": 2.0}), "partial_rotary_factor=2.0"),
    "rotation_named_twice": (
        options(rope_parameters={"partial_rotary_factor": 0.5}, partial_rotary_factor=0.25),
        "one partial_rotary_factor",
    ),
    "qkvz_missing": (without(f"{DELTA}.in_proj_qkvz.weight"), f"{DELTA}.in_proj_qkvz.weight"),
    "qkvz_a_row_less": (another(f"{DELTA}.in_proj_qkvz.weight", lambda w: w[1:]), "[52, 8] but got [51, 8]"),
    "qkvz_of_integers": (
        arrays(lambda held: held.update({f"{DELTA}.in_proj_qkvz.weight": UNSIGNED[:52, :8].copy()})),
        "U32",
    ),
    "ba_transposed": (another(f"{DELTA}.in_proj_ba.weight", lambda w: w[:4]), "[8, 8] but got [4, 8]"),
    "projections_apart": (one_more(f"{DELTA}.in_proj_z.weight"), f"{DELTA}.in_proj_z.weight"),
    "conv_without_its_middle": (another(f"{DELTA}.conv1d.weight", lambda w: w[:, 0]), "[32, 1, 3] but got [32, 3]"),
    "conv_bias": (one_more(f"{DELTA}.conv1d.bias"), f"{DELTA}.conv1d.bias"),
    "decay_missing": (without(f"{DELTA}.A_log"), f"{DELTA}.A_log"),
    "decay_of_key_heads": (another(f"{DELTA}.A_log", lambda w: w[:2]), f"{DELTA}.A_log to have shape [4]"),
    "queries_without_gate": (another(f"{ATTENTION}.q_proj.weight", lambda w: w[:16]), "[32, 8] but got [16, 8]"),
}
TEXT: dict[str, tuple[Damage, str]] = {
    "unknown_option": (options(scale_by_depth=True), "scale_by_depth=True"),
    "another_output_gate": (options(output_gate_type="sigmoid"), "output_gate_type='sigmoid'"),
    "experts": (options(num_experts=4), "num_experts=4"),
    "plain_layers": (options(mlp_only_layers=[1]), "mlp_only_layers=[1]"),
    "state_of_bf16": (options(mamba_ssm_dtype="bfloat16"), "mamba_ssm_dtype='bfloat16'"),
    "projections_interleaved": (one_more(f"{DELTA}.in_proj_qkvz.weight"), f"{DELTA}.in_proj_qkvz.weight"),
    "z_missing": (without(f"{DELTA}.in_proj_z.weight"), f"{DELTA}.in_proj_z.weight"),
}
MULTIMODAL: dict[str, tuple[Damage, str]] = {
    "unknown_option": (options(fusion="late"), "fusion='late'"),
    "unknown_option_inside": (
        text(scale_by_depth=True),
        "text_config of config.json sets scale_by_depth=True",
    ),
    "no_text_config": (options(text_config=None), "text_config in config.json but it is missing"),
    "text_config_is_a_list": (options(text_config=[1]), "text_config=[1]"),
    "text_of_another_family": (text(model_type="llama"), "model_type='llama'"),
    "tied_inside_only": (text(tie_word_embeddings=True), "the same as in its text_config"),
    "tied_outside_only": (options(tie_word_embeddings=True), "the same as in its text_config"),
    "vision_weights": (
        one_more("model.visual.proj.weight"),
        "the weights of a text model but got 'model.visual.proj.weight'",
    ),
    "two_models": (one_more("model.embed_tokens.weight"), "model.embed_tokens.weight"),
    "b_missing": (without(f"{INNER}.in_proj_b.weight"), f"{INNER}.in_proj_b.weight"),
}
GPT2: dict[str, tuple[Damage, str]] = {
    "unknown_option": (options(alibi=True), "alibi=True"),
    "exact_gelu": (options(activation_function="gelu"), "activation_function='gelu'"),
    "activation_is_a_list": (options(activation_function=["gelu_new"]), "activation_function=['gelu_new']"),
    "scaled_by_layer": (options(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx=True"),
    "reordered": (options(reorder_and_upcast_attn=True), "reorder_and_upcast_attn=True"),
    "scores_not_scaled": (options(scale_attn_weights=False), "scale_attn_weights=False"),
    "cross_attention": (options(add_cross_attention=True), "add_cross_attention=True"),
    "cross_attention_weights": (one_more(CROSS), CROSS),
    "heads_do_not_divide": (options(n_head=3), "heads=3"),
    "eps_of_zero": (options(layer_norm_epsilon=0.0), "eps=0.0"),
    "width_2_60": (options(n_embd=HUGE), f"width={HUGE}"),
    "positions_2_60": (options(n_positions=HUGE), f"max_positions={HUGE}"),
    "more_positions_than_stored": (options(n_positions=17), "wpe.weight to have shape [17, 8]"),
    "c_attn_missing": (without(C_ATTN), C_ATTN),
    "c_attn_transposed": (another(C_ATTN, np.transpose), "[8, 24] but got [24, 8]"),
    "c_attn_of_integers": (arrays(lambda held: held.update({C_ATTN: UNSIGNED[:8, :24].copy()})), "U32"),
    "c_attn_bias_short": (another(C_ATTN[:-6] + "bias", lambda b: b[:8]), "[24] but got [8]"),
    "inner_width_as_by_default": (
        another("transformer.h.0.mlp.c_fc.weight", lambda w: w[:, :20]),
        "[8, 32] but got [8, 20]",
    ),
    "projections_apart": (one_more("transformer.h.0.attn.q_proj.weight"), "transformer.h.0.attn.q_proj.weight"),
    "bias_buffer_elsewhere": (one_more("transformer.h.0.bias"), "transformer.h.0.bias"),
    "head_differs": (
        arrays(lambda held: held.update({"lm_head.weight": held["transformer.wte.weight"] + 1})),
        "lm_head",
    ),
}
DAMAGES = [
    (kind, name, damage, says)
    for kind, group in {
        "qwen3_moe": MOE,
        "qwen3_next": NEXT,
        "qwen3_5_text": TEXT,
        "qwen3_5": MULTIMODAL,
        "gpt2": GPT2,
    }.items()
    for name, (damage, says) in group.items()
]
