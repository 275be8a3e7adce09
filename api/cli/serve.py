"""`gnomon serve`: a node that answers over HTTP and moves states; `gnomon ledger verify`: what it wrote down."""

import ipaddress
import json
import signal
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import ArmOption, EngineOption, JsonOption, KvOption, ModelArgument, present
from gnomon.decode.chat import GIVEN
from gnomon.reference.chain import ChainError
from gnomon.reference.engine import Engine
from gnomon.reference.errors import NotRunError, UsageError
from gnomon.reference.extras import install
from gnomon.reference.ledger import Ledger, verify_file

GRACE = 30  # seconds for answers in the making, once the node was told to stop


def command(
    model: ModelArgument,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free")] = 8000,
    host: Annotated[str, typer.Option("--host", help="address to listen at; other than loopback needs --token")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None, typer.Option("--token", envvar="GNOMON_TOKEN", help="what every request must bear")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option("--peer", help="URL of a node that states may be sent to; may be given again")
    ] = None,
    peer_token: Annotated[
        list[str] | None, typer.Option("--peer-token", help="the token of each --peer, in the same order")
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=1, help="answers at one time, those that wait included")] = 256,
    held: Annotated[int, typer.Option("--held", min=1, help="MiB that conversations may take")] = 1024,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="file to write each answer down in")] = None,
    template_arg: Annotated[
        list[str] | None,
        typer.Option("--template-arg", help="NAME=VALUE for the chat template, such as enable_thinking=false"),
    ] = None,
    engine: EngineOption = "fast",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Answer in the OpenAI shape and move states, until SIGTERM or SIGINT. Exit 0: stopped; 2, 3: it did not start."""
    bearer = None if token is None else printable("--token", token)
    peers, arguments = paired(peer or [], peer_token or []), dict(map(argument, template_arg or []))
    if bearer is None and not loopback(host):
        raise UsageError(f"Expected --token beside --host {host}, which others can reach")
    try:
        import uvicorn

        from gnomon.serve.app import app
        from gnomon.serve.connections import Server, settings
    except ImportError as error:
        raise NotRunError(f"Expected the extra serve but {error.name} is missing: {install('serve')}") from error
    made = make_engine(engine, load(model), arm, kv)
    with listening(host, port) as bound, Ledger(ledger) as book:
        node = app(made, token=bearer, peers=peers, queue=queue, held=held << 20, ledger=book, arguments=arguments)
        config = uvicorn.Config(node, timeout_graceful_shutdown=GRACE, log_level="error", **settings())
        server = Server(config)
        for number in (signal.SIGTERM, signal.SIGINT):  # the server raises them again when it has stopped
            signal.signal(number, lambda *_: None)
        say(made, bound, as_json)
        server.run(sockets=[bound])
    return 0 if server.started else 3


def say(engine: Engine[Any], bound: socket.socket, as_json: bool) -> None:
    """Where it listens, in one line, before it does."""
    name, port = bound.getsockname()[:2]
    url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
    about = engine.describe()
    found = {"url": url, "model": engine.model.name, "engine": engine.name, "arm": about["arm"], "kv": about["kv"]}
    line = f"{found['model']} on {found['engine']} (arm {found['arm']}, kv {found['kv']}) at {url}"
    print(json.dumps(found) if as_json else line, flush=True)


def listening(host: str, port: int) -> socket.socket:
    """Raises UsageError where the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UsageError(f"Expected to listen at {host!r}, port {port}, but got: {error.strerror or error}") from error


def loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def paired(peers: list[str], tokens: list[str]) -> dict[str, str | None]:
    """URL -> token. Raises UsageError for what is no URL of a node, and where it is unclear whose a token is."""
    if tokens and len(tokens) != len(peers):
        raise UsageError(f"Expected a --peer-token for each --peer but got {len(tokens)} for {len(peers)}")
    urls = [url.rstrip("/") for url in peers]
    for url in urls:
        if not url.startswith(("http://", "https://")) or "@" in url or "?" in url:
            raise UsageError(f"Expected --peer to be a URL such as http://127.0.0.1:8001 but got {url!r}")
    given: list[str | None] = [printable("--peer-token", one) for one in tokens]
    return dict(zip(urls, given or [None] * len(urls), strict=True))


def argument(text: str) -> tuple[str, Any]:
    """NAME=VALUE; a value that is JSON is what it says, any other is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or name in GIVEN:
        raise UsageError(
            f"Expected --template-arg NAME=VALUE with a name other than {', '.join(GIVEN)} but got {text!r:.80}"
        )
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def printable(option: str, value: str) -> str:
    """A token that a header can hold. Raises UsageError, and does not say the token."""
    if not value.isascii() or not value.isprintable() or not value.strip() or " " in value:
        raise UsageError(f"Expected {option} to be printable ASCII without spaces but it is not")
    return value


def ledger_group() -> None:
    """Verify the ledger of a node."""


def verify_ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", callback=present("a ledger"), help="what --ledger wrote")],
    record: Annotated[str | None, typer.Option("--record", help="hash of a record that must be in it")] = None,
    as_json: JsonOption = False,
) -> int:
    """Read a ledger from its start. Exit 0: every line follows; 1: one does not; 2: it cannot be read, or is cut."""
    try:
        records, head = verify_file(file, record)
    except ChainError as error:
        if not as_json:
            raise
        verdict = "failed" if error.exit_code == 1 else "unreadable"
        print(json.dumps({"verdict": verdict, "record": error.index, "message": str(error)}))
        return error.exit_code
    found = {"verdict": "passed", "records": records, "head": head}
    print(json.dumps(found) if as_json else f"passed: {records} records, head {head}")
    return 0
