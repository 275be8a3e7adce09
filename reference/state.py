"""What a sequence leaves behind for its next token: one cache per layer, changed only when a step has succeeded."""

from typing import Any

Cache = Any  # of one layer, in the engine's own form


class State:
    """One sequence on one engine.

    length:  number of positions it holds
    ids:     the token ids at those positions
    caches:  what the layers hold; a cache may keep rows at positions >= length, and nothing ever reads them
    pending: what the step in flight appended, by layer; `commit` makes it part of the state, `discard` forgets it
    """

    def __init__(self, owner: object, caches: list[Cache]) -> None:
        self.owner = owner
        self.length = 0
        self.ids: list[int] = []
        self.caches = caches
        self.pending: dict[int, Cache] = {}

    def cache(self, layer: int) -> Cache:
        """The cache as the step in flight sees it."""
        return self.pending.get(layer, self.caches[layer])

    def commit(self, ids: list[int]) -> None:
        for layer, cache in self.pending.items():
            self.caches[layer] = cache
        self.pending = {}
        self.ids.extend(ids)
        self.length += len(ids)

    def discard(self) -> None:
        self.pending = {}
