"""Chat templates with tools, calls, dates and arguments: rendered as transformers renders them, or refused by both."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gnomon.decode.chat import render
from gnomon.reference.errors import UsageError
from gnomon.reference.model import ChatTemplate
from template_judge import ASKED, NOW, OWN, SPECIAL, by_transformers, without_nulls

STORED = json.loads((Path(__file__).parent / "data" / "template_cases.json").read_text("utf-8"))["cases"]


def rendered(source: str, asked: str, messages: list[dict[str, Any]]) -> str | None:
    """None where it is refused."""
    _, tools, arguments, answer = ASKED[asked]
    template = ChatTemplate(source, SPECIAL)
    try:
        return render(template, messages, answer=answer, now=NOW, tools=tools, arguments=arguments)
    except UsageError:
        return None


@pytest.mark.parametrize("asked", ASKED)
def test_no_tools_calls_or_arguments_are_written_otherwise_than_by_transformers(asked: str) -> None:
    assert rendered(OWN, asked, ASKED[asked][0]) == STORED[asked]


@pytest.mark.peers
@pytest.mark.parametrize("asked", ASKED)
def test_no_public_template_is_rendered_otherwise_than_by_transformers(asked: str) -> None:
    """GNOMON_TEMPLATES: a folder of .jinja files, such as models/templates of llama.cpp."""
    transformers = pytest.importorskip("transformers", reason="needs transformers, which `make test-peers` installs")
    folder = os.environ.get("GNOMON_TEMPLATES")
    if not folder:
        pytest.skip("no folder of public chat templates: name one in GNOMON_TEMPLATES")
    messages = ASKED[asked][0]
    if int(transformers.__version__.split(".")[0]) >= 5:
        messages = without_nulls(messages)
    sources = [path.read_text("utf-8") for path in sorted(Path(folder).glob("*.jinja"))]
    assert len(sources) > 30
    for source in sources:
        assert rendered(source, asked, messages) == by_transformers(source, asked), source[:200]
