"""Two exported states of one kind, section by section: token ids, convolutions, delta states, keys, values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gnomon.compare.verdict import judge, worst

Arrays = Mapping[str, NDArray[Any]]
SECTIONS = {"conv": ".rec.conv", "delta": ".rec.delta", "K": ".kv.k", "V": ".kv.v"}  # scales belong to their values


@dataclass(frozen=True)
class Section:
    """name: "ids", or one of SECTIONS; parts: ids or tensors; unequal: how many of them
    verdict: the worst of them; first: the first that is not identical, and where, "" where all are
    """

    name: str
    parts: int
    unequal: int
    verdict: str
    first: str


def diff_states(
    expected_ids: Sequence[int], expected: Arrays, observed_ids: Sequence[int], observed: Arrays
) -> list[Section]:
    """The sections that either state has, ids first. Whether they are of one model is the caller's to know."""
    sections = [diff_ids(expected_ids, observed_ids)]
    every = {section: [n for n in {**expected, **observed} if mark in n] for section, mark in SECTIONS.items()}
    for section, names in {**every, "other": others(expected, observed)}.items():
        found = [judge(observed.get(name), expected.get(name), name, uint16="bf16") for name in names]
        wrong = [one for one in found if one.verdict != "identical"]
        if found:
            first = wrong[0].text().splitlines()[0] if wrong else ""
            if wrong and wrong[0].mismatch is not None and wrong[0].mismatch.first:
                first = wrong[0].mismatch.headline()
            sections.append(Section(section, len(found), len(wrong), worst(one.verdict for one in found), first))
    return sections


def others(expected: Arrays, observed: Arrays) -> list[str]:
    """Tensors that belong to no section: no engine writes them, so a file that holds one is not what it says."""
    return [name for name in {**expected, **observed} if not any(mark in name for mark in SECTIONS.values())]


def diff_ids(expected: Sequence[int], observed: Sequence[int]) -> Section:
    """Token ids by position; the longer side has more of them."""
    places = range(max(len(expected), len(observed)))
    wrong = [p for p in places if expected[p : p + 1] != observed[p : p + 1]]
    verdict = "identical" if places and not wrong else "differs" if wrong else "not-run"
    first = ""
    if wrong:
        sides = (str(ids[wrong[0]]) if wrong[0] < len(ids) else "none" for ids in (observed, expected))
        first = f"ids [{wrong[0]}]: {' => expected '.join(sides)}"
    return Section("ids", len(places), len(wrong), verdict, first)
