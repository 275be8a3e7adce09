"""The host kernels built with a sanitizer, run on shapes off every tile: `python tests/sanitized.py address`.

A process of its own, because the runtime of a sanitizer has to be there before the interpreter: tests/test_sanitized.py
starts it. Exit code 0 and the number of values compared, or what the sanitizer says.
"""

import sys
from typing import Any

import numpy as np

from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_build import Built, build, kernel_sources
from gnomon.gpu.host_engine import HostEngine
from gnomon.gpu.host_library import Team, included, main_source, typed
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.protocol import Rows

# -O1 keeps the build short; the checks are about memory and threads, not about vector code.
FLAGS = {
    "address": ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "thread": ("-O1", "-fsanitize=thread"),
}
FORMS: list[tuple[Any, Any]] = [("f32", "f32"), ("bf16", "bf16"), ("int8", "int8")]


# Faults by name: what the sources hold, and what stands there instead.
PLANTS = {
    "outside": ("store(tot + r * 64, l, row + r, block)", "store(tot + r * 64, l, row + r + 4096, block)"),
    "race": ("arrived.fetch_add(1, std::memory_order_acq_rel)", "arrived.fetch_add(1, std::memory_order_relaxed)"),
}


def built(sanitizer: str, plant: str | None) -> Built:
    sources = kernel_sources()
    if plant is not None:
        old, new = PLANTS[plant]
        assert sum(text.count(old) for text in sources.values()) == 1
        sources = {name: text.replace(old, new) for name, text in sources.items()}
    unit = main_source(sources)
    return typed(build(unit, included(unit, sources), FLAGS[sanitizer]))


def main(sanitizer: str, plant: str | None = None) -> int:
    library, model, values = built(sanitizer, plant), micro(), 0
    for arm, kv in FORMS:
        reference = Engine("numpy", model, NumpyOps(arm, kv))
        shadow = HostEngine("host", model, HostArrayOps(Team(library, 3), arm, kv, np.nan))
        ours, theirs = [reference.new() for _ in range(3)], [shadow.new() for _ in range(3)]
        for lengths in ([9, 1, 131], [1, 1, 1], [3, 17, 2]):
            ids = [[(5 * i + n) % 97 for i in range(n)] for n in lengths]
            expected = reference.step(Rows.of(list(zip(ours, ids, strict=True))), "all")
            observed = shadow.step(Rows.of(list(zip(theirs, ids, strict=True))), "all")
            if expected.tobytes() != observed.tobytes():
                print(f"{arm} {kv} {lengths}: other bytes")
                return 1
            values += expected.size
    print(values)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
