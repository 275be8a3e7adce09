"""Token embedding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def embed(ids: NDArray[np.integer[Any]], table: F32) -> F32:
    """embed(ids)[r] = table[ids[r]]

    Shapes:   ids [rows], table [vocab, width] -> [rows, width]
    Formats:  f32 table, settled at load; nothing is computed
    Source:   contract, section 5
    """
    rows: F32 = table[ids]
    return rows
