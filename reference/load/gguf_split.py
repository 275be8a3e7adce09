"""A GGUF model in several files, name-00001-of-00003.gguf and so on, as llama.cpp's gguf-split writes them.

Each file is a GGUF file with split.no, counted from 0, and split.count. The first one has the metadata of the model.
"""

import re
from dataclasses import replace
from pathlib import Path

from gnomon.reference.errors import ModelError
from gnomon.reference.load.gguf_header import GgufFile, read_gguf
from gnomon.reference.strict_json import show

MAX_FILES = 1024
NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


def read_files(path: Path) -> GgufFile:
    """The file, with the tensors of those that belong to it. Raises ModelError where they do not fit together."""
    first = read_gguf(path)
    count = number(first, path, "split.count", 1) or 1
    if count == 1:
        return first
    named = NAME.fullmatch(path.name)
    if (
        count < 0
        or number(first, path, "split.no", 0) != 0
        or named is None
        or int(named[2]) != 1
        or int(named[3]) != count
    ):
        raise ModelError(
            f"Expected the first of {count} files, named like model-00001-of-{count:05}.gguf, but got {show(path.name)}"
        )
    if count > MAX_FILES:
        raise ModelError(f"Expected a model of at most {MAX_FILES} files but got split.count={count}")
    tensors = dict(first.tensors)
    for k in range(1, count):
        other = path.with_name(f"{named[1]}-{k + 1:05}-of-{count:05}.gguf")
        if not other.is_file():
            raise ModelError(f"Expected {show(other.name)} beside {show(path.name)} but there is no such file")
        part = read_gguf(other)
        for key, value in (("split.no", k), ("split.count", count)):
            if (given := number(part, other, key, None)) != value:
                raise ModelError(f"Expected {key}={value} in {show(other.name)} but got {given}")
        if twice := tensors.keys() & part.tensors.keys():
            raise ModelError(f"Expected each tensor in one file but {show(min(twice))} is in {show(other.name)} again")
        tensors |= part.tensors
    if (total := number(first, path, "split.tensors.count", len(tensors))) != len(tensors):
        raise ModelError(
            f"Expected {total} tensors in {count} files, as split.tensors.count says, but got {len(tensors)}"
        )
    return replace(first, tensors=tensors)


def number(file: GgufFile, path: Path, key: str, default: int | None) -> int | None:
    """A whole number of the metadata."""
    value = file.metadata.get(key, default)
    if value is not None and type(value) is not int:
        raise ModelError(f"Expected a whole number for {key} in {show(path.name)} but got {show(value)}")
    return value
