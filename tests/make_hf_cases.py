"""Write data/hf_cases_<major>.json: small models as transformers saves them, and what it makes of them.

    python tests/make_hf_cases.py      with torch and transformers, version 4 or 5, installed

One case a line: `config`, the content of the config.json that save_pretrained wrote; `tensors`, the shapes in its
model.safetensors by name; and, with each weight as filling.fill makes it, in float64, over the ids 0 to 8: `seen`,
per layer and row the number of positions with a non-zero attention weight, and `logits`, those of the last row.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open

from filling import fill

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
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_wide_heads_tied": ("Llama", {"head_dim": 6, "tie_word_embeddings": True}),
    "llama_theta": ("Llama", {"rope_theta": 500000.0, "num_key_value_heads": 2}),
    "mistral_window": ("Mistral", {"sliding_window": 3}),
    "mistral_no_window": ("Mistral", {"sliding_window": None}),
    "mistral_default_window": ("Mistral", {}),
    "qwen2": ("Qwen2", {}),
    "qwen2_window_unused": ("Qwen2", {"sliding_window": 3, "max_window_layers": 0}),
    "qwen2_window_from_layer_2": ("Qwen2", {**SLIDING, "max_window_layers": 2}),
    "qwen2_window_beyond_layers": ("Qwen2", {**SLIDING, "max_window_layers": 28}),
    "qwen2_layer_types": ("Qwen2", {**SLIDING, "layer_types": MIXED, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 4}),
    "qwen3_window_from_layer_1": ("Qwen3", {**SLIDING, "head_dim": 6, "max_window_layers": 1}),
    "qwen3_layer_types": ("Qwen3", {**SLIDING, "head_dim": 4, "layer_types": MIXED}),
}


def case(name: str, family: str, options: dict[str, Any]) -> dict[str, Any]:
    """One entry: save a random model, read its config back, fill it, run it."""
    config = getattr(transformers, f"{family}Config")(**(SIZES | options))
    with tempfile.TemporaryDirectory() as folder:
        getattr(transformers, f"{family}ForCausalLM")(config).save_pretrained(folder)
        written = json.loads((Path(folder) / "config.json").read_text())
        with safe_open(f"{folder}/model.safetensors", "numpy") as file:
            tensors = {key: file.get_slice(key).get_shape() for key in sorted(file.keys())}
        read = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(read, attn_implementation="eager").double().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            weight.copy_(torch.from_numpy(fill(key, tuple(weight.shape))))
        out = model(torch.arange(9)[None], output_attentions=True)
    return {
        "name": name,
        "transformers": transformers.__version__,
        "config": written,
        "tensors": tensors,
        "seen": [(layer[0, 0] != 0).sum(-1).tolist() for layer in out.attentions],
        "logits": [round(x, 9) for x in out.logits[0, -1].tolist()],
    }


def main() -> None:
    """One file for the installed version."""
    lines = [json.dumps(case(name, family, options)) for name, (family, options) in CASES.items()]
    path = Path(__file__).parent / "data" / f"hf_cases_{transformers.__version__.split('.')[0]}.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
