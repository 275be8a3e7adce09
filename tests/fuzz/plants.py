"""Faults to put into the program, to see that the fuzzer sees them.

python -m fuzz.plants       one JSON object: fault -> what was found with it; nothing: without one; refused: sound
                            tokenizers that were not read
"""

import ctypes
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.__main__ import built
from fuzz.runner import HANG, Fuzzer
from gnomon.cli import serve
from gnomon.loading import load
from gnomon.reference.errors import UsageError
from gnomon.serve import app


def misses_a_field(*_: Any, **__: Any) -> Any:
    return {}["hash"]


def never_ends(*_: Any) -> Any:
    while True:
        time.sleep(0.1)


def never_ends_in_native_code(*_: Any) -> Any:
    ctypes.PyDLL(None).pause()  # with the lock of the interpreter


def takes_8_gib(*_: Any) -> Any:
    return bytearray(8 << 30)


def takes_more_than_it_may(*_: Any) -> Any:
    return len(b"x" * (800 << 20)), ""


def leaves_a_partial_file(*_: Any) -> Any:
    Path(".written.1.partial").write_text("half of")
    raise UsageError("Expected another ledger but got this one")


def leaves_half_a_file(*_: Any) -> Any:
    Path("written").write_text("half of")
    raise UsageError("Expected another ledger but got this one")


def crashes(*_: Any) -> Any:
    ctypes.string_at(0)


def leaves_the_process(*_: Any) -> Any:
    os._exit(0)


def gives_no_number(*_: Any) -> Any:
    return float("nan"), ""


def answers_at_length(*_: Any) -> Any:
    raise UsageError("Expected another ledger but got " + "x" * 100_000)


READERS = [
    misses_a_field, never_ends, never_ends_in_native_code, takes_8_gib, takes_more_than_it_may, leaves_a_partial_file,
    leaves_half_a_file, crashes, leaves_the_process, gives_no_number, answers_at_length,
]  # fmt: skip


def planted(module: Any, name: str, fault: Callable[..., Any]) -> Callable[[], None]:
    return lambda: setattr(module, name, fault)


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        seeds = built(folder / "seeds")

        def tried(kind: str, plant: Callable[[], None] | None, hang: float = HANG) -> list[str]:
            fuzzer = Fuzzer(0, seeds, folder / "work", hang=hang, plant=plant, only=kind)
            return [one.what for one in fuzzer.run([WITH_JSON] if kind == "ledger" else [0]).findings]

        for fault in READERS:
            hang = 3.0 if "never" in fault.__name__ else HANG
            found[fault.__name__] = tried("ledger", planted(serve, "verify_file", fault), hang)
        found["misses_a_field_of_a_request"] = tried("request", planted(app, "asked", misses_a_field))
        sound = sorted(
            [*(seeds / "models").iterdir(), *(seeds / "tokenizers").iterdir(), *(seeds / "gguf").glob("*.gguf")]
        )
        found["refused"] = [path.name for path in sound if load(path).no_tokenizer and path.parent.name == "tokenizers"]
        found["nothing"] = tried("ledger", None) + tried("request", None)
    json.dump(found, sys.stdout)


WITH_JSON = 3  # a case that is `ledger verify FILE --json`


if __name__ == "__main__":
    main()
