"""What is one model and what is another: files that differ where no byte can, and copies that differ in one field."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import model_files
from config_fields import IDS, MODEL, UNTOUCHING, engine, perturbed
from gnomon.cli import app
from gnomon.compare.same import assert_same_bytes
from gnomon.decode.state_file import pack, receive
from gnomon.decode.state_header import identity
from gnomon.loading import load
from gnomon.models import folder
from gnomon.reference.engine import Engine
from serving import file_of


@pytest.fixture(scope="module")
def own() -> Engine[Any]:
    return engine(MODEL)


@pytest.mark.parametrize("change", [*UNTOUCHING.items(), ("family", "mistral"), ("family", "qwen3_next")], ids=str)
def test_what_does_not_touch_arithmetic_moves_no_byte_and_refuses_nothing(own: Engine[Any], change: Any) -> None:
    name, value = change
    other = engine(perturbed(name, value))
    assert identity(other) == identity(own)
    (expected, kept), (got, moved) = own.forward(IDS, want="all"), other.forward(IDS, want="all")
    assert_same_bytes(got, expected, "logits")
    assert b"".join(pack(other, moved).pieces()) == b"".join(pack(own, kept).pieces())


def test_an_epsilon_stored_as_f32_is_the_one_written_in_decimals(own: Engine[Any]) -> None:
    """GGUF stores f32, config.json decimals; arithmetic uses f32."""
    assert identity(engine(perturbed("eps", float(np.float32(1e-5))))) == identity(own)
    assert identity(engine(perturbed("rope.theta", 10000))) == identity(own)


def test_a_state_moves_between_two_files_of_one_model(tmp_path: Path) -> None:
    """A directory that is called mistral, whose epsilon is a decimal, and a GGUF file that is called llama."""
    config = model_files.config()
    arrays = model_files.tensors(config)
    given = {**config, "model_type": "mistral", "sliding_window": None}
    model_files.write_directory(tmp_path / "directory", given, arrays)
    model_files.write_gguf(tmp_path / "model.gguf", config, arrays)
    first, second = (engine(load(tmp_path / name)) for name in ("directory", "model.gguf"))
    assert first.model.config != second.model.config
    assert receive(second, [file_of(first, IDS)]).ids == IDS
    assert file_of(second, IDS) == file_of(first, IDS)


# The whole way, on files.


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-dense with another base of its rope, beside it a state, a trace and a transcript of the true one."""
    at = tmp_path_factory.mktemp("copied")
    shutil.copytree(folder("tiny-dense"), at / "model")
    config = json.loads((at / "model" / "config.json").read_text())
    config["rope_theta"] = 500000.0
    config.pop("rope_parameters", None)
    (at / "model" / "config.json").write_text(json.dumps(config))
    for name, model in (("true", "tiny-dense"), ("other", str(at / "model"))):
        for words in (
            ["state", "export", model, "--ids", "5,80,13", "-o", str(at / f"{name}.state")],
            ["trace", model, "--ids", "5,80,13", "--engine", "numpy", "--out", str(at / f"{name}.trace")],
            ["transcript", "produce", model, "--ids", "5,80,13", "-n", "2", "-o", str(at / f"{name}.jsonl")],
        ):
            assert run(*words).exit_code == 0, words
    return at


def run(*words: str) -> Any:
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize(
    "words",
    [
        ["state", "import", "{}/model", "{}/true.state"],
        ["state", "diff", "{}/true.state", "{}/other.state"],
        ["compare", "{}/true.trace", "{}/other.trace"],
        ["transcript", "verify", "{}/model", "{}/true.jsonl"],
    ],
    ids=lambda words: " ".join(words[:2]).replace("{}/", ""),
)
def test_a_copy_with_another_rope_theta_is_another_model(copied: Path, words: list[str]) -> None:
    result = run(*(word.format(copied) for word in words))
    assert getattr(result.exception, "exit_code", result.exit_code) == 3
    said = result.stdout + str(result.exception)
    assert "rope.theta" in said
    assert all(value in said for value in ("10000.0", "500000.0"))
