"""`gnomon serve` does not start where it should not, and says why in one sentence."""

import socket
import sys
from pathlib import Path

import pytest

from gnomon.cli.serve import command, paired
from gnomon.reference.errors import NotRunError, UsageError
from gnomon.reference.ledger import Ledger


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::", "example.org"])
def test_no_node_without_a_token_where_others_reach_it(host: str) -> None:
    with pytest.raises(UsageError, match=f"--token beside --host {host}"):
        command("micro", host=host)


@pytest.mark.parametrize("token", ["", "two words", "caf\u00e9", "line\n"])
def test_no_token_that_no_header_can_hold(token: str) -> None:
    with pytest.raises(UsageError, match="--token to be printable") as raised:
        command("micro", token=token)
    assert not token.strip() or token not in str(raised.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://user@x", "http://x/?q", "file:///etc/passwd"])
def test_no_peer_that_is_no_node(url: str) -> None:
    with pytest.raises(UsageError, match="--peer to be a URL"):
        command("micro", peer=[url])


def test_no_token_without_its_peer() -> None:
    with pytest.raises(UsageError, match="a --peer-token for each --peer but got 1 for 2"):
        paired(["http://a", "http://b"], ["x"])
    assert paired(["http://a/", "http://b"], ["x", "y"]) == {"http://a": "x", "http://b": "y"}


@pytest.mark.parametrize("missing", ["uvicorn", "starlette.applications", "httpx2"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in [name for name in sys.modules if name.startswith("gnomon.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(NotRunError, match=r"the extra serve but .* pip install '.\[serve\]'") as raised:
        command("micro", engine="numpy")
    assert raised.value.exit_code == 3


def test_no_port_is_taken_from_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"to listen at '127.0.0.1', port {port}, but got"):
            command("micro", port=port, engine="numpy")


def test_no_ledger_is_taken_from_another(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger"), pytest.raises(UsageError, match="no other process writes"):
        command("micro", port=0, ledger=tmp_path / "ledger", engine="numpy")
