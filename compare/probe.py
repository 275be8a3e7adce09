"""The arithmetic of an engine on known answers: what its devices do, and whether the contract can stand on it."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain.orders import CONTRACT
from gnomon.compare.probe_batteries import BATTERIES
from gnomon.compare.probe_cases import Finding, examine, words
from gnomon.compare.probe_sums import NoTreeError, Sums, Tree, names, recover, summarised
from gnomon.compare.probe_told import SPECIAL, leaked_mode
from gnomon.reference.device import Device, Operation
from gnomon.reference.errors import NotRunError
from gnomon.reference.protocol import Ops
from gnomon.reference.weights import Weight

F32 = NDArray[np.float32]
CASES = 4096  # of an operation
LENGTHS = (8, 16, 32, 64, 300)  # of the sums whose order is recovered
TWO_CHUNKS = 300  # terms of the engine's own linear: two chunks and a part of one


@dataclass(frozen=True)
class Probe:
    """findings: by way; "process" and "linear" stand for the process and for the engine's own matrix product"""

    engine: str
    findings: Mapping[str, Sequence[Finding]]

    def fingerprint(self) -> dict[str, dict[str, str]]:
        """What each battery found, in a few words: equal for engines that compute alike"""
        return {way: {f.battery: words(f) for f in found} for way, found in self.findings.items()}

    @property
    def sha256(self) -> str:
        """Of the fingerprint"""
        return hashlib.sha256(json.dumps(self.fingerprint()).encode()).hexdigest()

    @property
    def exit_code(self) -> int:
        """0: the contract can stand on it; 1: it cannot; 3: something that it needs was not offered"""
        verdicts = [f.verdict for found in self.findings.values() for f in found]
        return 1 if "FAIL" in verdicts else 3 if "NOT RUN" in verdicts else 0

    def for_receipt(self) -> dict[str, Any]:
        """What a receipt carries: the fingerprint and its digest"""
        return {"sha256": self.sha256, **self.fingerprint()}

    def to_json(self) -> dict[str, Any]:
        verdict = {0: "PASS", 1: "FAIL", 3: "NOT RUN"}[self.exit_code]
        found = {way: [asdict(f) for f in some] for way, some in self.findings.items()}
        return {"engine": self.engine, "verdict": verdict, "sha256": self.sha256, "findings": found}


def probe(engine: str, ops: Ops[Any], n: int = CASES) -> Probe:
    """Every battery on every way in which the engine computes, and on its own linear.

    Raises NotRunError for an engine that offers no device.
    """
    devices = ops.devices()
    if not devices:
        raise NotRunError(f"Expected engine {engine} to offer its operations but its table has no devices()")
    findings = {"process": [leaked_mode()], "linear": [linear_order(ops, rows) for rows in (1, 2)]}
    for device in devices:
        findings[device.way] = list(on_device(device, n))
    findings[devices[0].way] += not_offered(devices, n)
    return Probe(engine, findings)


def not_offered(devices: Sequence[Device], n: int) -> list[Finding]:
    """NOT RUN for each operation of a needed battery that no way offers"""
    return [
        Finding(f"{battery.name}: {cases.operation}", "NOT RUN", "not offered")
        for battery in BATTERIES
        if battery.needed
        for cases in battery.make(n)
        if all(device.find(cases.operation) is None for device in devices)
    ]


def on_device(device: Device, n: int) -> Iterator[Finding]:
    """All that one way can be asked"""
    for battery in BATTERIES:
        if (found := examine(battery, device, n)) is not None:
            yield found
    for special in SPECIAL:
        if (found := special(device)) is not None:
            yield found
    yield from (order_of(name, sums) for name, sums in library_sums(device))


def linear_order(ops: Ops[Any], rows: int) -> Finding:
    """The order in which the engine's own linear adds: of one row by many outputs, or of many rows by one output"""

    def weight(w: F32) -> Weight:
        return Weight("probe.weight", "F32", w.shape, np.ascontiguousarray(w, "<f4").view(np.uint8))

    def sums(patterns: F32) -> F32:
        ones = np.ones((1, patterns.shape[1]), np.float32)
        x, w = (ones, patterns) if rows == 1 else (patterns, ones)
        return ops.numpy(ops.linear("", ops.array(x), ops.pack(weight(w)))).reshape(-1)

    name = "sum order, one row" if rows == 1 else "sum order, many rows"
    try:
        tree = recover(sums, TWO_CHUNKS)
    except NoTreeError as error:
        return Finding(name, "FAIL", "no order of additions", 1, 1, str(error))
    if CONTRACT in names(tree):
        return Finding(name, "PASS", CONTRACT)
    return Finding(name, "FAIL", summarised({TWO_CHUNKS: tree}), 1, 1, f"expected: {CONTRACT}")


def order_of(name: str, sums: Sums) -> Finding:
    """The order in which a sum of the library adds"""
    trees: dict[int, Tree] = {}
    try:
        for K in LENGTHS:
            trees[K] = recover(sums, K)
    except NoTreeError as error:
        return Finding(f"sum order of {name}", "told", "no order of additions", detail=str(error))
    return Finding(f"sum order of {name}", "told", summarised(trees))


def library_sums(device: Device) -> Iterator[tuple[str, Sums]]:
    """Sums of the library by name. A matrix product may add otherwise for one row than for several."""
    if (total := device.find("sum")) is not None:
        yield "sum", lambda patterns: np.array([total(row) for row in patterns])
    if (dot := device.find("dot")) is not None:
        yield "dot", lambda patterns: np.array([dot(row, np.ones_like(row)) for row in patterns])
    if (matmul := device.find("matmul")) is not None:
        for rows in (1, 8):
            yield f"matmul, {rows} row{'s' * (rows > 1)}", of_matmul(matmul, rows)


def of_matmul(matmul: Operation, rows: int) -> Sums:
    """The same pattern in every row, 16 outputs; NaN, which is no sum, where results of one call differ"""

    def sums(patterns: F32) -> F32:
        w = np.ones((16, patterns.shape[1]), np.float32)
        results = [matmul(np.repeat(pattern[None], rows, axis=0), w) for pattern in patterns]
        return np.array([y[0, 0] if (y == y[0, 0]).all() else np.nan for y in results], np.float32)

    return sums
