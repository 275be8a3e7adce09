"""Chat templates: conversations are written as transformers writes them, and the code of strangers is kept in."""

import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon import models
from gnomon.decode.chat import chat_ids, render
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.load.chat_template import chat_of_directory, chat_of_gguf
from gnomon.reference.model import ChatTemplate

STORED = json.loads((Path(__file__).parent / "data" / "chat_cases.json").read_text("utf-8"))
USER = [{"role": "user", "content": "hello"}]


def stored(name: str) -> ChatTemplate:
    return ChatTemplate(**STORED["templates"][name])


@pytest.mark.parametrize(
    "case", STORED["cases"], ids=lambda c: f"{c['template']}-{c['conversation']}-{'answer' if c['answer'] else 'whole'}"
)
def test_no_conversation_is_written_otherwise_than_by_transformers(case: dict[str, Any]) -> None:
    messages = STORED["conversations"][case["conversation"]]
    assert render(stored(case["template"]), messages, answer=case["answer"]) == case["text"]


def test_no_clock_is_read_unless_a_time_is_given() -> None:
    template = stored("blocks")
    assert render(template, USER).startswith("Date: 26 Jul 2024\n")
    assert render(template, USER, now=datetime(2001, 2, 3)).startswith("Date: 03 Feb 2001\n")


def test_no_conversation_is_changed_by_its_template() -> None:
    messages = [{"role": "user", "content": ["a"]}]
    with pytest.raises(UsageError):
        render(ChatTemplate("{{ messages[0].content.append('b') }}", {}), messages)
    assert messages == [{"role": "user", "content": ["a"]}]


FAILURES = {
    "its own refusal": ("{{ raise_exception('Roles must\n alternate') }}", "Roles must alternate"),
    "broken syntax": ("{% for m in messages %}", "endfor"),
    "an unknown filter": ("{{ messages | shout }}", "shout"),
    "an unknown tag": ("{% shout %}", "shout"),
    "something undefined": ("{{ messages[3].content.strip() }}", "no element 3"),
    "a wrong type": ("{{ 1 + 'a' }}", "unsupported operand"),
    "a division by zero": ("{{ 1 // 0 }}", "zero"),
    "endless recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    "a huge range": ("{% for i in range(1000000000) %}{% endfor %}", "Range too big"),
    "a file": ("{% include '/etc/passwd' %}", "no loader"),
    "a clock that is not there": ("{{ strftime_now('%Y') }}", "undefined"),
    "the classes of Python": ("{{ messages.__class__.__mro__ }}", "unsafe"),
    "the classes by a format": ("{{ '{0.__class__.__init__.__globals__}'.format(messages) }}", "unsafe"),
    "the classes by a filter": ("{{ (messages | attr('__class__')).__mro__ }}", "unsafe"),
    "the globals of a function": ("{{ raise_exception.__globals__.json }}", "unsafe"),
    "what JSON cannot say": ("{{ raise_exception | tojson }}", "not JSON serializable"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_template_fails_in_more_than_one_sentence(failure: str) -> None:
    source, says = FAILURES[failure]
    with pytest.raises(UsageError) as caught:
        render(ChatTemplate(source, {}), USER)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_no_wrong_order_of_roles_is_written() -> None:
    with pytest.raises(UsageError, match="Roles must alternate"):
        render(stored("brackets"), [*USER, *USER])


# Where templates are read.


def directory(path: Path, config: object = None, own: bytes | None = None) -> Path:
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    if own is not None:
        (path / "chat_template.jinja").write_bytes(own)
    return path


NAMED = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]


@pytest.mark.parametrize(
    ("config", "own", "expected"),
    [
        (None, None, None),
        ({}, None, None),
        ({"chat_template": None}, None, None),
        ({"chat_template": "yes"}, None, ChatTemplate("yes", {})),
        ({"chat_template": NAMED}, None, ChatTemplate("yes", {})),
        ({"chat_template": "no"}, b"yes", ChatTemplate("yes", {})),
        (None, b"a\r\nb", ChatTemplate("a\nb", {})),
        (
            {
                "chat_template": "yes",
                "bos_token": "<s>",
                "eos_token": {"content": "</s>", "lstrip": False},
                "pad_token": None,
            },
            None,
            ChatTemplate("yes", {"bos_token": "<s>", "eos_token": "</s>"}),
        ),
    ],
    ids=["no file", "no template", "null", "text", "named", "a file of its own", "line ends", "special tokens"],
)
def test_a_directory_gives_its_template(
    tmp_path: Path, config: object, own: bytes | None, expected: ChatTemplate | None
) -> None:
    assert chat_of_directory(directory(tmp_path, config, own)) == expected


@pytest.mark.parametrize(
    ("config", "own", "says"),
    [
        ({"chat_template": 5}, None, "chat_template"),
        ({"chat_template": NAMED[:1]}, None, "default"),
        ({"chat_template": [{"name": "default", "template": 5}]}, None, "default"),
        ({"chat_template": [5]}, None, "default"),
        ([], None, "JSON object"),
        (None, b"\xff\xfe", "UTF-8"),
    ],
    ids=["a number", "no default", "a default that is a number", "a list of numbers", "no object", "no UTF-8"],
)
def test_no_broken_template_file_is_read(tmp_path: Path, config: object, own: bytes | None, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        chat_of_directory(directory(tmp_path, config, own))


def test_a_gguf_file_gives_its_template() -> None:
    tokens = {"tokenizer.ggml.tokens": ["a", "<s>"], "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    assert chat_of_gguf(tokens) is None
    assert chat_of_gguf({**tokens, "tokenizer.chat_template": "x"}) == ChatTemplate("x", {"bos_token": "<s>"})
    with pytest.raises(ModelError, match="text"):
        chat_of_gguf({**tokens, "tokenizer.chat_template": ["x"]})


def test_a_loaded_directory_carries_its_template(tmp_path: Path) -> None:
    for file in models.folder("tiny-dense").iterdir():
        (tmp_path / file.name).symlink_to(file)
    assert gnomon.load(tmp_path).chat is None
    directory(tmp_path, {"chat_template": "{{ bos_token }}def {{ messages[0].content }}(", "bos_token": "\n"})
    model = gnomon.load(tmp_path)
    assert model.tokenizer is not None
    assert chat_ids(model, USER) == model.tokenizer.encode("\ndef hello(", add_special=False)


# Models that cannot.


def test_no_model_without_a_template_or_tokenizer_is_talked_to() -> None:
    for name, lacks in (("micro", "tokenizer"), ("tiny-dense", "chat template")):
        with pytest.raises(UsageError, match=f"Expected a {lacks} .*{name}"):
            chat_ids(gnomon.load(name), USER)
    silent = replace(gnomon.load("tiny-dense"), chat=ChatTemplate("", {}))
    with pytest.raises(UsageError, match="at least one token"):
        chat_ids(silent, USER)


@pytest.mark.real
@pytest.mark.parametrize("conversation", ["plain", "long"])
def test_the_ids_of_smollm2_are_those_of_transformers(conversation: str) -> None:
    path = Path(os.environ.get("GNOMON_SMOLLM2", ".cache/SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.is_file():
        pytest.skip(f"no SmolLM2 at {path}: make test-real fetches it")
    model = gnomon.load(path)
    assert model.chat == stored("smollm2")
    case = next(c for c in STORED["cases"] if (c["template"], c["conversation"]) == ("smollm2", conversation))
    assert chat_ids(model, STORED["conversations"][conversation]) == case["ids"]
