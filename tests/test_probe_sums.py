"""Orders of addition, recovered from results alone."""

from collections.abc import Callable

import numpy as np
import pytest

from gnomon.compare.explain import orders
from gnomon.compare.probe_sums import NoTreeError, Tree, leaves, names, recover, summarised
from probing import F32

NAMED = ["sequential", "chunk 128", "chunk 32", "reversed sequential", "pairwise neighbours", "pairwise halves"]
NAMED += ["pairwise folded", "lanes 4 folded", "lanes 8 neighbours", "lanes 8 neighbours tail after", "lanes 16 folded"]


def in_order(order: str) -> Callable[[F32], F32]:
    """Sums of rows in a named order, every addition rounded to f32"""

    def sums(patterns: F32) -> F32:
        made = orders.plan(order, patterns.shape[1])
        padded = np.concatenate([patterns.T, np.zeros((1, len(patterns)), np.float32)])  # [K + 1, P], the last for -1
        start = np.zeros((made.steps.shape[1], len(patterns)), np.float32)
        return np.asarray(made.run(start, lambda acc, terms: acc + padded[terms], np.add), np.float32)

    return sums


@pytest.mark.parametrize("K", [8, 33, 300])
@pytest.mark.parametrize("order", NAMED)
def test_no_order_is_taken_for_another(order: str, K: int) -> None:
    tree = recover(in_order(order), K)
    assert leaves(tree) == list(range(K))
    assert order in names(tree)


def by_tree(tree: Tree) -> Callable[[F32], F32]:
    def add(part: Tree, row: F32) -> np.float32:
        if isinstance(part, int):
            return np.float32(row[part])
        total = add(part[0], row)
        for other in part[1:]:
            total = total + add(other, row)
        return total

    return lambda patterns: np.array([add(tree, row) for row in patterns], np.float32)


SHAPES: list[tuple[Tree, str]] = [
    (
        (
            (((0, 8), (4, 12)), ((1, 9), (5, 13))),
            (((2, 10), (6, 14)), ((3, 11), (7, 15))),
        ),  # as haddps joins eight lanes
        "K=16 lanes 8 sequential joined [lanes 4 neighbours 0..7]",
    ),
    (((0, (1, (2, 3))), (4, 5)), "K=6 ([reversed sequential 0..3] + (4 + 5))"),
    (((0, 3), (1, (2, 4))), "K=5 ((0 + 3) + (1 + (2 + 4)))"),
]


@pytest.mark.parametrize(("tree", "text"), SHAPES, ids=[t for _, t in SHAPES])
def test_no_tree_is_left_without_words(tree: Tree, text: str) -> None:
    K = len(leaves(tree))
    assert summarised({K: recover(by_tree(tree), K)}) == text


def test_several_terms_added_at_once_are_one_node() -> None:
    """As matrix units do: four products and the accumulator without rounding between them, ones cut off beside M."""

    def unit(patterns: F32) -> F32:
        total = np.zeros(len(patterns), np.float64)
        for start in range(0, patterns.shape[1], 4):
            terms = np.concatenate([total[:, None], patterns[:, start : start + 4].astype(np.float64)], axis=1)
            big = np.abs(terms).max(axis=1, keepdims=True) >= 2.0**90
            total = np.where(big & (np.abs(terms) < 2.0**90), 0.0, terms).sum(axis=1)
        return total.astype(np.float32)

    tree = recover(unit, 8)
    assert tree == ((0, 1, 2, 3), 4, 5, 6, 7)
    assert names(tree) == ()
    assert summarised({8: tree}) == "K=8 ((0 + 1 + 2 + 3) + 4 + 5 + 6 + 7)"


@pytest.mark.parametrize(
    "sums",
    [
        lambda patterns: np.array([float(sum(int(x) for x in row)) for row in patterns]),  # exact: nothing is lost
        lambda patterns: np.full(len(patterns), np.nan),
        lambda patterns: patterns.sum(axis=1) + 0.5,
        lambda patterns: patterns.sum(axis=1)[:-1],
    ],
    ids=["exact", "nan", "no integers", "one is missing"],
)
def test_no_tree_is_made_up(sums: Callable[[F32], F32]) -> None:
    with pytest.raises(NoTreeError):
        recover(sums, 16)


def test_numpys_own_sum_is_told_apart_from_the_contracts() -> None:
    """Eight accumulators, as NumPy's pairwise_sum has them for 8 to 128 terms (numpy/_core/src/umath/loops_utils)."""
    tree = recover(lambda patterns: np.array([np.sum(row) for row in patterns]), 64)
    assert "lanes 8 neighbours" in names(tree)
    assert "sequential" not in names(tree)
