"""What a row of the kill matrix says, fixed before it is run."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gnomon.gates.gate import Fault

# The gates by what they hold an engine against. Every row names its expectations in these words.
ONCE = frozenset(
    {"comparator", "repository", "loader", "tokenizer", "sampler", "kernels", "node"}
)  # they run no engine's step
SANE = frozenset({"finite", "liveness", "settled"})  # one run against properties that wrong numbers may well have
SELF = frozenset({"incremental", "chunk", "isolation", "batch", "speculative", "repeat", "observer"})  # itself
ORACLE = frozenset({"golden"})  # stored bytes: one step from nothing
REFERENCE = frozenset({"shadow", "transcript", "state-bytes", "restore"})  # the engine that defines the bytes
ALL = ONCE | SANE | SELF | ORACLE | REFERENCE
NONE = "none"  # as `first`: no tensor of the walk differs


@dataclass(frozen=True)
class Mutation:
    """One fault and what the gates make of it.

    name:  unique; begins with the number of the catalogue where the fault stands there
    what:  the fault in one sentence
    where: the part that is changed
    apply: gives a copy of the subject with the fault
    must:  gates that fire; blind: gates that do not; those in neither may do either
    why:   how both follow from the fault and from what the gates do
    first: the first tensor of the walk that differs, with its position; "none": none does; "" where no walk is taken
    walk:  by name, see matrix_walk.py
    says:  a part of what a gate in `must` says, where no tensor tells that it fired for this fault
    corrected: what the first run of the row contradicted, and why it was right
    engine: the one that is broken; on: the model of the gates, where it is not micro
    """

    name: str
    what: str
    where: str
    apply: Fault
    must: frozenset[str]
    blind: frozenset[str]
    why: str
    first: str = ""
    walk: str = "prefill"
    says: str = ""
    engine: str = "numpy"
    on: str = "micro"
    corrected: str = ""

    def __post_init__(self) -> None:
        unknown = (self.must | self.blind) - ALL
        if unknown or self.must & self.blind or not self.must:
            raise ValueError(
                f"Expected gates that must fire and others that must be blind but got must={sorted(self.must)}, "
                f"blind={sorted(self.blind)} for {self.name}"
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that is expected, as canonical JSON."""
        said = {
            "name": self.name, "what": self.what, "must": sorted(self.must), "blind": sorted(self.blind),
            "first": self.first, "walk": self.walk, "says": self.says, "engine": self.engine, "on": self.on,
        }  # fmt: skip
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def only(*gates: str) -> tuple[frozenset[str], frozenset[str]]:
    """must, blind: these gates and no other"""
    return frozenset(gates), ALL - frozenset(gates)


def these(must: Iterable[str], may: Iterable[str] = ()) -> tuple[frozenset[str], frozenset[str]]:
    """must, blind: these fire, those of `may` are left open, the rest is blind"""
    return frozenset(must), ALL - frozenset(must) - frozenset(may)


# Wrong in the same way each time: seen against the reference and the oracle, and by no gate that asks an engine itself.
WRONG_MATHEMATICS = these(ORACLE | REFERENCE)
