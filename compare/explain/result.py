"""What an explanation says. A cause is named only where it gives every byte of the observed tensor."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from gnomon.compare.words import counted
from gnomon.reference import shown

SHOWN = 5  # candidates that come nearest, in the text

Verdict = Literal["identical", "explained", "undecided", "not explained"]


@dataclass(frozen=True)
class Candidate:
    """names: one departure from the contract, or two together
    reproduced, of: values of the observed tensor that it gives, among those looked at
    differing, of_differing: the same, of the values that differ from the contract
    """

    names: tuple[str, ...]
    reproduced: int
    of: int
    differing: int
    of_differing: int

    @property
    def name(self) -> str:
        return " + ".join(self.names)


@dataclass(frozen=True)
class Explanation:
    """explained: `causes` give every byte; more than one: this data cannot tell them apart
    undecided: `causes` give every byte, but so few values differ that one of so many could do so by chance
    not explained: nothing on the menu gives every byte

    values, differing: of the observed tensor, against the contract
    candidates: the menu one at a time, best first, with what each reproduces; pairs only where they were tried
    tried: how many departures were computed; evidence, needed: in bits, see `evidence` in search.py
    """

    op: str
    verdict: Verdict
    shape: tuple[int, ...]
    values: int
    differing: int
    causes: tuple[tuple[str, ...], ...]
    candidates: tuple[Candidate, ...]
    tried: int
    evidence: float
    needed: float
    name: str = ""
    type: str = field(default="explanation", init=False)

    @property
    def exit_code(self) -> int:
        """0 where nothing differs, else 1: a difference with a name is still one"""
        return 0 if self.verdict == "identical" else 1

    def to_dict(self) -> dict[str, Any]:
        """`type` first, then the fields in their order."""
        return {"type": self.type} | asdict(self)

    def text(self) -> str:
        """The verdict in a line, then the causes, or what came nearest."""
        head = f"{self.name or self.op}: {self.verdict}"
        if self.verdict == "identical":
            return f"{head} ({counted(self.values, 'value')}, as the contract gives them)"
        differ = "differs" if self.differing == 1 else "differ"
        of = f"{self.differing:,} of {counted(self.values, 'value')} {differ}"
        lines = [f"{head} ({self.op}, {of}, {counted(self.tried, 'variant')} tried)"]
        causes = [" + ".join(names) for names in self.causes]
        if self.verdict == "explained" and len(causes) == 1:
            lines.append(f"{causes[0]}: reproduces every byte")
        elif causes:
            lines.append("each reproduces every byte, and this data cannot tell them apart:" if len(causes) > 1 else "")
            lines[-1] = lines[-1] or "reproduces every byte:"
            lines += [f"  {cause}" for cause in causes]
        if self.verdict == "undecided":
            lines.append(
                f"too few values differ for a name: {self.evidence:.0f} bits of evidence, {self.needed:.0f} needed"
            )
        if self.verdict == "not explained":
            shown = min(SHOWN, len(self.candidates))
            near = (
                f"; the {counted(shown, 'variant')} that {'comes' if shown == 1 else 'come'} nearest" if shown else ""
            )
            lines.append(f"no variant reproduces every byte{near}" + ":" * bool(shown))
            lines += [
                f"  {c.differing:,} of {counted(c.of_differing, 'differing value')}, "
                f"{c.reproduced:,} of {c.of:,} in all: {c.name}"
                for c in self.candidates[:SHOWN]
            ]
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return shown.preformatted(self.text(), self.verdict == "identical")
