"""Write data/published_cases.json: what transformers makes of the configs in published.py.

    python tests/make_published_cases.py      with torch and transformers 5 installed

`shapes`: tables of tensors, shape by name. `cases`, one a line: `config`, the config.json; `tensors`, the number of its
table; `logits`, those of the last row over the ids 0 to 8, in float64 where transformers' code allows, with each weight
as filling.peaked makes it. transformers reads both files of a case, so it decides what the keys mean.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.numpy import save_file

import hf_models
from filling import peaked
from published import PUBLISHED, WITHOUT_PREFIX

AUTO = transformers.AutoModelForCausalLM


def case(name: str, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The case without its table, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "config.json").write_text(json.dumps(config))
        auto = transformers.Qwen3_5ForConditionalGeneration if config["model_type"] == "qwen3_5" else AUTO
        read = transformers.AutoConfig.from_pretrained(path)
        made = auto.from_config(read, dtype=torch.float32) if auto is AUTO else auto(read).float()
        made.save_pretrained(path)
        prefix = "model." if name in WITHOUT_PREFIX else ""
        named = {key.removeprefix(prefix): array for key, array in hf_models.text_weights(path).items()}
        held = {key: peaked(key, array.shape) for key, array in named.items()}
        save_file(held, path / "model.safetensors", metadata={"format": "pt"})
        (path / "config.json").write_text(json.dumps(config))
        model = auto.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).double().eval()
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")
        with torch.no_grad():
            logits = model(torch.arange(9)[None]).logits[0, -1].tolist()
    shapes = {key: list(held[key].shape) for key in sorted(held)}
    return {"name": name, "config": config, "logits": [round(x, 9) for x in logits]}, shapes


def main() -> None:
    """The file."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tables: list[dict[str, list[int]]] = []
    cases = []
    for name, config in PUBLISHED.items():
        made, shapes = case(name, config)
        if shapes not in tables:
            tables.append(shapes)
        cases.append(made | {"tensors": tables.index(shapes)})
    whole = f'{{"transformers": "{transformers.__version__}",\n"shapes": [\n'
    whole += ",\n".join(map(json.dumps, tables)) + '\n],\n"cases": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]}\n"
    (Path(__file__).parent / "data" / "published_cases.json").write_text(whole)


if __name__ == "__main__":
    main()
