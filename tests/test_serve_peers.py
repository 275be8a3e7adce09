"""States that move from node to node: the same bytes there, or a refusal that is passed on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from gnomon.decode.transcript import GREEDY
from gnomon.engines import engine as engine_of
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.serve.app import app
from running import SHORT
from serving import Relay, file_of, get, go_on, held, listening, plain_answer, put, serving


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def file(numpy: Engine[Any]) -> bytes:
    return file_of(numpy, SHORT)


def pair(flip: int | None = None, **target: Any) -> Any:
    """Two nodes; the first reaches the second by a relay only."""

    @contextmanager
    def both() -> Iterator[tuple[httpx2.Client, httpx2.Client, Relay, str]]:
        engine = target.pop("engine", None) or engine_of("numpy", micro())
        with serving(engine, **target) as second:
            relay = Relay(str(second.base_url).rstrip("/"), flip)
            with listening(relay) as url:
                peers = {url: "of-the-second"}
                with serving(engine_of("numpy", micro()), token="of-the-first", peers=peers) as first:
                    yield first, second, relay, url

    return both()


def test_a_fork_to_a_peer_has_the_same_bytes_there(file: bytes, numpy: Engine[Any]) -> None:
    with pair(token="of-the-second") as (first, second, relay, url):
        reply = first.post("/v1/fork", json={"state": put(first, file), "target": url})
        assert (reply.status_code, reply.headers["gnomon-target"]) == (200, url)
        assert get(second, reply.json()["id"]) == file
        assert go_on(second, reply.json()["id"]) == plain_answer(numpy, [*SHORT, 3, 1], 5, GREEDY)
        assert relay.seen == ["Bearer of-the-second"]  # and not the token that the client gave the first


def test_a_byte_flipped_on_the_way_is_refused_and_told(file: bytes) -> None:
    with pair(flip=len(file) - 1, token="of-the-second") as (first, second, relay, url):
        name = put(first, file)
        for _ in range(5):
            reply = first.post("/v1/fork", json={"state": name, "target": url})
            assert (reply.status_code, reply.json()["error"]) == (422, "state_corrupt")
        assert held(second) == []
        assert get(first, name) == file
        relay.flip = None
        assert first.post("/v1/fork", json={"state": name, "target": url}).status_code == 200


def test_a_refusal_of_the_target_is_passed_on(file: bytes) -> None:
    with pair(engine=engine_of("numpy", micro(), kv="int8"), token="of-the-second") as (first, second, _, url):
        reply = first.post("/v1/fork", json={"state": put(first, file), "target": url})
        assert reply.status_code == 409
        assert reply.json() == {"error": "state_identity", "field": "kv", "ours": "int8", "theirs": "f32"}
        assert held(second) == []
    with pair(token="another") as (first, _, _, url):
        reply = first.post("/v1/fork", json={"state": put(first, file), "target": url})
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")


def test_nothing_is_sent_to_a_target_that_was_not_named(file: bytes) -> None:
    with pair() as (first, second, relay, url):
        name = put(first, file)
        for target in (
            str(second.base_url),
            url + "/",
            url + "/v1",
            url.replace("127.0.0.1", "localhost"),
            "file:///x",
        ):
            reply = first.post("/v1/fork", json={"state": name, "target": target})
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "no_peer")
        assert (relay.seen, held(second)) == ([], [])


def test_a_peer_that_is_not_there_is_told(file: bytes) -> None:
    gone = "http://127.0.0.1:9"
    with TestClient(app(engine_of("numpy", micro()), peers={gone: None}), base_url="http://127.0.0.1") as client:
        reply = client.post("/v1/fork", json={"state": put(client, file), "target": gone})
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "peer_failed")


# Two processes.


@contextmanager
def process(folder: Path, *options: str, log: str = "ledger") -> Iterator[tuple[httpx2.Client, subprocess.Popen[str]]]:
    """A node in a process and a folder of its own. It has to stop well when it is told."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", "from gnomon.cli import main; main()", "serve", "micro", "--engine", "numpy"]
    command += ["--port", "0", "--json", "--ledger", log, *options]
    environment = {name: value for name, value in os.environ.items() if name != "GNOMON_TOKEN"}
    running = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stderr is not None
    token = options[options.index("--token") + 1]
    try:
        url = json.loads(running.stdout.readline())["url"]
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=60, trust_env=False, verify=False) as client:
            yield client, running
    finally:
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, ("", ""))


def test_two_processes_move_a_conversation(tmp_path: Path, file: bytes) -> None:
    """The target starts cold in every round; what is flipped or of another form it refuses, and the first says so."""
    relay = Relay("")
    rounds: list[tuple[str, dict[int | None, int]]] = [("f32", {len(file) - 5: 422, None: 200}), ("int8", {None: 409})]
    with (
        listening(relay) as url,
        process(tmp_path / "a", "--token", "first", "--peer", url, "--peer-token", "second") as (first, _),
    ):
        name = put(first, file)
        for kv, flips in rounds:
            with process(tmp_path / "b", "--token", "second", "--kv", kv) as (second, _):
                relay.target = str(second.base_url).rstrip("/")
                for flip, status in flips.items():
                    relay.flip = flip
                    reply = first.post("/v1/fork", json={"state": name, "target": url})
                    assert reply.status_code == status
                    assert len(held(second)) == (status == 200)
                if status == 200:
                    assert get(second, reply.json()["id"]) == file
                    assert go_on(second, reply.json()["id"]) == go_on(first, name)
            assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["ledger"]
            assert get(first, name) == file


def test_an_answer_in_the_making_is_given_before_a_node_stops(tmp_path: Path, numpy: Engine[Any]) -> None:
    body = {"prompt": SHORT, "max_tokens": 60, "temperature": 0, "stream": True}
    with (
        process(tmp_path / "a", "--token", "x") as (client, running),
        client.stream("POST", "/v1/completions", json=body) as reply,
    ):
        lines = reply.iter_lines()
        next(lines)
        running.send_signal(signal.SIGINT)
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["gnomon"]["ids"] == plain_answer(numpy, SHORT, 60, GREEDY)["ids"]
