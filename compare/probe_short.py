"""The short form of the probe, for an engine that starts: a few milliseconds, and only what the contract needs."""

from collections.abc import Iterator, Sequence

import numpy as np

from gnomon.compare.probe_batteries import BATTERIES
from gnomon.compare.probe_cases import Battery, Finding, examine, same, words
from gnomon.reference.device import Device
from gnomon.reference.errors import NotRunError

FEW = 21  # cases of an operation, besides the hardest ones, which it always asks


def short_probe(devices: Sequence[Device]) -> list[Finding]:
    """The findings that matter: needed batteries, on a few cases, that fail on operations with which the engine
    computes. None on a device that computes as the contract needs."""
    wrong = []
    for device in devices:
        for battery in BATTERIES:
            if battery.needed and not all(right(device, battery)):
                found = examine(battery, device, FEW)
                if found is not None:
                    wrong.append(found)
    return wrong


def right(device: Device, battery: Battery) -> Iterator[bool]:
    """Whether each operation of the battery answers as expected"""
    for cases in battery.make(FEW):
        if (operation := device.operations.get(cases.operation)) is not None:
            odd = slice(int(len(cases.expected) % 8 == 0), None)  # so that a vector loop leaves a tail
            with np.errstate(all="ignore"):
                observed = np.asarray(operation(*(a[odd] for a in cases.inputs)))
            yield bool(same(observed, cases.expected[odd]).all())


def refuse_inexact(engine: str, devices: Sequence[Device]) -> None:
    """Raises NotRunError, naming the battery, where the engine cannot be exact on this machine."""
    for found in short_probe(devices):
        raise NotRunError(
            f"Expected engine {engine} to compute as the contract needs but {found.battery} is {words(found)}, first "
            f"{found.detail}; see `gnomon probe -e {engine}`"
        )
