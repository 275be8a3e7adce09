"""The order in which a sum adds, recovered from its results.

One term is M, one is -M, the others are 1; M is so large that M + 1 = M. What was added to M or -M before they met is
lost, so the sum counts the ones outside of the smallest part of the tree that holds both. Source: FPRev, "Revealing
floating-point accumulation orders", arXiv 2411.00442.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.explain import orders
from gnomon.reference.errors import GnomonError

F32 = NDArray[np.float32]
Sums = Callable[[F32], F32]  # patterns [P, K] -> their sums [P]
Tree = int | tuple["Tree", ...]  # the index of a term, or parts that are added together
M = np.float32(2.0**100)
NAMES = ("sequential", orders.CONTRACT, *(order for order in orders.ORDERS if order != "sequential"))
LONGEST = 160  # characters of a tree in a table


class NoTreeError(GnomonError):
    """The results are not those of any order of rounded additions."""


def recover(sums: Sums, K: int) -> Tree:
    """The tree of K terms. Raises NoTreeError, as for a sum that is exact, compensated, or wider inside."""

    def lost(i: int, others: Sequence[int]) -> list[int]:
        """For each j in others, how many terms hang below the node where i and j meet"""
        patterns = np.ones((len(others), K), np.float32)
        patterns[:, i] = M
        patterns[np.arange(len(others)), others] = -M
        kept = np.asarray(sums(patterns), np.float64)
        if kept.shape != (len(others),) or not np.isin(kept, np.arange(K - 1)).all():
            raise NoTreeError(f"Expected sums that are whole numbers from 0 to {K - 2} but got {kept.tolist()[:3]}")
        return [K - int(count) for count in kept]

    def grow(terms: Sequence[int], top: int) -> list[Tree]:
        """The parts that hold these terms, all of which meet in a node of `top` terms"""
        i, others = terms[0], terms[1:]
        met = dict(zip(others, lost(i, others), strict=True)) if others else {}
        tree: Tree = i
        size = 1
        for count in sorted({count for count in met.values() if count < top}):
            group = [j for j in others if met[j] == count]
            tree = (tree, *grow(group, count))
            size += len(group)
            if size != count:
                raise NoTreeError(f"Expected {size} terms below a node of the tree but {count} were lost there")
        rest = [j for j in others if met[j] >= top]
        return [tree, *grow(rest, top)] if rest else [tree]

    return grow(range(K), K + 1)[0]


def leaves(tree: Tree) -> list[int]:
    """Indices of the terms, ascending"""
    return [tree] if isinstance(tree, int) else sorted(leaf for part in tree for leaf in leaves(part))


@cache
def known(K: int) -> dict[int, tuple[str, ...]]:
    """The orders of addition that have a name, by the signature of their tree of K terms"""
    out: dict[int, tuple[str, ...]] = {}
    with np.errstate(over="ignore"):  # hashes wrap around
        for order in NAMES:
            signature = orders.signature(order, K)
            out[signature] = (*out.get(signature, ()), order)
    return out


def names(tree: Tree) -> tuple[str, ...]:
    """The named orders that make this tree of its terms, counted in ascending order; the plainest first"""
    rank = {leaf: i for i, leaf in enumerate(leaves(tree))}
    return known(len(rank)).get(hashed(tree, rank), ())


def hashed(tree: Tree, rank: Mapping[int, int]) -> int:
    """As `orders.signature`; 0, which no order has, where more than two parts are added at once"""
    if isinstance(tree, int):
        return (rank[tree] + 1) * 0x9E3779B97F4A7C15 % 2**64
    parts = [np.array([hashed(part, rank)], np.uint64) for part in tree]
    return int(orders.mix(*parts)[0]) if len(parts) == 2 and all(part[0] for part in parts) else 0


def described(tree: Tree) -> str:
    """The tree in words: orders by name, lanes with the way they are joined, brackets around the rest."""
    if isinstance(tree, int):
        return str(tree)
    terms = leaves(tree)
    step = terms[1] - terms[0]
    if len(terms) > 2 and terms == list(range(terms[0], terms[-1] + 1, step)):
        found = names(tree)
        words = found[0] if found else in_lanes(tree, {leaf: i for i, leaf in enumerate(terms)})
        if words:
            return f"[{words} {terms[0]}{f',{terms[1]}' if step > 1 else ''}..{terms[-1]}]"
    return "(" + " + ".join(described(part) for part in tree) + ")"


def worded(tree: Tree) -> str:
    """The additions among the terms of a part, whichever they are, its terms counted from 0"""
    rank = {leaf: i for i, leaf in enumerate(leaves(tree))}
    found = names(tree)
    if found:
        return found[0]
    text = in_lanes(tree, rank) or described(counted(tree, rank))
    return f"[{text}]" if len(text) <= LONGEST // 2 else "[otherwise]"


def counted(tree: Tree, rank: Mapping[int, int]) -> Tree:
    """The tree with the rank of each term in its place"""
    return rank[tree] if isinstance(tree, int) else tuple(counted(part, rank) for part in tree)


def in_lanes(tree: Tree, rank: Mapping[int, int]) -> str:
    """Of lanes: "lanes 8 sequential joined [pairwise folded 0..7]" where every eighth term is one part of the tree and
    the eight parts add alike; "tail after" where the terms beyond a multiple follow one by one. "" where none are"""
    K = len(rank)
    for width in (w for w in (64, 32, 16, 8, 4, 2) if w <= K // 2):
        body, tail = tree, K % width
        for last in range(K - 1, K - 1 - tail, -1):
            if isinstance(body, int) or len(body) != 2 or isinstance(body[1], tuple) or rank[body[1]] != last:
                break
            body = body[0]
        else:
            parts: dict[int, Tree] = {}
            join = joined(body, rank, width, parts)
            if join is not None and len({shape(part) for part in parts.values()}) == 1:
                text = f"lanes {width} {worded(parts[0])} joined {described(join)}"
                return f"{text} tail after" if tail else text
    return ""


def joined(tree: Tree, rank: Mapping[int, int], width: int, parts: dict[int, Tree]) -> Tree | None:
    """The tree with each part that holds one lane replaced by the number of the lane, and the parts by lane; None
    where a part holds some terms of a lane and terms of another"""
    lanes = {rank[leaf] % width for leaf in leaves(tree)}
    if len(lanes) == 1:
        lane = lanes.pop()
        if lane in parts:
            return None
        parts[lane] = tree
        return lane
    inner = [joined(part, rank, width, parts) for part in tree] if isinstance(tree, tuple) else [None]
    whole = tuple(part for part in inner if part is not None)
    return whole if len(whole) == len(inner) else None


def shape(tree: Tree) -> int:
    """A number for the additions among the terms of a part, whichever they are"""
    return hashed(tree, {leaf: i for i, leaf in enumerate(leaves(tree))})


def summarised(trees: Mapping[int, Tree]) -> str:
    """One line for the trees of several lengths K: one name where one fits all of them"""
    common = [name for name in NAMES if all(name in names(tree) for tree in trees.values())]
    if common:
        return common[0]
    lines: dict[str, list[int]] = {}
    for K, tree in trees.items():
        found = names(tree)
        words = found[0] if found else in_lanes(tree, dict(enumerate(range(K)))) or described(tree)
        lines.setdefault(words, []).append(K)
    return "; ".join(f"K={','.join(map(str, lengths))} {shortened(text)}" for text, lengths in lines.items())


def shortened(text: str) -> str:
    """At most LONGEST characters"""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
