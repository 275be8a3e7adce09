"""Answers of a node: the bytes of plain decoding, whoever else is served and whatever goes wrong beside them."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from decoding import plainly
from gnomon.decode.transcript import GREEDY
from gnomon.engines import engine as engine_of
from gnomon.loading import load
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NonFiniteError
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.protocol import F32, Rows
from gnomon.serve.app import app
from running import LONG, SHORT
from serving import (
    DRAWN,
    FIELDS,
    TEMPLATE,
    NewEngine,
    ask,
    chatting,
    events,
    file_of,
    own,
    plain_answer,
    serving,
    together,
)


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def node(numpy: Engine[Any]) -> Iterator[TestClient]:
    with TestClient(app(numpy), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def chatty() -> Iterator[TestClient]:
    with TestClient(app(engine_of("numpy", chatting())), base_url="http://127.0.0.1") as client:
        yield client


# Bytes.


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "drawn"])
def test_no_answer_has_other_bytes_than_plain_decoding(new_engine: NewEngine, numpy: Engine[Any], greedy: bool) -> None:
    fields, how = ({"temperature": 0}, GREEDY) if greedy else (FIELDS, DRAWN)
    with TestClient(app(new_engine(micro())), base_url="http://127.0.0.1") as client:
        answer = ask(client, prompt=SHORT, max_tokens=9, **fields)
        assert own(answer) == plain_answer(numpy, SHORT, 9, how)
        streamed = events(client, "/v1/completions", prompt=SHORT, max_tokens=9, **fields)
    assert own(streamed[-1]) == own(answer)
    assert "".join(one["choices"][0]["text"] for one in streamed) == answer["choices"][0]["text"]
    assert [one["choices"][0]["finish_reason"] for one in streamed] == [None] * (len(streamed) - 1) + ["length"]


def test_no_neighbour_of_200_changes_a_byte(numpy: Engine[Any]) -> None:
    kinds = [(LONG[i : i + 3 + 2 * i], 1 + i % 4, Sampling(0.9, 0, 0.95, i)) for i in range(20)]
    alone = [plain_answer(numpy, *kind) for kind in kinds]
    bodies = [
        {"prompt": ids, "max_tokens": tokens, "temperature": 0.9, "top_p": 0.95, "seed": how.seed}
        for ids, tokens, how in kinds * 10
    ]
    with serving(engine_of("numpy", micro()), queue=256) as client:
        replies = together(client, bodies)
    assert [reply.status_code for reply in replies] == [200] * 200
    assert [own(reply.json()) for reply in replies] == alone * 10


def test_no_request_is_lost_where_few_find_a_place(numpy: Engine[Any]) -> None:
    expected = plain_answer(numpy, SHORT, 4, GREEDY)
    body = {"prompt": SHORT, "max_tokens": 4, "temperature": 0}
    with serving(engine_of("numpy", micro()), queue=4) as client:
        replies = together(client, [body] * 30)
        assert {reply.status_code for reply in replies} == {200, 503}
        assert all(own(reply.json()) == expected for reply in replies if reply.status_code == 200)
        for reply in replies:
            if reply.status_code == 503:
                assert int(reply.headers["retry-after"]) >= 1
                assert reply.json()["error"]["code"] == "busy"
        again = together(client, [body] * 30, retry=True)
    assert [own(reply.json()) for reply in again] == [expected] * 30


def test_going_on_changes_no_byte(node: TestClient, numpy: Engine[Any]) -> None:
    """The rows of a conversation that is held are not computed again, and nobody could tell."""
    first = ask(node, prompt=SHORT, max_tokens=5, **FIELDS)
    known = SHORT + first["gnomon"]["ids"]
    second = ask(node, prompt=[3, 1, 4], state=first["gnomon"]["state"], max_tokens=6, **FIELDS)
    assert own(second) == plain_answer(numpy, [*known, 3, 1, 4], 6, DRAWN)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == len(known) - 1
    assert second["usage"]["prompt_tokens"] == len(known) + 3
    # The conversation that was named is as it was.
    exported = node.get("/v1/state/export", params={"id": first["gnomon"]["state"]}).content
    assert exported == file_of(numpy, known)


def test_no_byte_follows_a_stop_text(chatty: TestClient) -> None:
    whole = ask(chatty, prompt="def main(", max_tokens=24, temperature=0)["choices"][0]["text"]
    for stop in (whole[7:10], whole[3:4], [whole[12:14], whole[9:15]]):
        answer = ask(chatty, prompt="def main(", max_tokens=24, temperature=0, stop=stop)
        first = min(whole.find(one) for one in ([stop] if isinstance(stop, str) else stop))
        streamed = events(chatty, "/v1/completions", prompt="def main(", max_tokens=24, temperature=0, stop=stop)
        assert answer["choices"][0]["text"] == whole[:first]
        assert "".join(one["choices"][0]["text"] for one in streamed) == whole[:first]
        assert answer["choices"][0]["finish_reason"] == streamed[-1]["choices"][0]["finish_reason"] == "stop"


def test_the_row_of_a_stop_id_is_part_of_the_digest() -> None:
    """The id that ends a text is drawn from a row like every other."""
    model = load("tiny-dense")
    assert model.tokenizer is not None
    made = plainly(engine_of("numpy", model), [5, 6, 7], 4)
    model.tokenizer.eos_ids = (made.ids[-1],)
    numpy = engine_of("numpy", model)
    with TestClient(app(numpy), base_url="http://127.0.0.1") as client:
        answer = ask(client, prompt=[5, 6, 7], max_tokens=9, temperature=0)
    assert own(answer) == plain_answer(numpy, [5, 6, 7], 9, GREEDY, [made.ids[-1]])
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_conversation_is_the_prompt_that_its_template_gives(chatty: TestClient) -> None:
    model = chatting()
    assert model.tokenizer is not None
    ids = model.tokenizer.encode("<system>Be.\n<user>def\n<assistant>", add_special=False)
    assert TEMPLATE.endswith("<assistant>")
    messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "def"}]
    asked = {"messages": messages, "max_completion_tokens": 6, **FIELDS}
    answer = chatty.post("/v1/chat/completions", json=asked).json()
    assert own(answer) == plain_answer(engine_of("numpy", model), ids, 6, DRAWN)
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": model.tokenizer.decode(own(answer)["ids"]),
    }
    streamed = events(chatty, "/v1/chat/completions", **asked, stream_options={"include_usage": True})
    assert streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    said = "".join(one["choices"][0]["delta"].get("content", "") for one in streamed[:-1])
    assert said == answer["choices"][0]["message"]["content"]
    assert own(streamed[-2]) == own(answer)
    assert (streamed[-1]["choices"], streamed[-1]["usage"]) == ([], answer["usage"])


def test_logprobs_are_those_of_the_row(chatty: TestClient) -> None:
    """For display: an exponential of the machine is near enough."""
    asked = {"messages": [{"role": "user", "content": "import"}], "max_tokens": 2, "temperature": 0}
    answer = chatty.post("/v1/chat/completions", json={**asked, "logprobs": True, "top_logprobs": 3}).json()
    first = answer["choices"][0]["logprobs"]["content"][0]
    assert first["token"] == first["top_logprobs"][0]["token"]
    values = [one["logprob"] for one in first["top_logprobs"]]
    assert values == sorted(values, reverse=True)
    assert values[0] == first["logprob"] < 0
    assert bytes(first["bytes"]).decode() == first["token"]
    assert chatty.post("/v1/chat/completions", json=asked).json()["choices"][0]["logprobs"] is None


# What goes wrong inside.


def test_a_text_that_goes_wrong_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch, numpy: Engine[Any]) -> None:
    engine = engine_of("numpy", micro())
    honest = engine.step

    def poisoned(rows: Rows, *args: Any) -> F32:
        if 96 in rows.ids:
            raise NonFiniteError("NaN")
        return honest(rows, *args)

    monkeypatch.setattr(engine, "step", poisoned)
    bodies = [{"prompt": [1, 2, one], "max_tokens": 1, "temperature": 0} for one in (3, 96, 4)]
    with serving(engine) as client:
        replies = together(client, bodies)
        assert client.post("/v1/completions", json={**bodies[1], "stream": True}).text.count('"nonfinite"') == 1
    assert [reply.status_code for reply in replies] == [200, 500, 200]
    assert replies[1].json()["error"]["code"] == "nonfinite"
    assert own(replies[2].json()) == plain_answer(numpy, [1, 2, 4], 1, GREEDY)


def test_a_step_that_fails_does_not_end_the_node(monkeypatch: pytest.MonkeyPatch, numpy: Engine[Any]) -> None:
    engine = engine_of("numpy", micro())

    def failing(*args: Any) -> F32:
        raise MemoryError

    with TestClient(app(engine), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "step", failing)
            reply = client.post("/v1/completions", json={"prompt": [1]})
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "failed")
        assert client.get("/health").status_code == 200
        assert own(ask(client, prompt=SHORT, max_tokens=2, temperature=0)) == plain_answer(numpy, SHORT, 2, GREEDY)


# What it says of itself.


def test_no_endpoint_is_missing_in_the_description(chatty: TestClient, node: TestClient) -> None:
    described = {
        (path, method.upper())
        for path, methods in chatty.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    routes: Any = chatty.app.routes  # type: ignore[attr-defined]
    served = {(route.path, method) for route in routes for method in route.methods if method != "HEAD"}
    assert described == served - {("/openapi.json", "GET")}
    assert "/v1/chat/completions" not in node.get("/openapi.json").json()["paths"]


def test_a_node_names_its_model_by_digest(node: TestClient, numpy: Engine[Any]) -> None:
    (one,) = node.get("/v1/models").json()["data"]
    assert (one["id"], one["gnomon"]["model"], one["gnomon"]["engine"]) == ("micro", micro().digest, "numpy")
