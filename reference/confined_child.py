"""The other side of confined.py: a loop that answers requests within limits. It imports nothing of this package, so
that it is there at once.

    python -P confined_child.py SCRIPT MEBIBYTES

SCRIPT has a function `answer(request)`. A message is its length as 8 bytes, little-endian, and so many bytes of JSON:
the request with the seconds that it may take, the reply with a value or the sentence of an error.
"""

import json
import resource
import runpy
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE = 10  # how many times the seconds of computing may pass on a clock, where others compute as well


def main() -> None:
    script, mebibytes = sys.argv[1], int(sys.argv[2])
    with suppress(OSError, ValueError):  # macOS knows no such limit; time bounds it there
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
    answer = runpy.run_path(script)["answer"]
    while head := sys.stdin.buffer.read(8):
        given = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "little")))
        limit(given["seconds"])
        reply = json.dumps(answered(answer, given["request"])).encode()
        limit(0)
        sys.stdout.buffer.write(len(reply).to_bytes(8, "little") + reply)
        sys.stdout.buffer.flush()


def limit(seconds: float) -> None:
    """End this process when it has computed so long, or waited much longer. Code in C is not asked."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * PATIENCE)


def answered(answer: Callable[[Any], Any], request: Any) -> dict[str, Any]:
    """Whatever is raised is told in one line: panics of Rust are no Exception."""
    try:
        return {"value": answer(request)}
    except BaseException as error:
        return {"error": " ".join(str(error).split())[:400] or type(error).__name__}


if __name__ == "__main__":
    main()
