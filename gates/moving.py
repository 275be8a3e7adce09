"""States on their way, shared by the gates that move them: what an engine cannot give or take is a failure of it."""

from gnomon.decode.state_file import StateFile, pack, receive
from gnomon.gates.gate import AnyEngine, FailedError
from gnomon.gates.tally import Tally
from gnomon.reference.errors import GnomonError
from gnomon.reference.state import State


def whole(file: StateFile) -> bytes:
    """The bytes of a file, of a state that is small."""
    return b"".join(file.pieces())


def out_of(engine: AnyEngine, state: State) -> StateFile:
    """The state as a file. Raises FailedError where the engine exports another thing than a state."""
    try:
        return pack(engine, state)
    except GnomonError as error:
        raise FailedError(f"{engine.name} exports what is no state: {error}") from error


def taken(engine: AnyEngine, sent: StateFile, where: str) -> State:
    """The state on the engine. Raises FailedError where it is refused."""
    try:
        return receive(engine, sent.pieces(), sent.size)
    except GnomonError as error:
        raise FailedError(f"{where}: {engine.name} refuses an honest state: {error}") from error


def compare_files(tally: Tally, where: str, got: StateFile, expected: StateFile) -> None:
    """Tensor by tensor, to say where; then all bytes, which hold the header too."""
    before = tally.unequal
    tally.compare_all(where, got.arrays, expected.arrays)
    if tally.unequal == before and whole(got) != whole(expected):
        raise FailedError(f"{where}: the headers of the files differ")
