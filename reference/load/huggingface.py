"""A Hugging Face directory: config.json, model.safetensors or its shards, tokenizer.json."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon.reference.errors import ModelError
from gnomon.reference.load.chat_template import CONFIG, chat_of_directory, content
from gnomon.reference.load.hf_config import read_config
from gnomon.reference.load.hf_gpt2 import gpt2_sources
from gnomon.reference.load.hf_options import HYBRIDS
from gnomon.reference.load.hf_sources import decoder_sources
from gnomon.reference.load.options import Options
from gnomon.reference.load.safetensors_file import read_safetensors
from gnomon.reference.load.stored import Stored, assemble
from gnomon.reference.model import Model
from gnomon.reference.strict_json import parse_object, read_bytes, show
from gnomon.reference.tokenizer import Tokenizer

GENERATION = "generation_config.json"
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Tensors that change nothing: tables that old versions of transformers wrote, which follow from rope_theta or from the
# causal mask, and heads that draft tokens for the model to judge.
IGNORED = {
    "gpt2": re.compile(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias"),
    "qwen3_next": re.compile(r"mtp\..+"),
    "qwen3_5_text": re.compile(r"mtp\..+"),
}
INV_FREQ = re.compile(r"(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")
# The norms of a hybrid that multiply by 1 + w: all but the gated one of its delta layers.
PLUS_ONE = re.compile(r"ln_final\.weight|blocks\.\d+\.(ln[12]|attn\.[qk]_norm)\.weight")
# Other forms of a tokenizer, which are not read.
OTHER_TOKENIZERS = (("tokenizer.model",), ("tekken.json",), ("vocab.json", "merges.txt"))
VISION = ("model.visual.", "visual.")


def load_directory(path: Path, name: str) -> Model:
    """The model in the directory. Raises ModelError where a file is missing, broken or not supported."""
    given = parse_object(read_bytes(path / "config.json"), "config.json")
    config = read_config(given)
    ignored = IGNORED.get(config.family, INV_FREQ)
    tensors = {key: tensor for key, tensor in read_tensors(path).items() if not ignored.fullmatch(key)}
    if seen := [key for key in tensors if key.startswith(VISION)]:
        raise ModelError(
            f"Expected the weights of a text model but got {show(min(seen))}; save its language model by itself"
        )
    sources = gpt2_sources(tensors) if config.family == "gpt2" else decoder_sources(config, tensors)
    weights = assemble(config, tensors, sources)
    if config.family in HYBRIDS:
        weights = {key: replace(w, plus_one=bool(PLUS_ONE.fullmatch(key))) for key, w in weights.items()}
    tokenizer = read_tokenizer(path / "tokenizer.json", given, config.vocab)
    return Model(
        name,
        config,
        weights,
        tokenizer,
        chat_of_directory(path),
        "" if tokenizer is not None else other_tokenizer(path),
    )


def other_tokenizer(path: Path) -> str:
    """Why the directory has no tokenizer: it lacks tokenizer.json, whatever other form it has."""
    found = [" and ".join(names) for names in OTHER_TOKENIZERS if all((path / name).exists() for name in names)]
    if not found:
        return "its directory has no tokenizer.json"
    return f"only tokenizer.json is read, and its directory has {found[0]}; transformers converts it"


def read_tokenizer(path: Path, given: dict[str, Any], rows: int) -> Tokenizer | None:
    """The tokenizer, if the directory has one. rows: of the embedding

    Ids that end a text are those of config.json and generation_config.json, and that of the eos_token of
    tokenizer_config.json: published models name the end of a turn in one of them and the end of a text in another.
    """
    if not path.exists():
        return None
    named = {key: value for key, value in given.items() if value is not None}
    options = Options(given.get("text_config", {}) | named, "config.json")  # text_config: of a multimodal config
    eos = listed(options.take("eos_token_id"))
    for one in listed(beside(path, GENERATION).get("eos_token_id")):
        if type(one) is not int or not 0 <= one < rows:
            raise ModelError(f"Expected an id below {rows} in {GENERATION} but got eos_token_id={show(one)}")
        eos += [one] if one not in eos else []
    return Tokenizer.from_json(
        path,
        bos_id=options.integer_or_none("bos_token_id"),
        eos_ids=eos,
        eos_token=content(beside(path, CONFIG).get("eos_token")),
        rows=rows,
    )


def listed(value: Any) -> list[Any]:
    """One or several, as a list."""
    return [] if value is None else [*value] if isinstance(value, list) else [value]


def beside(path: Path, name: str) -> dict[str, Any]:
    """The object in another file of the directory, empty where there is none."""
    other = path.with_name(name)
    return parse_object(read_bytes(other), name) if other.exists() else {}


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
