"""Configs of much used models, key by key: each loads, and gives the logits that transformers gives."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filling import peaked
from gnomon.reference.engine import Engine
from gnomon.reference.load import load
from gnomon.reference.numpy_ops import NumpyOps
from model_files import DATA, write_directory
from published import PUBLISHED

STORED = json.loads((DATA / "published_cases.json").read_text())
CLOSE = 4e-6  # of the largest logit


@pytest.mark.parametrize("case", STORED["cases"], ids=lambda case: case["name"])
def test_no_published_config_is_refused_or_read_otherwise_than_by_transformers(
    tmp_path: Path, case: dict[str, Any]
) -> None:
    arrays = {name: peaked(name, tuple(shape)) for name, shape in STORED["shapes"][case["tensors"]].items()}
    model = load(write_directory(tmp_path / "m", case["config"], arrays))
    got = Engine("numpy", model, NumpyOps()).forward(range(9))[0][0]

    assert np.abs(got - case["logits"]).max() <= CLOSE * np.abs(case["logits"]).max()


def test_no_config_is_missing_from_what_transformers_computed() -> None:
    assert {case["name"]: case["config"] for case in STORED["cases"]} == PUBLISHED
    assert len(PUBLISHED) >= 40
