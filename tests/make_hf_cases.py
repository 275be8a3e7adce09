"""Write data/hf_cases_<major>.json: small models as transformers saves them, and what it makes of them.

    python tests/make_hf_cases.py      with torch and transformers, version 4 or 5, installed

One case a line: `config`, the content of the config.json that save_pretrained wrote; `tensors`, the shapes in its
model.safetensors by name; and, with each weight as filling.peaked makes it, in float64 where transformers' code allows,
over the ids 0 to 8: `seen`, per attention layer and row the number of positions with a non-zero attention weight;
`logits`, those of the last row; and, of models with delta layers, `steps`: those of every row, one call each.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

import hf_models


def case(name: str) -> dict[str, Any]:
    """One entry: save a model, fill it, run it."""
    with tempfile.TemporaryDirectory() as folder:
        config, tensors = hf_models.save(name, Path(folder))
        model = hf_models.load(name, Path(folder))
    with torch.no_grad():
        out = model(torch.arange(9)[None], output_attentions=True)
    made = {
        "name": name,
        "transformers": transformers.__version__,
        "config": config,
        "tensors": tensors,
        "seen": [(layer[0, 0] != 0).sum(-1).tolist() for layer in out.attentions if layer is not None],
        "logits": [round(x, 9) for x in out.logits[0, -1].tolist()],
    }
    if any("linear_attn" in key for key in tensors):
        made["steps"] = [[round(x, 9) for x in row] for row in hf_models.step_by_step(model, list(range(9)))]
    return made


def main() -> None:
    """One file for the installed version."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    lines = [json.dumps(case(name)) for name in hf_models.CASES if hf_models.available(name)]
    path = Path(__file__).parent / "data" / f"hf_cases_{transformers.__version__.split('.')[0]}.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
