"""Mixture of experts: which experts a row goes to, and with what weight."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def softmax(s: F32) -> F32:
    """p = settle(e / chunked_sum(e)), e = exp_neg(settle(s - max s))

    Shapes:   s [..., n] -> [..., n]
    Formats:  f32 in and out
    Source:   contract, section 5
    """
    e = exp_neg(settle(s - np.max(s, axis=-1, keepdims=True)))
    return settle(e / chunked_sum(np.moveaxis(e, -1, 0))[..., None])


def route(logits: F32, top_k: int, normalise: bool) -> F32:
    """The weight of each expert for each row, +0.0 for those that are not chosen

    Shapes:   logits [rows, experts] -> [rows, experts]
    Formats:  f32 in and out
    Order:    p = softmax; the top k by (p descending, id ascending); if normalise: z = their sum in that order from
              +0.0, p = settle(p / z)
    Source:   Shazeer et al. 2017, arXiv 1701.06538; contract, section 5
    """
    p = softmax(logits)
    chosen = np.argsort(-p, axis=-1, kind="stable")[:, :top_k]  # [rows, k]
    weight = np.take_along_axis(p, chosen, axis=-1)
    if normalise:
        z = np.zeros(len(p), np.float32)
        for j in range(top_k):
            z = z + weight[:, j]
        weight = settle(weight / z[:, None])
    out = np.zeros_like(p)
    np.put_along_axis(out, chosen, weight, axis=-1)
    return out
