"""The official OpenAI client against a node: it completes, streams, chats and understands refusals."""

from collections.abc import Iterator
from typing import Any

import pytest

from gnomon.engines import engine as engine_of
from serving import chatting, serving

pytestmark = pytest.mark.peers
MESSAGES = [{"role": "user", "content": "def main("}]


@pytest.fixture(scope="module")
def openai() -> Any:
    return pytest.importorskip("openai", reason="needs the package openai")


@pytest.fixture(scope="module")
def client(openai: Any) -> Iterator[Any]:
    with (
        serving(engine_of("numpy", chatting()), token="secret") as node,
        openai.OpenAI(base_url=f"{str(node.base_url).rstrip('/')}/v1", api_key="secret", max_retries=0) as made,
    ):
        yield made


def test_it_completes_and_streams_the_same(client: Any) -> None:
    asked: Any = {"model": "tiny-dense", "prompt": "def main(", "max_tokens": 8, "temperature": 0, "seed": 3}
    whole = client.completions.create(**asked)
    pieces = list(client.completions.create(**asked, stream=True))
    assert whole.choices[0].text
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert pieces[-1].gnomon["logits_sha256"] == whole.gnomon["logits_sha256"]
    assert (whole.usage.completion_tokens, whole.choices[0].finish_reason) == (8, "length")


def test_it_chats(client: Any) -> None:
    asked: Any = {"model": "tiny-dense", "messages": MESSAGES, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**asked)
    pieces = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    said = "".join(choice.delta.content or "" for piece in pieces for choice in piece.choices)
    assert said == whole.choices[0].message.content
    assert pieces[-1].usage == whole.usage
    assert len(whole.choices[0].logprobs.content) == 6
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 2


def test_it_lists_the_model(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["tiny-dense"]


def test_it_understands_refusals(openai: Any, client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="tools") as raised:
        client.chat.completions.create(model="tiny-dense", messages=MESSAGES, tools=[])
    assert raised.value.param == "tools"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
