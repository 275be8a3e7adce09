"""Sound files of every kind, as the project itself writes them: what the fuzzer mutates. Made once, in two seconds."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.resources import files
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

import trained
from filling import peaked
from gnomon.cli import main
from gnomon.reference.ledger import Ledger
from model_files import (
    DATA,
    add_tensors,
    case_arrays,
    config,
    finish,
    gguf_writer,
    stored_cases,
    tensors,
    write_directory,
    write_gguf,
)
from published import LLAMA, PUBLISHED
from template_judge import OWN
from test_load_gguf_forms import converter_factors, llama3
from test_load_gguf_split import split
from test_tokenizer_library import byte_fallback, unigram, word_piece

PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "\u2581a"]


def build(folder: Path) -> Path:
    """The folder, filled: models/, gguf/, tokenizers/, and files of micro."""
    for name in ("models", "gguf", "tokenizers"):
        (folder / name).mkdir(parents=True)
    models(folder / "models")
    ggufs(folder / "gguf")
    tokenizers(folder / "tokenizers")
    evidence(folder)
    return folder


def models(folder: Path) -> None:
    """Directories: a case of each family, some published configs, one with every other file that is read."""
    for case in stored_cases(5):
        if case["name"] in (
            "llama_3",
            "mistral_window",
            "qwen2",
            "qwen3",
            "qwen3_moe",
            "qwen3_next",
            "qwen3_5",
            "gpt2",
        ):
            write_directory(folder / case["name"], case["config"], case_arrays(case))
    stored = json.loads((DATA / "published_cases.json").read_text())
    shapes = {case["name"]: stored["shapes"][case["tensors"]] for case in stored["cases"]}
    for name in list(PUBLISHED)[::4]:
        arrays = {tensor: peaked(tensor, tuple(shape)) for tensor, shape in shapes[name].items()}
        write_directory(folder / f"published_{name.replace('/', '_')}", PUBLISHED[name], arrays)
    whole = write_directory(folder / "whole", config(), tensors(config()), tokenizer=True)
    (whole / "generation_config.json").write_text('{"eos_token_id": [259, 5], "bos_token_id": 1}')
    about = {"bos_token": {"content": "he"}, "eos_token": "<end>", "chat_template": "{{ messages[0].content }}"}
    about |= {"added_tokens_decoder": {"259": {"content": "<end>", "special": True}}, "add_bos_token": False}
    (whole / "tokenizer_config.json").write_text(json.dumps(about))
    (whole / "special_tokens_map.json").write_text('{"eos_token": "<end>"}')
    (folder / "qwen3" / "chat_template.jinja").write_text(OWN)
    shards(folder / "shards")


def shards(folder: Path) -> None:
    """A directory with weights in two files and an index."""
    folder.mkdir()
    held = tensors(config())
    (folder / "config.json").write_text(json.dumps(config()))
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    for part, file in enumerate(names):
        save_file({name: held[name] for name in list(held)[part::2]}, folder / file)
    index = {name: names[at % 2] for at, name in enumerate(held)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def ggufs(folder: Path) -> None:
    """Files of the architectures, with blocks, tokenizers, scaled rotations, in parts."""
    for family in ("llama", "qwen2", "qwen3"):
        given = config(family)
        writer = gguf_writer(folder / f"{family}.gguf", given, tokenizer=True)
        writer.add_chat_template(OWN)
        add_tensors(writer, given, tensors(given))
        finish(writer)
    blocks(folder / "blocks.gguf", config(), ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4"))
    wide = config(hidden_size=256, num_hidden_layers=1)
    blocks(folder / "blocks256.gguf", wide, ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"))
    given = config(rope_theta=500000.0, max_position_embeddings=131072)
    llama3(folder / "llama3.gguf", given, np.array(converter_factors(500000.0, 16, 8.0), np.float32))
    (folder / "parts").mkdir()
    split(folder / "parts", config(), 2, tensors(config()))
    sentencepiece(folder / "sentencepiece.gguf")


def blocks(path: Path, given: dict[str, Any], kinds: Sequence[str]) -> None:
    """A matrix of each of these types of blocks."""
    held, types = tensors(given), {}
    rng = Random(1)
    width = given["hidden_size"]
    names = [name for name, array in held.items() if array.ndim == 2 and array.shape[1] == width]
    for name, kind in zip(names, kinds, strict=False):
        count, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        row = rng.randbytes(width // count * size).translate(bytes(i // 4 for i in range(256)))  # small scales
        held[name], types[name] = np.frombuffer(row * len(held[name]), np.uint8).reshape(len(held[name]), -1), kind
    write_gguf(path, given, held, types)


def sentencepiece(path: Path) -> None:
    """With the tokenizer of a Llama 2."""
    given = config(vocab_size=len(PIECES), eos_token_id=2)
    writer = gguf_writer(path, given)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([0.0] * 259 + [-1.0, -2.0, -0.5])
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    add_tensors(writer, given, tensors(given))
    finish(writer)


def tokenizers(folder: Path) -> None:
    """Directories with a tokenizer.json: our own kind in its styles, and kinds that the library runs."""
    texts = {style: trained.tree(style) for style in trained.STYLES}
    texts |= {f"library-{make.__name__}": make().to_str() for make in (unigram, byte_fallback, word_piece)}
    for name, text in texts.items():
        given = LLAMA | {"vocab_size": 1600, "tie_word_embeddings": True}
        shapes = {"model.embed_tokens.weight": (1600, 8), "model.norm.weight": (8,)}
        for i in range(given["num_hidden_layers"]):
            layer = {"input_layernorm": (8,), "post_attention_layernorm": (8,), "mlp.gate_proj": (12, 8)}
            layer |= {"mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12), "self_attn.q_proj": (8, 8)}
            layer |= {"self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8)}
            shapes |= {f"model.layers.{i}.{part}.weight": shape for part, shape in layer.items()}
        made = write_directory(folder / name, given, {n: peaked(n, shape) for n, shape in shapes.items()})
        (made / "tokenizer.json").write_text(text)


def evidence(folder: Path) -> None:
    """What verbs write of micro: two traces, a trace of digests, states, transcripts, a receipt; a ledger; a batch."""
    ids = ["--ids", "3,1,4,1,5"]
    for name, more in (("trace", []), ("other", ["-e", "fast", "--schedule", "2-3"]), ("digests", ["--digests-only"])):
        said("trace", "micro", *ids, "--steps", "1", *more, "-o", folder / name)
    said("state", "export", "micro", *ids, "-o", folder / "f32.state")
    said("state", "export", "micro", "--ids", "2,7,1,8,2", "-o", folder / "second.state")
    said("state", "export", "micro", *ids, "--kv", "int8", "-o", folder / "int8.state")
    said("state", "export", folder / "models" / "whole", *ids, "-o", folder / "whole.state")
    (folder / "key").write_text("5a" * 32 + "\n")
    sampling = ["--temperature", "0.9", "--seed", "7", "--top-k", "50", "--key", folder / "key"]
    said("transcript", "produce", "micro", *ids, "-n", "4", "-o", folder / "greedy.transcript")
    said("transcript", "produce", "micro", *ids, "-n", "4", *sampling, "-o", folder / "signed.transcript")
    said("gate", "finite", "-e", "numpy", "--receipt", folder / "plain.receipt")
    said("gate", "batch", "-e", "numpy", "--key", folder / "key", "--receipt", folder / "signed.receipt")
    two = ["-e", "numpy", "-e", "gnomon.planted:reordered", "--steps", "0"]
    said("bisect", "micro", "--ids", "3,1", *two, "--log", folder / "bisect.log", expected=1)
    (folder / "vectors").mkdir()
    for file in (files("gnomon") / "vectors").iterdir():
        if file.name.endswith(".json") and len(data := file.read_bytes()) < 5000:
            (folder / "vectors" / file.name).write_bytes(data)
    with Ledger(folder / "ledger") as book:
        for n in range(4):
            book.append({"n": n, "ids": [1, 2, n], "about": {"model": "micro", "created": 5}})
    batch: list[dict[str, Any]] = [
        {"ids": [1, 2, 3], "max_tokens": 2},
        {"ids": [4], "temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 3, "stop": ["x", "y"], "max_tokens": 3},
        {"prompt": "he", "stop": "l", "max_tokens": 1},
    ]
    (folder / "batch.jsonl").write_text("".join(json.dumps(line) + "\n" for line in batch))
    (folder / "batch.txt").write_text("hell\nhe said\n")
    (folder / "ids").write_text("3,1,4\n")
    (folder / "map").write_text("# foreign = ours\nx.{i}.q = blocks.{i}.attn.q\ny = logits\nz = -\n")
    (folder / "map.json").write_text('{"x.{i}.q": "blocks.{i}.attn.q", "y": "logits", "z": "-"}')
    arrays = {"x.0.q": np.ones((6, 40), np.float32), "y": np.ones((6, 97), np.float32), "z": np.arange(5)}
    save_file(arrays, folder / "dump.safetensors")
    np.savez(folder / "dump.npz", **arrays)
    np.save(folder / "dump.npy", arrays["y"])


def said(*words: object, expected: int = 0) -> None:
    """Run a verb, which gives the expected exit code."""
    before, sys.argv = sys.argv, ["gnomon", *map(str, words), "--json"]
    try:
        with redirect_stdout(StringIO()):
            main()
    except SystemExit as left:
        if (left.code or 0) != expected:
            raise AssertionError(f"{words} gave {left.code}") from left
    finally:
        sys.argv = before
