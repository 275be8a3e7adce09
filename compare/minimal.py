"""Delta debugging (Zeller and Hildebrandt 2002): the smallest set that still answers yes."""

from collections.abc import Callable

Trial = Callable[[frozenset[str]], bool]


def smallest(items: list[str], passes: Trial) -> frozenset[str]:
    """A 1-minimal subset that passes: without any one of its items it does not. `items` as a whole must pass."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        subsets = [items[i : i + size] for i in range(0, len(items), size)]
        rests = [[item for item in items if item not in subset] for subset in subsets]
        for smaller, next_parts in [(s, 2) for s in subsets] + [(r, max(parts - 1, 2)) for r in rests]:
            if len(smaller) < len(items) and passes(frozenset(smaller)):
                items, parts = smaller, next_parts
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return frozenset(items)
