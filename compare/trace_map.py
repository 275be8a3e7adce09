"""Mapping foreign names to ours: lines `foreign = ours`, or one JSON object, or one of the built-in tables.

{i} on both sides stands for a number. `foreign = -` leaves a tensor out, in so many words. Nothing is guessed: a line
that finds no tensor is an error, and so is one whose tap does not exist; a name that no line mentions stays as it is.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gnomon.compare.aliases import ALIASES
from gnomon.reference.errors import UsageError
from gnomon.reference.strict_json import parse_object, read_bytes, show

LEFT_OUT = "-"


@dataclass(frozen=True)
class NameMap:
    """lines: foreign pattern -> our pattern; strict: every line has to find a tensor (a built-in table lists more)"""

    lines: Mapping[str, str]
    strict: bool
    source: str

    def resolve(self, foreign: Iterable[str], ours: Iterable[str]) -> dict[str, str | None]:
        """Every foreign name -> the name it has here, None where it is left out.

        Raises UsageError for a line without a tensor, a tensor without a tap, and two tensors for one tap.
        """
        here = set(ours)
        out: dict[str, str | None] = {name: name for name in foreign}
        taken: dict[str, str] = {}
        for pattern, target in self.lines.items():
            matches = [(name, m) for name in out if (m := _regex(pattern).fullmatch(name))]
            if not matches and self.strict:
                raise UsageError(f"Expected a tensor named {show(pattern)}, as {self.source} says, but there is none")
            for name, match in matches:
                ours_name = None if target == LEFT_OUT else target.replace("{i}", match.groupdict().get("i") or "")
                if ours_name is not None and ours_name not in here:
                    raise UsageError(f"Expected a tap for {show(name)} but the trace has no {show(ours_name)}")
                out[name] = ours_name
        for name, ours_name in out.items():
            if ours_name is not None and taken.setdefault(ours_name, name) != name:
                two = f"{show(taken[ours_name])} and {show(name)}"
                raise UsageError(f"Expected one tensor for {show(ours_name)} but got {two}")
        if out and all(name == ours_name and name not in here for name, ours_name in out.items()):
            raise UsageError(f"Expected names that {self.source} knows but got {show(sorted(out)[:3])}")
        return out

    def targets(self, foreign: Iterable[str], ours: Iterable[str]) -> set[str]:
        """Every tap that the lines in use speak of: one of them without a tensor is missing."""
        names = list(foreign)
        used = [t for p, t in self.lines.items() if t != LEFT_OUT and any(_regex(p).fullmatch(n) for n in names)]
        kept = {n for n in names if not any(_regex(p).fullmatch(n) for p in self.lines)}
        return {name for name in ours if name in kept or any(_regex(t).fullmatch(name) for t in used)}


def read_map(source: str) -> NameMap:
    """A built-in table by name, or a file. Raises UsageError for lines that are none."""
    if source in ALIASES:
        return NameMap(ALIASES[source], strict=False, source=f"table {source}")
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"Expected a mapping file or a table among {', '.join(ALIASES)} but got {source!r}")
    data = read_bytes(path)
    lines = parse_object(data, path.name) if data.lstrip().startswith(b"{") else _read_lines(data, path.name)
    for foreign, ours in lines.items():
        if not foreign or not isinstance(ours, str) or not ours:
            raise UsageError(f"Expected foreign = ours in {path.name} but got {show(foreign)} = {show(ours)}")
        if foreign.count("{i}") > 1 or ours.count("{i}") > foreign.count("{i}") or (
            ours != LEFT_OUT and foreign.count("{i}") != ours.count("{i}")
        ):  # fmt: skip
            raise UsageError(
                f"Expected {{i}} once on both sides or on none in {path.name} but got {show(foreign)} = {show(ours)}"
            )
    if not lines:
        raise UsageError(f"Expected at least one line foreign = ours in {path.name} but there is none")
    return NameMap(lines, strict=True, source=path.name)


def _read_lines(data: bytes, name: str) -> dict[str, str]:
    lines: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        foreign, equals, ours = (part.strip() for part in text.partition("="))
        if not equals or foreign in lines:
            raise UsageError(f"Expected foreign = ours, each once, in line {number} of {name} but got {show(line)}")
        lines[foreign] = ours
    return lines


def _regex(pattern: str) -> re.Pattern[str]:
    """{i} is a number without leading zeros; all else stands for itself."""
    return re.compile(re.escape(pattern).replace(r"\{i\}", "(?P<i>0|[1-9][0-9]*)"))
