"""States that move in and out of a node: the same bytes or a refusal, and nothing in between."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from gnomon.decode.state_file import StateFile, pack, receive, unpack
from gnomon.decode.transcript import GREEDY
from gnomon.engines import engine as engine_of
from gnomon.gates.faults import states
from gnomon.loading import load
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.state import state_specs
from gnomon.serve.app import app
from running import LONG, SHORT
from serving import BINARY, NewEngine, dropped, eventually, file_of, get, go_on, held, plain_answer, put, serving
from test_state_memory import CONFIG, MIB, POSITIONS, STATE, model


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def file(numpy: Engine[Any]) -> bytes:
    return file_of(numpy, SHORT)


@pytest.fixture
def node() -> Iterator[TestClient]:
    with TestClient(app(engine_of("numpy", micro())), base_url="http://127.0.0.1") as client:
        yield client


# Bytes.


@pytest.mark.parametrize("kv", ["f32", "int8"])
def test_no_byte_changes_on_the_way(new_engine: NewEngine, kv: str) -> None:
    sent = file_of(engine_of("numpy", micro(), kv=kv), SHORT)
    with TestClient(app(new_engine(micro(), kv=kv)), base_url="http://127.0.0.1") as client:
        name = put(client, sent)
        assert get(client, name) == sent
        copy = client.post("/v1/fork", json={"state": name}).json()
        assert copy["id"] != name
        for one in (name, copy["id"]):
            assert go_on(client, one) == plain_answer(engine_of("numpy", micro(), kv=kv), [*SHORT, 3, 1], 5, GREEDY)
            assert get(client, one) == sent
        assert client.get("/v1/state", params={"id": name}).json()["data"][0]["ids"] == SHORT


def test_a_signed_corruption_reaches_nobody_who_did_not_name_it(node: TestClient, numpy: Engine[Any]) -> None:
    """It is kept as it was sent, and used where it is named; the same ids without it give honest bytes."""
    honest = unpack([file_of(numpy, SHORT)])
    sent = states.exchanged(honest)
    name = put(node, sent)
    assert get(node, name) == sent
    right = plain_answer(numpy, [*SHORT, 3, 1], 5, GREEDY)
    cold = node.post("/v1/completions", json={"prompt": [*SHORT, 3, 1], "max_tokens": 5, "temperature": 0}).json()
    assert {field: cold["gnomon"][field] for field in right} == right
    assert go_on(node, name)["logits_sha256"] != right["logits_sha256"]


# Refusals.

WRONG: dict[str, tuple[Callable[[], bytes], int, dict[str, str]]] = {
    "model": (lambda: file_of(engine_of("numpy", load("tiny-dense")), SHORT), 409, {"field": "model"}),
    "arm": (lambda: file_of(engine_of("numpy", micro(), "int8"), SHORT), 409, {"field": "arm", "theirs": "int8"}),
    "kv": (lambda: file_of(engine_of("numpy", micro(), kv="bf16"), SHORT), 409, {"field": "kv", "theirs": "bf16"}),
    "flip": (lambda: states.flipped(unpack([file_of(engine_of("numpy", micro()), SHORT)])), 422, {}),
    "truncated": (lambda: states.truncated(unpack([file_of(engine_of("numpy", micro()), SHORT)])), 400, {}),
    "position": (lambda: states.other_position(unpack([file_of(engine_of("numpy", micro()), SHORT)])), 400, {}),
    "nothing": (lambda: b"", 400, {}),
    "a path": (lambda: b"/etc/passwd" * 10, 400, {}),
}


@pytest.mark.parametrize("what", WRONG)
def test_nothing_of_a_wrong_state_is_restored(node: TestClient, file: bytes, what: str) -> None:
    data, status, fields = WRONG[what]
    name = put(node, file)
    before = held(node)
    reply = node.post("/v1/state/import", content=data(), headers=BINARY)
    assert reply.status_code == status
    body = reply.json()
    if status == 409:
        assert body.keys() == {"error", "field", "ours", "theirs"}
    assert body["error"] == {409: "state_identity", 422: "state_corrupt", 400: "state_file"}[status]
    assert {field: body[field] for field in fields} == fields
    assert held(node) == before
    assert get(node, name) == file


def test_no_state_is_larger_than_what_may_be_held(numpy: Engine[Any], file: bytes) -> None:
    for budget, status in ((1000, 413), (1 << 20, 200)):
        with TestClient(app(engine_of("numpy", micro()), held=budget), base_url="http://127.0.0.1") as client:
            reply = client.post("/v1/state/import", content=file, headers=BINARY)
            assert reply.status_code == status
            chunked = client.post("/v1/state/import", content=iter([file]), headers=BINARY)
            assert chunked.status_code == status
            answer = client.post("/v1/completions", json={"prompt": SHORT, "max_tokens": 1}).json()
            assert (answer["gnomon"]["state"] is None) == (status == 413)


def test_conversations_make_room_for_new_ones(numpy: Engine[Any], file: bytes) -> None:
    size = numpy.nbytes(receive(numpy, [file]))
    with TestClient(app(engine_of("numpy", micro()), held=2 * size + size // 2), base_url="http://127.0.0.1") as client:
        first, second = put(client, file), put(client, file)
        get(client, first)
        third = put(client, file)
        assert [one["id"] for one in held(client)] == [first, third]
        reply = client.get("/v1/state/export", params={"id": second})
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "no_state")


def test_no_other_type_of_body_is_a_state(node: TestClient, file: bytes) -> None:
    for headers in ({}, {"content-type": "text/plain"}):
        assert node.post("/v1/state/import", content=file, headers=headers).status_code == 415


# Clients that are killed.


@pytest.fixture(scope="module")
def busy() -> Iterator[tuple[httpx2.Client, str, bytes]]:
    """A node that holds one conversation, in many pieces on its way: client, id, file."""
    engine = engine_of("numpy", micro())
    data = file_of(engine, LONG * 3)
    with serving(engine) as client:
        yield client, put(client, data), data


@pytest.mark.parametrize("part", range(10))
def test_a_client_killed_during_an_import_changes_nothing(busy: tuple[httpx2.Client, str, bytes], part: int) -> None:
    client, name, data = busy
    before = held(client)
    head = f"POST /v1/state/import HTTP/1.1\nContent-Type: application/octet-stream\nContent-Length: {len(data)}"
    dropped(client, head, data[: len(data) * part // 10])
    assert held(client) == before
    assert get(client, name) == data


@pytest.mark.parametrize("part", range(10))
def test_a_client_killed_during_an_export_changes_nothing(busy: tuple[httpx2.Client, str, bytes], part: int) -> None:
    client, name, data = busy
    before = held(client)
    dropped(client, f"GET /v1/state/export?id={name} HTTP/1.1", read=len(data) * part // 10)
    assert held(client) == before
    assert get(client, name) == data


def test_transfers_that_were_cut_take_no_place(busy: tuple[httpx2.Client, str, bytes]) -> None:
    """More of them than there are places; a later one finds its own."""
    client, name, data = busy
    head = f"POST /v1/state/import HTTP/1.1\nContent-Type: application/octet-stream\nContent-Length: {len(data)}"
    for _ in range(6):
        dropped(client, head, data[:1000])
    assert eventually(lambda: client.get("/v1/state/export", params={"id": name}).status_code == 200)
    assert eventually(lambda: client.post("/v1/state/import", content=data, headers=BINARY).status_code == 200)


# Memory.


def test_a_node_holds_a_state_once_on_its_way() -> None:
    """64 MiB in and out, while the other side keeps nothing of it."""
    specs = state_specs(CONFIG, "f32", POSITIONS)
    engine = Engine("numpy", model(), NumpyOps())
    ids = [i % 97 for i in range(POSITIONS)]
    file = pack(engine, engine.load({name: np.zeros(*spec) for name, spec in specs.items()}, ids))
    with serving(engine) as client:
        client.get("/health")

        def growth(work: Callable[[], Any]) -> int:
            tracemalloc.start()
            try:
                work()
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        names: list[str] = []

        def sending() -> None:
            headers = {**BINARY, "content-length": str(file.size)}
            reply = client.post("/v1/state/import", content=file.pieces(), headers=headers)
            names.append(reply.json()["id"])

        def reading() -> None:
            with client.stream("GET", "/v1/state/export", params={"id": names[0]}) as reply:
                assert sum(len(chunk) for chunk in reply.iter_raw(1 << 16)) == file.size

        assert STATE <= growth(sending) <= 1.1 * STATE + 32 * MIB
        assert STATE <= growth(reading) <= 1.1 * STATE + 32 * MIB


def test_nothing_of_a_state_is_kept_when_it_has_gone(file: bytes) -> None:
    """The engine's thread rests after it, and what it made last must not rest with it."""

    def packed() -> int:
        return sum(type(one) is StateFile for one in gc.get_objects())

    with serving(engine_of("numpy", micro())) as target:
        url = str(target.base_url).rstrip("/")
        with serving(engine_of("numpy", micro()), peers={url: None}) as client:
            name, before = put(client, file), packed()
            assert get(client, name) == file
            assert eventually(lambda: packed() == before), "exported"
            assert client.post("/v1/fork", json={"state": name, "target": url}).status_code == 200
            assert eventually(lambda: packed() == before), "sent on"
