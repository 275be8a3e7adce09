"""Names that other software gives to our taps. {i} is a number; "-" is a tensor that has no tap here.

Module paths of Hugging Face transformers stand for the output of the module, hooks of TransformerLens for what the
hook sees, ggml names for the callback of llama.cpp. Attention scores are not listed: theirs hold -infinity where
ours hold +0.0, and probabilities after the division, which is done last here.
Source:  transformers models/llama/modeling_llama.py, models/qwen3, models/gpt2; TransformerLens components/
         transformer_block.py, abstract_attention.py, mlps/gated_mlp.py; llama.cpp src/llama-graph.cpp
"""

HUGGING_FACE = {
    "model.embed_tokens": "embed",
    "model.rotary_emb": "-",
    "model.layers.{i}.input_layernorm": "blocks.{i}.ln1",
    "model.layers.{i}.self_attn.q_proj": "blocks.{i}.attn.q",
    "model.layers.{i}.self_attn.k_proj": "blocks.{i}.attn.k",
    "model.layers.{i}.self_attn.v_proj": "blocks.{i}.attn.v",
    "model.layers.{i}.self_attn.q_norm": "blocks.{i}.attn.q_norm",
    "model.layers.{i}.self_attn.k_norm": "blocks.{i}.attn.k_norm",
    "model.layers.{i}.self_attn.o_proj": "blocks.{i}.attn.out",
    "model.layers.{i}.self_attn": "-",  # the same tensor once more
    "model.layers.{i}.post_attention_layernorm": "blocks.{i}.ln2",
    "model.layers.{i}.mlp.gate_proj": "blocks.{i}.mlp.gate",
    "model.layers.{i}.mlp.act_fn": "-",
    "model.layers.{i}.mlp.up_proj": "blocks.{i}.mlp.up",
    "model.layers.{i}.mlp.down_proj": "blocks.{i}.mlp.out",
    "model.layers.{i}.mlp": "-",
    "model.layers.{i}": "blocks.{i}.resid_post",
    "model.norm": "ln_final",
    "model": "-",
    "lm_head": "logits",
}

TRANSFORMER_LENS = {
    "hook_embed": "embed",
    "blocks.{i}.hook_resid_pre": "-",  # the residual of the layer before
    "blocks.{i}.ln1.hook_scale": "-",
    "blocks.{i}.ln1.hook_normalized": "-",  # before the weight
    "blocks.{i}.attn.hook_q": "blocks.{i}.attn.q",
    "blocks.{i}.attn.hook_k": "blocks.{i}.attn.k",
    "blocks.{i}.attn.hook_v": "blocks.{i}.attn.v",
    "blocks.{i}.attn.hook_rot_q": "blocks.{i}.attn.q_rot",
    "blocks.{i}.attn.hook_rot_k": "blocks.{i}.attn.k_rot",
    "blocks.{i}.attn.hook_attn_scores": "-",
    "blocks.{i}.attn.hook_pattern": "-",
    "blocks.{i}.attn.hook_z": "blocks.{i}.attn.z",
    "blocks.{i}.hook_attn_out": "blocks.{i}.attn.out",
    "blocks.{i}.hook_resid_mid": "blocks.{i}.resid_mid",
    "blocks.{i}.ln2.hook_scale": "-",
    "blocks.{i}.ln2.hook_normalized": "-",
    "blocks.{i}.mlp.hook_pre": "blocks.{i}.mlp.gate",
    "blocks.{i}.mlp.hook_pre_linear": "blocks.{i}.mlp.up",
    "blocks.{i}.mlp.hook_post": "blocks.{i}.mlp.act",
    "blocks.{i}.hook_mlp_out": "blocks.{i}.mlp.out",
    "blocks.{i}.hook_resid_post": "blocks.{i}.resid_post",
    "ln_final.hook_scale": "-",
    "ln_final.hook_normalized": "-",
}

GGML = {
    "inp_embd": "embed",
    "attn_norm-{i}": "blocks.{i}.ln1",
    "ffn_inp-{i}": "blocks.{i}.resid_mid",
    "ffn_norm-{i}": "blocks.{i}.ln2",
    "ffn_gate-{i}": "blocks.{i}.mlp.gate",
    "ffn_up-{i}": "blocks.{i}.mlp.up",
    "ffn_swiglu-{i}": "blocks.{i}.mlp.act",
    "ffn_out-{i}": "blocks.{i}.mlp.out",
    "l_out-{i}": "blocks.{i}.resid_post",
    "result_norm": "ln_final",
    "result_output": "logits",
}

ALIASES = {"hugging-face": HUGGING_FACE, "transformer-lens": TRANSFORMER_LENS, "ggml": GGML}
