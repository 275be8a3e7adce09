"""A check at import: some shared libraries switch a thread to flush-to-zero, and no byte can be trusted after that."""

import numpy as np


def refuse_flush_to_zero() -> None:
    """Raises RuntimeError where this thread flushes subnormals to zero."""
    smallest_normal = np.full(8, 2.0**-126, np.float32)
    if not np.all(smallest_normal * np.float32(0.5)):
        raise RuntimeError(
            "Expected IEEE subnormals but this thread flushes them to zero: a library loaded earlier was built with "
            "-ffast-math; import gnomon before it"
        )
