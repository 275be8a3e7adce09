"""Finding a model by what the user calls it."""

from pathlib import Path

from gnomon import models
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load as load_path
from gnomon.reference.model import Model


def load(source: str | Path) -> Model:
    """A model: the name of an embedded one ("micro", "tiny-dense"), a Hugging Face directory, or a GGUF file.

    Raises ModelError, in one sentence, for what is missing, broken, or asks for what the contract does not name.
    """
    if source == "micro":
        return models.micro()
    if source in models.TRAINED:
        return load_path(models.folder(str(source)), name=str(source))
    path = Path(source)
    if not path.exists():
        names = ", ".join(["micro", *models.TRAINED])
        raise ModelError(
            f"Expected an embedded model ({names}), a directory or a GGUF file but there is no {str(source)!r}"
        )
    return load_path(path)
