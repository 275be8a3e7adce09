"""Counts and lists in plain English, for every sentence that a report prints."""

from collections.abc import Sequence


def counted(count: int, noun: str, many: str = "") -> str:
    """1 case, 2 cases, 1,234 cases; many: the plural where it is not noun + s"""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def is_are(count: int) -> str:
    """The verb that goes with a count."""
    return "is" if count == 1 else "are"


def joined(words: Sequence[str], last: str = "and") -> str:
    """a, b and c"""
    return f" {last} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 22nd"""
    return f"{number}{'th' if number % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
