"""The compiled kernels round every operation by itself: known answers, and the machine code."""

import re
import shutil
import subprocess

from gnomon.compare.probe_short import short_probe
from gnomon.gates.faults import builds as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject, VoidError
from gnomon.gpu.host_device import host_devices
from gnomon.reference.errors import NotRunError

HEADER = Header(
    name="kernels",
    question="Does the library that the compiler made of the kernels keep a product and the sum it feeds apart?",
    instrument="the short probe on the operations of the library; objdump -d over all of it, where there is objdump",
    threshold="no finding that matters; no fused multiply-add among the instructions",
    disproof="a fused operation that has none of the names below; a kernel that is not in the library",
    void="a library without operations, a disassembly without instructions",
    numbers={"fused": r"\b(vfn?m(add|sub)\w*|fn?m(add|sub)|fml[as]l?)\b"},
)


def run(subject: Subject) -> Outcome:
    try:
        built = subject.kernels()
    except NotRunError as error:
        return Outcome("NOT RUN", str(error), required=False)
    devices = host_devices(built.library)
    operations = sum(len(device.operations) for device in devices)
    if not operations:
        raise VoidError("the library offers no operation")
    figures = {"operations": operations}
    for finding in short_probe(devices):
        return Outcome("FAIL", f"{finding.battery}: {finding.detail}", figures)
    if shutil.which("objdump"):
        lines = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", str(built.path)], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        code = [line.split("\t", 1)[1] for line in lines if "\t" in line]
        figures["instructions"] = len(code)
        if not code:
            raise VoidError("the disassembly holds no instruction")
        for line in code:
            if re.search(HEADER.numbers["fused"], line):
                return Outcome("FAIL", f"fused: {line.strip()}", figures)
    return Outcome("PASS", "" if "instructions" in figures else "no objdump: known answers only", figures)


GATE = Gate(
    HEADER,
    run,
    {
        "a compiler that may contract": (broken.contracted, "contraction"),
        "one kernel that fuses": (broken.one_fused, "fused: "),
        "a reciprocal one place low": (broken.divided_by_reciprocal, "division: div at "),
    },
    per_engine=False,
)
