"""A node uses no state whose bytes it has not checked: no wrong one, and no right one before its last byte."""

import asyncio
from collections.abc import Callable, Iterator

from gnomon.decode.state_file import StateFile
from gnomon.gates.faults import nodes as broken
from gnomon.gates.faults import states
from gnomon.gates.gate import FailedError, Gate, Header, Outcome, Subject
from gnomon.gates.moving import out_of, whole
from gnomon.gates.node_client import Application, held, imported
from gnomon.gates.tally import prompts
from gnomon.reference.errors import NotRunError

HEADER = Header(
    name="node",
    question="Does a node hold a state only after the last byte of it has come and been checked?",
    instrument="a node in this process and state files of the reference, in pieces: a sound one, and copies that are "
    "cut short, too long, with one bit flipped in the middle or in the last byte, with another position, or whose "
    "client leaves; what the node lists while the last piece is on its way, and after its reply",
    threshold="while a file is on its way nothing new is listed; a wrong one is refused and leaves nothing; the sound "
    "one is listed with its position, and only that",
    disproof="a state that is used without being listed; a wrong file of another kind that is taken",
    void="no prompt, a model that does not load",
    numbers={"rows": 9, "last": 1},  # last: bytes of the last piece
)
Wrong = Callable[[StateFile], bytes]


def run(subject: Subject) -> Outcome:
    try:
        model, ids = next(prompts(subject))
        ids = ids[: HEADER.numbers["rows"]]
        reference = subject.reference(model)
        file = out_of(reference, reference.forward(ids, want="none")[1])
        application = subject.node(subject.engine(model))
    except NotRunError as error:
        return Outcome("NOT RUN", str(error), required=False)
    return asyncio.run(asked(application, file, len(ids)))


async def asked(application: Application, file: StateFile, position: int) -> Outcome:
    async with application.router.lifespan_context(application):
        (outcome,) = await asyncio.gather(put(application, file, position), return_exceptions=True)
    if isinstance(outcome, BaseException):  # raised once the node has ended in order
        raise outcome
    return outcome


async def put(application: Application, file: StateFile, position: int) -> Outcome:
    await send(application, "a client that leaves", whole(file), gone=True)
    refused = 0
    for what, data in wrong(file):
        await send(application, what, data)
        refused += 1
    status = await send(application, "a sound state", whole(file), sound=True)
    listed = [one["position"] for one in await held(application)]
    if status != 200 or listed != [position]:
        raise FailedError(f"a sound state: status {status}, held at positions {listed}, expected [{position}]")
    return Outcome("PASS", "", {"refused": refused, "taken": len(listed)})


async def send(application: Application, what: str, data: bytes, gone: bool = False, sound: bool = False) -> int:
    """The status of the reply to a state in two pieces. Raises FailedError where one is held too early, or wrongly."""

    async def nothing_held(when: str) -> None:
        if listed := await held(application):
            raise FailedError(f"{what}: {len(listed)} held {when}")

    last = len(data) - HEADER.numbers["last"]
    pieces = [data[: last // 2], data[last // 2 : last], data[last:]]
    reply = await imported(application, pieces, lambda: nothing_held("before its last byte has come"), gone)
    if sound:
        return reply.status
    if not gone and not 400 <= reply.status < 500:
        raise FailedError(f"{what}: taken, status {reply.status}")
    await nothing_held("after it was refused")
    return reply.status


def wrong(file: StateFile) -> Iterator[tuple[str, bytes]]:
    """What is wrong, and the file."""
    data = whole(file)
    yield "one bit flipped in the middle", states.flipped(file)
    yield "one bit flipped in the last byte", data[:-1] + bytes([data[-1] ^ 1])
    yield "cut short", states.truncated(file)
    yield "a byte after the end", data + b"\0"
    yield "another position", states.other_position(file)


GATE = Gate(
    HEADER,
    run,
    {
        "a state is held before its last byte has come": (
            broken.held_early,
            "a client that leaves: 1 held before its last byte has come",
        ),
        "digests are not checked": (broken.unchecked, "one bit flipped in the middle: taken, status 200"),
        "what is refused stays": (broken.refused_stays, "one bit flipped in the middle: 1 held after it was refused"),
        "every state is refused": (broken.refuses_all, "a sound state: status 409, held at positions []"),
    },
    per_engine=False,
)
