"""A weight as it is stored: bytes, type and shape, widened to f32 only on request; and the digest over all of them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Role = Literal["linear", "table", "vector", "decay"]


@dataclass(frozen=True)
class Spec:
    """What a family expects of one weight: logical shape, and the part it plays."""

    shape: tuple[int, ...]
    role: Role


@dataclass(frozen=True)
class Weight:
    """One tensor in its stored form.

    name:  canonical name, such as "blocks.0.attn.q.weight"
    dtype: stored type, one of reference/load/stored.py's DTYPES
    shape: logical shape, rows first; blocks of a quantised type run along the last axis
    data:  the stored bytes, uint8 [rows, bytes per row]; a view of the file where possible
    role:  "linear" (an arm applies), "table" (rows read as they are), "vector" (norm weights, biases) or "decay"
           (A_log of a delta layer, kept as -exp(A_log))
    plus_one: the norm of this family multiplies by 1 + w
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    role: Role = "linear"
    plus_one: bool = False

    def __repr__(self) -> str:
        return f"Weight {self.name}: {self.dtype} {list(self.shape)}"


def digest(weights: Iterable[Weight]) -> str:
    """SHA-256 over (name, dtype, shape, bytes) of every weight in the order of their names, as hex text."""
    total = hashlib.sha256()
    for w in sorted(weights, key=lambda w: w.name):
        shape = ",".join(str(n) for n in w.shape)
        total.update(f"{w.name}\0{w.dtype}\0{shape}\0{w.data.nbytes}\0".encode())
        total.update(np.ascontiguousarray(w.data).data)
    return total.hexdigest()
