"""Tokenizers and chat templates that ask for all memory or all time end with a sentence; what comes next is right."""

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnomon.decode import chat
from gnomon.decode.chat import render
from gnomon.reference import library_tokenizer
from gnomon.reference.confined import Confined
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.model import ChatTemplate
from test_tokenizer_library import unigram
from trained import read, tree

USER = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds that are soon met."""
    monkeypatch.setattr(library_tokenizer, "MEBIBYTES", 512)
    monkeypatch.setattr(library_tokenizer, "LOAD_SECONDS", 5.0)
    monkeypatch.setattr(library_tokenizer, "SECONDS", 0.5)
    renderer = Confined(Path(chat.__file__).with_name("template_child.py"), mebibytes=256, seconds=0.5)
    monkeypatch.setattr(chat, "RENDERER", renderer)
    yield
    renderer.stop()


def changed(**parts: Any) -> str:
    return json.dumps({**json.loads(unigram().to_str()), **parts})


def added(count: int, first: int, content: str = "<extra_{}>") -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": first + i, "content": content.format(i), "special": True, **flags} for i in range(count)]


def test_no_precompiled_map_takes_what_it_claims(tmp_path: Path) -> None:
    """Its first four bytes are a size: 8.6 GB of table."""
    charsmap = base64.b64encode(b"\xff\xff\xff\xff").decode()
    with pytest.raises(ModelError, match="within bounds but it took more than 5 seconds or 512 MiB"):
        read(tmp_path, changed(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap}))


def test_no_text_is_doubled_without_end(tmp_path: Path) -> None:
    """Each of 40 replacements doubles it; the tokenizer is still there for a text that has nothing to replace."""
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    made = read(tmp_path, changed(normalizer={"type": "Sequence", "normalizers": [step] * 40}))
    with pytest.raises(ModelError, match="to encode with this tokenizer within bounds"):
        made.encode("a")
    assert made.encode("b") == read(tmp_path, changed()).encode("b")


def test_no_number_of_added_tokens_takes_minutes(tmp_path: Path) -> None:
    parts = json.loads(tree("gpt-2"))
    first = len(parts["model"]["vocab"].keys() | {token["content"] for token in parts["added_tokens"]})
    parts["added_tokens"] += added(20_000, first)
    began = time.process_time()
    made = read(tmp_path, json.dumps(parts))
    assert made.kind == "bpe"
    assert made.encode("<extra_7><extra_77>") == [first + 7, first + 77]
    assert time.process_time() - began < 2.5  # one pattern of them all took four seconds, of ten times as many minutes


def test_no_added_token_is_as_long_as_a_text(tmp_path: Path) -> None:
    parts = json.loads(tree("gpt-2"))
    first = len(parts["model"]["vocab"].keys() | {token["content"] for token in parts["added_tokens"]})
    parts["added_tokens"] += added(1, first, "x" * 2000)
    with pytest.raises(ModelError, match="at most 1024 characters"):
        read(tmp_path, json.dumps(parts))


def test_a_process_that_was_killed_is_started_again(tmp_path: Path) -> None:
    made = read(tmp_path, changed())
    ids = made.encode("a ab")
    process = made._core._library._process  # type: ignore[union-attr]
    assert process is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert made.encode("a ab") == ids


HOSTILE = {
    "a power of a power": "{{ 2**100000**100000 }}",
    "nested ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubling": "{% set n = namespace(s='x' * 1024) %}{% for i in range(30) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "a long text": "{{ 'x' * 20000000 }}",
    "a wide format": "{{ '%999999999d' % 1 }}",
    "deep nesting": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_no_template_takes_all_time_or_memory(what: str) -> None:
    with pytest.raises(
        UsageError, match="Expected the chat template to take this conversation but it failed: "
    ) as told:
        render(ChatTemplate(HOSTILE[what], {}), USER)
    assert "\n" not in str(told.value)
    assert render(ChatTemplate("{{ messages[0].content }}", {}), USER) == "hello"  # the next one is rendered
