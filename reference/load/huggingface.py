"""A Hugging Face directory: config.json, model.safetensors or its shards, tokenizer.json."""

import re
from pathlib import Path
from typing import Any

from gnomon.reference.errors import ModelError
from gnomon.reference.load.hf_config import read_config
from gnomon.reference.load.options import Options
from gnomon.reference.load.safetensors_file import read_safetensors
from gnomon.reference.load.stored import Stored, assemble
from gnomon.reference.load.strict_json import parse_object, read_bytes, show
from gnomon.reference.model import Model
from gnomon.reference.tokenizer import Tokenizer

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# canonical name, without "blocks.{i}." -> name in the file, without "model.layers.{i}."
NAMES = {
    "embed": "model.embed_tokens",
    "ln1": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.q_norm": "self_attn.q_norm",
    "attn.k_norm": "self_attn.k_norm",
    "attn.out": "self_attn.o_proj",
    "ln2": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.out": "mlp.down_proj",
    "ln_final": "model.norm",
    "head": "lm_head",
}

# A table that old versions of transformers wrote and new ones ignore: it follows from rope_theta.
IGNORED = re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")


def load_directory(path: Path, name: str) -> Model:
    """The model in the directory. Raises ModelError where a file is missing, broken or not supported."""
    given = parse_object(read_bytes(path / "config.json"), "config.json")
    config = read_config(given)
    tensors = {name: tensor for name, tensor in read_tensors(path).items() if not IGNORED.fullmatch(name)}
    weights = assemble(config, tensors, file_name)
    return Model(name, config, weights, read_tokenizer(path / "tokenizer.json", given))


def read_tokenizer(path: Path, given: dict[str, Any]) -> Tokenizer | None:
    """The tokenizer, if the directory has one, with the ids that config.json names."""
    if not path.exists():
        return None
    options = Options(given, "config.json")
    eos = options.take("eos_token_id")
    eos_ids = [] if eos is None else eos if isinstance(eos, list) else [eos]
    return Tokenizer.from_json(path, bos_id=options.integer_or_none("bos_token_id"), eos_ids=eos_ids)


def file_name(name: str) -> str:
    """blocks.0.attn.q.weight -> model.layers.0.self_attn.q_proj.weight"""
    module, _, kind = name.rpartition(".")
    if module.startswith("blocks."):
        _, i, module = module.split(".", 2)
        return f"model.layers.{i}.{NAMES[module]}.{kind}"
    return f"{NAMES[module]}.{kind}"


def read_tensors(path: Path) -> dict[str, Stored]:
    """The tensors of the single file, or of the shards of the index; index and shards must agree exactly."""
    if not (path / INDEX).exists():
        if not (path / SINGLE).exists():
            raise ModelError(f"Expected {SINGLE} or {INDEX} beside config.json in {show(str(path))} but got neither")
        return read_safetensors(path / SINGLE)
    index = parse_object(read_bytes(path / INDEX), INDEX).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise ModelError(f"Expected {INDEX} to have a weight_map from tensor names to file names but got {show(index)}")
    shards = set(index.values())
    if (path / SINGLE).exists() and SINGLE not in shards:
        raise ModelError(
            f"Expected {INDEX} or {SINGLE} but the directory has both, and the one does not name the other"
        )
    tensors: dict[str, Stored] = {}
    for shard in sorted(shards):
        if not re.fullmatch(r"[\w.-]+\.safetensors", shard):
            raise ModelError(f"Expected plain names of .safetensors files in {INDEX} but got {show(shard)}")
        if not (path / shard).is_file():
            raise ModelError(f"Expected the shard {shard} that {INDEX} names but there is no such file")
        held = read_safetensors(path / shard)
        listed = {name for name, where in index.items() if where == shard}
        if held.keys() != listed:
            odd = min(held.keys() ^ listed)
            side = "lists it and the file lacks it" if odd in listed else "does not list it there"
            raise ModelError(
                f"Expected {INDEX} and {shard} to agree but over {show(odd)} they do not: the index {side}"
            )
        tensors |= held
    return tensors
