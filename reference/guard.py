"""A check at engine start: some shared libraries switch a thread to flush-to-zero, and no byte is right after that."""

import numpy as np

from gnomon.reference.errors import NotRunError


def refuse_flush_to_zero() -> None:
    """Raises NotRunError where this thread flushes subnormals to zero."""
    smallest_normal = np.full(8, 2.0**-126, np.float32)
    if not np.all(smallest_normal * np.float32(0.5)):
        raise NotRunError(
            "Expected IEEE subnormals but this thread flushes them to zero: a library loaded earlier was built with "
            "-ffast-math; import gnomon before it"
        )
