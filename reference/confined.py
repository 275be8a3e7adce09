"""Work on what strangers wrote, in a process of its own that may die: it has bounds of memory and of time.

A library in native code cannot be told to stop, and one that is out of memory ends its process. So it is another
process than the one that holds the model. It starts at the first request, stays for the next ones, and starts again
where it died.
"""

import json
import os
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

CHILD = Path(__file__).with_name("confined_child.py")
REPLY = 256 << 20  # bytes of a reply, at most


class RefusedError(Exception):
    """What the work itself says, in one line."""


class DiedError(Exception):
    """The work took more memory or time than it may; the sentence names both bounds."""


class Confined:
    """script: a file with a function `answer(request)`, which imports nothing of this package
    mebibytes: of address space; first: a request that is made whenever the process starts, its reply is `opened`

    For any thread; requests wait for one another.
    """

    def __init__(self, script: Path, mebibytes: int, seconds: float, first: Any = None) -> None:
        self._command = [sys.executable, "-P", str(CHILD), str(script), str(mebibytes)]
        self._mebibytes, self._seconds, self._first = mebibytes, seconds, first
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Any = None
        self.opened: Any = None

    def ask(self, request: Any, seconds: float | None = None) -> Any:
        """The value that the script answers, as JSON. seconds: if others than were said at first

        Raises RefusedError or DiedError.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return self._asked(request, seconds or self._seconds)

    def start(self) -> Any:
        """What `first` gave, in a process that runs from now on. Raises as `ask` does."""
        with self._lock:
            self._start()
            return self.opened

    def stop(self) -> None:
        """End the process; the next request starts another."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _start(self) -> None:
        self.stop()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("GNOMON_")},  # no token
            start_new_session=True,  # an interrupt at the terminal is for the caller
        )
        self._end = weakref.finalize(self, ended, self._process)
        if self._first is not None:
            self.opened = self._asked(self._first, self._seconds)

    def _asked(self, request: Any, seconds: float) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = json.dumps({"seconds": seconds, "request": request}).encode()
        try:
            self._process.stdin.write(len(data).to_bytes(8, "little") + data)
            self._process.stdin.flush()
            size = int.from_bytes(self._process.stdout.read(8), "little")
            reply = self._process.stdout.read(size) if 0 < size <= REPLY else b""
            if not 0 < size == len(reply):
                raise EOFError
        except (OSError, EOFError):
            self.stop()
            raise DiedError(f"it took more than {seconds:g} seconds or {self._mebibytes} MiB") from None
        except BaseException:  # such as an interrupt: what comes next would be the answer to this
            self.stop()
            raise
        told = json.loads(reply)
        if "error" in told:
            raise RefusedError(told["error"])
        return told["value"]


def ended(process: subprocess.Popen[bytes]) -> None:
    """Whatever it does."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was to be flushed has no reader
                pipe.close()
    process.wait()
