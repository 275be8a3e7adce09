"""One .safetensors file as stored tensors. The library validates it; the bytes are mapped here, as stored."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from gnomon.reference.errors import ModelError
from gnomon.reference.load.stored import Stored
from gnomon.reference.strict_json import LIMIT, check_file, parse_object, show


def read_safetensors(path: Path) -> dict[str, Stored]:
    """The tensors of the file, by name; their bytes are read-only views of it

    Format:  u64 length of the header, the header (JSON), then the tensors without a gap, little-endian
    Raises ModelError where the file is truncated, or its header too long or at odds with itself. Nothing is allocated
    but the header.
    Source:  https://github.com/huggingface/safetensors, "Format"
    """
    try:
        check_file(path)
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(LIMIT, size - 8):
                raise ModelError(
                    f"Expected a header of at most {max(0, min(LIMIT, size - 8))} bytes in {path.name} "
                    f"but the file, of {size} bytes, announces {length}"
                )
            raw = file.read(length)
        with safe_open(path, framework="numpy"):
            pass  # it has checked types, shapes, gaps, overlaps and the size of the file
    except OSError as error:
        raise ModelError(f"Expected to read {path.name} but got: {error.strerror or error}") from error
    except SafetensorError as error:
        reason = show(str(error))[1:-1].removeprefix("Error while deserializing header: ")
        raise ModelError(f"Expected {path.name} to be a sound safetensors file but got: {reason}") from error
    header = parse_object(raw, f"the header of {path.name}")  # the library lets a tensor stand there twice
    header.pop("__metadata__", None)
    mapped = np.asarray(np.memmap(path, np.uint8, mode="r"))[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if not isinstance(entry, dict):  # the library reads a list of the three as well
            raise ModelError(f"Expected {show(name)} in {path.name} to be an object but got {show(entry)}")
        start, stop = entry["data_offsets"]
        tensors[name] = Stored(entry["dtype"], tuple(entry["shape"]), mapped[start:stop])
    return tensors
