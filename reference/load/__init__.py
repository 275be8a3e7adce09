"""Files of models -> Model: a Hugging Face directory or a GGUF file.

Loading is strict: what a file claims is held against its size before anything is allocated for it, and an
option that might change the arithmetic is honoured or refused by name. Weights stay as the file stores them,
views of the mapped file: leave it alone while the model is in use.
"""

from pathlib import Path

from gnomon.reference.errors import ModelError
from gnomon.reference.load.gguf_file import load_gguf
from gnomon.reference.load.gguf_header import MAGIC
from gnomon.reference.load.huggingface import load_directory
from gnomon.reference.model import Model
from gnomon.reference.strict_json import show


def load(path: Path, name: str | None = None) -> Model:
    """The model at `path`, called `name` or else as the directory or file is called

    Raises ModelError where it is missing, broken or of a kind not supported.
    """
    try:
        if path.is_dir():
            return load_directory(path, name or path.resolve().name)
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(len(MAGIC))
            if start == MAGIC or path.suffix == ".gguf":
                return load_gguf(path, name or path.name)
    except OSError as error:
        raise ModelError(f"Expected to read {show(str(path))} but got: {error.strerror or error}") from error
    found = "a file of another kind" if path.exists() else "nothing there"
    raise ModelError(f"Expected a Hugging Face directory or a GGUF file at {show(str(path))} but found {found}")
