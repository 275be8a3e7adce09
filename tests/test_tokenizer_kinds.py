"""Tokenizers of GGUF files beyond the four styles: other names, two more patterns, SentencePiece, and unknown ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers
from typer.testing import CliRunner

from broken_gguf import key, without
from gnomon.cli import app
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.load import load
from gnomon.reference.tokenizer import Tokenizer
from model_files import DATA, add_tensors, config, finish, gguf_writer, tensors, write_directory, write_gguf
from trained import SAMPLE, TEXTS, gguf, tree

# As llama.cpp's src/llama-vocab.cpp groups the names: those of a line have one pattern and one set of flags there.
SAME = {
    "smollm": ("starcoder", "refact", "codeshell", "minerva-7b"),
    "gpt-2": ("phi-2", "mpt", "olmo", "jais", "gigachat", "a.x-4.0", "mellum", "trillion"),
    "llama-bpe": ("llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    "qwen2": ("deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"),
}
# As in the tokenizer.json of mistralai/Mistral-Nemo-Instruct-2407, deepseek-ai/DeepSeek-V3 and deepseek-coder, whose
# last step is one of digits.
ORIGINALS = {
    "tekken": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "deepseek-coder": (
        *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
        *("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"),
    ),
    "deepseek-v3": (
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ),
}
MORE = ["HelloWorld FOOBar iPhone", "漢字かなカナ123漢", "a/b//\n/c", "x+=1;//ok\n", "12345 ٣٤٥", "éÉ don't DON'T"]
PIECES: dict[str, Any] = json.loads((DATA / "sentencepiece_cases.json").read_text())


@pytest.mark.parametrize(("base", "name"), [(base, name) for base, names in SAME.items() for name in names])
def test_no_other_name_of_a_pattern_is_another_tokenizer(base: str, name: str) -> None:
    tokens, merges, types, _ = gguf(base)
    ours, theirs = (Tokenizer.from_gguf(tokens, merges, types, pre, bos_id=1) for pre in (name, base))

    assert ours.digest == theirs.digest
    assert ours.encode("Hello 1234") == theirs.encode("Hello 1234")


@pytest.mark.parametrize("name", ORIGINALS)
def test_no_pattern_cuts_otherwise_than_the_library_does_with_the_original(name: str) -> None:
    tokens, merges, types, _ = gguf("gpt-2")
    parts = json.loads(tree("gpt-2"))["model"]
    pairs = [tuple(pair) for pair in parts["merges"]]
    library = tokenizers.Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs, ignore_merges=name == "tekken")
    )
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in ORIGINALS[name]]
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    library.decoder = decoders.ByteLevel()
    ours = Tokenizer.from_gguf(tokens, merges, [1] * len(types), name, add_bos=False)

    for text in [text for texts in TEXTS.values() for text in texts] + MORE:
        assert ours.encode(text) == library.encode(text).ids


def pieces(**changes: Any) -> Tokenizer:
    """The SentencePiece tokenizer of the stored cases, from what a GGUF file would hold."""
    given = {"tokens": PIECES["tokens"], "scores": PIECES["scores"], "token_types": PIECES["types"], "bos_id": 1}
    return Tokenizer.from_gguf(**(given | {"merges": [], "pre": "default", "model": "llama", "eos_ids": [2]} | changes))


def test_no_text_becomes_other_ids_than_sentencepiece_gives() -> None:
    made = pieces()

    assert [made.encode(text, add_special=False) for text, _ in PIECES["texts"]] == [ids for _, ids in PIECES["texts"]]
    assert [made.decode(ids) for _, ids in PIECES["texts"]] == [text for text, _ in PIECES["texts"]]
    assert "".join(made.stream(PIECES["texts"][0][1])) == PIECES["texts"][0][0]


def test_sentencepiece_starts_a_text_with_bos_unless_the_file_says_otherwise() -> None:
    plain = pieces().encode("the", add_special=False)

    assert pieces().encode("the") == [1, *plain]
    assert pieces(add_bos=False).encode("the") == plain
    assert pieces(add_eos=True).encode("the") == [1, *plain, 2]
    assert pieces(space=False).decode(pieces(space=False).encode(" the", add_special=False)) == " the"
    assert pieces(space=False).encode(" the", add_special=False) == plain


def test_a_file_of_a_llama_2_loads_with_its_tokenizer(tmp_path: Path) -> None:
    """Metadata as in the files of TinyLlama, Llama 2 and Mistral 7B."""
    given = config(vocab_size=len(PIECES["tokens"]))
    writer = gguf_writer(tmp_path / "m.gguf", given)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(PIECES["tokens"])
    writer.add_token_scores(PIECES["scores"])
    writer.add_token_types(PIECES["types"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)
    add_tensors(writer, given, tensors(given))
    finish(writer)
    model = load(tmp_path / "m.gguf")
    text, ids = PIECES["texts"][0]

    assert model.tokenizer is not None
    assert model.tokenizer.encode(text) == [1, *ids]
    assert model.tokenizer.eos_ids == (2,)
    assert model.no_tokenizer == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [0.0]}, "a score and a type per token but got 800 tokens, 1 scores"),
        ({"scores": [float("nan")] * 800}, "finite scores but token 0 has nan"),
        ({"token_types": [7] * 800}, "token types from 1 to 6 but token 0 has 7"),
        ({"token_types": [1] * 800}, "a token of type 6 for every byte but 0x00 has none"),
        ({"tokens": ["a"] * 800}, "tokens to differ but 0 and 1 are both 'a'"),
        ({"tokens": ["a" * 513] * 800}, "tokens of 1 to 512 characters but token 0"),
        ({"tokens": [f"{i:0512}" for i in range(20000)]} | dict.fromkeys(("scores", "token_types"), [1.0] * 20000),
         "at most 8388608 characters together"),
        ({"bos_id": 800}, "800"),
    ],
    ids=["scores", "nan", "types", "bytes", "twice", "long", "large", "bos"],
)  # fmt: skip
def test_no_broken_sentencepiece_tokenizer_is_read(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        pieces(**change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (key("tokenizer.ggml.pre", "martian"), "a known tokenizer.ggml.pre but got 'martian'"),
        (without("tokenizer.ggml.pre"), "a known tokenizer.ggml.pre but got None"),
        (key("tokenizer.ggml.model", "t5"), "tokenizer.ggml.model to be gpt2 or llama but got 't5'"),
    ],
    ids=["pre", "no-pre", "model"],
)
def test_an_unknown_tokenizer_does_not_cost_the_weights(tmp_path: Path, change: Any, why: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", config(), tensors(config()), tokenizer=True)
    digest = load(path).digest
    change(path)
    model = load(path)
    answer = CliRunner().invoke(app, ["run", str(path), "--prompt", "hello", "--max-tokens", "2"])

    assert (model.digest, model.tokenizer) == (digest, None)
    assert why in model.no_tokenizer
    assert isinstance(answer.exception, UsageError)
    assert why in str(answer.exception)
    assert why in " ".join(CliRunner().invoke(app, ["inspect", "model", str(path)]).output.split())
    assert CliRunner().invoke(app, ["run", str(path), "--ids", "1,2", "--max-tokens", "2"]).exit_code == 0


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (("tokenizer.model",), "its directory has tokenizer.model"),
        (("tekken.json",), "its directory has tekken.json"),
        (("vocab.json", "merges.txt"), "its directory has vocab.json and merges.txt"),
        (("vocab.json",), "its directory has no tokenizer.json"),
        ((), "its directory has no tokenizer.json"),
    ],
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else None,
)
def test_a_directory_without_tokenizer_json_tells_what_it_has(tmp_path: Path, files: tuple[str, ...], why: str) -> None:
    folder = write_directory(tmp_path / "m", config(), tensors(config()))
    for name in files:
        (folder / name).write_text("{}")
    answer = CliRunner().invoke(app, ["run", str(folder), "--prompt", "hello", "--max-tokens", "2"])

    assert load(folder).tokenizer is None
    assert isinstance(answer.exception, UsageError)
    assert why in str(answer.exception)


def test_every_sample_survives_a_new_pattern() -> None:
    tokens, merges, types, _ = gguf("gpt-2")
    for name in ORIGINALS:
        made = Tokenizer.from_gguf(tokens, merges, types, name, add_bos=False)
        assert [made.decode(made.encode(text)) for text in SAMPLE] == SAMPLE
