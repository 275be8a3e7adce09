"""The embedded models: where they lie, and the one that is made in code."""

from pathlib import Path

from gnomon.models.micro import micro
from gnomon.reference.errors import UsageError

TRAINED = {"tiny-dense": "tiny_dense", "tiny-hybrid": "tiny_hybrid"}

__all__ = ["TRAINED", "folder", "micro"]


def folder(name: str) -> Path:
    """The folder of a trained embedded model. Raises UsageError for another name."""
    if name not in TRAINED:
        raise UsageError(f"Expected an embedded model among {', '.join(TRAINED)} but got {name!r}")
    return Path(__file__).parent / TRAINED[name]
