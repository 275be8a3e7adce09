"""Finding a model by what the user calls it, and the one sentence for whatever is not there."""

import os
from pathlib import Path

from gnomon import models
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load as load_path
from gnomon.reference.model import Model
from gnomon.reference.token_ids import kind

LONGEST = 400  # characters of a path that a message repeats


def load(source: str | Path) -> Model:
    """A model: the name of an embedded one ("micro", "tiny-dense"), a Hugging Face directory, or a GGUF file.

    Raises ModelError, in one sentence, for what is missing, broken, or asks for what the contract does not name.
    """
    kind("source", source, (str, os.PathLike), "the name of a model or a path")
    if source == "micro":
        return models.micro()
    if source in models.TRAINED:
        return load_path(models.folder(str(source)), name=str(source))
    if not os.path.exists(source):
        names = ", ".join(["micro", *models.TRAINED])
        raise ModelError(nothing_at(f"an embedded model ({names}), a Hugging Face directory or a GGUF file", source))
    return load_path(Path(source))


def nothing_at(what: str, path: str | Path) -> str:
    """The sentence for a file or folder that is not there, the same for every kind. what: such as "a trace"."""
    named = str(path) if len(str(path)) <= LONGEST else f"{str(path)[:LONGEST]} ..."  # a trace may name any model
    return f"Expected {what} at {named!r} but nothing is found there; check the path"
