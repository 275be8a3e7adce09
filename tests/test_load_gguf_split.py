"""A GGUF model in several files; headers that would cost far more memory than they have bytes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest

from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
from model_files import Arrays, add_tensors, config, finish, gguf_writer, tensors, write_gguf


def split(
    folder: Path, given: dict[str, Any], parts: int, arrays: Arrays, first_has_tensors: bool = True
) -> list[Path]:
    """The model in several files, with the metadata that gguf-split writes."""
    names = list(arrays)
    paths = []
    for k in range(parts):
        path = folder / f"model-{k + 1:05}-of-{parts:05}.gguf"
        writer = gguf_writer(path, given) if k == 0 else gguf.GGUFWriter(path, given["model_type"])
        writer.add_uint16("split.no", k)
        writer.add_uint16("split.count", parts)
        writer.add_int32("split.tensors.count", len(arrays))
        at = k if first_has_tensors else k - 1
        held = [] if at < 0 else names[at :: parts if first_has_tensors else parts - 1]
        add_tensors(writer, given, {name: arrays[name] for name in held})
        finish(writer)
        paths.append(path)
    return paths


@pytest.mark.parametrize("first_has_tensors", [True, False])
def test_a_model_in_several_files_is_no_other_model(tmp_path: Path, first_has_tensors: bool) -> None:
    whole = load(write_gguf(tmp_path / "whole.gguf", config(), tensors(config())))
    first, *_ = split(tmp_path, config(), 3, tensors(config()), first_has_tensors)

    assert load(first).digest == whole.digest
    assert load(first).config == whole.config


def renamed(paths: list[Path]) -> Path:
    return paths[0].rename(paths[0].with_name("model.gguf"))


def lost(paths: list[Path]) -> Path:
    paths[1].unlink()
    return paths[0]


def swapped(paths: list[Path]) -> Path:
    paths[1].rename(paths[1].with_name("x"))
    paths[2].rename(paths[1])
    paths[1].with_name("x").rename(paths[2])
    return paths[0]


def doubled(paths: list[Path]) -> Path:
    """The last file again with a tensor of the first one."""
    held = tensors(config())
    kept = {name: held[name] for name in [*list(held)[2::3], next(iter(held))]}
    writer = gguf.GGUFWriter(paths[2], "llama")
    writer.add_uint16("split.no", 2)
    writer.add_uint16("split.count", 3)
    add_tensors(writer, config(), kept)
    finish(writer)
    return paths[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda paths: paths[1], "the first of 3 files"),
        (renamed, "the first of 3 files, named like model-00001-of-00003.gguf, but got 'model.gguf'"),
        (lost, "'model-00002-of-00003.gguf' beside 'model-00001-of-00003.gguf' but there is no such file"),
        (swapped, "split.no=1 in 'model-00002-of-00003.gguf' but got 2"),
        (doubled, "each tensor in one file but 'token_embd.weight' is in 'model-00003-of-00003.gguf' again"),
    ],
    ids=["not-the-first", "renamed", "lost", "swapped", "doubled"],
)
def test_no_files_that_do_not_belong_together_load(tmp_path: Path, change: Any, says: str) -> None:
    path = change(split(tmp_path, config(), 3, tensors(config())))

    with pytest.raises(ModelError) as caught:
        load(path)
    assert says in str(caught.value)


HOSTILE = """
import resource, sys, time
from pathlib import Path
from gnomon.reference.errors import ModelError
from gnomon.reference.load import load
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
begun = time.process_time()
try:
    load(Path(sys.argv[1]))
except ModelError as error:
    print(error)
assert time.process_time() - begun < 10
"""


def string(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


BYTES_28M = b"GGUF" + u32(3) + u64(0) + u64(1) + string(b"a") + u32(9) + u32(0) + u64(28 << 20) + bytes(28 << 20)
TENSORS_900K = b"GGUF" + u32(3) + u64(900_000) + u64(0) + (string(b"") + u32(1) + u64(1) + u32(0) + u64(0)) * 900_000
ENTRIES_2M = b"GGUF" + u32(3) + u64(0) + u64(2_000_000) + (string(b"") + u32(0) + b"\0") * 2_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (BYTES_28M, "at most 4194304 values of 'a'"),
        (TENSORS_900K, "at most 131072 tensors"),
        (ENTRIES_2M, "at most 65536 metadata entries"),
    ],
    ids=["values", "tensors", "entries"],
)
def test_no_header_costs_a_hundred_times_its_size(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(path)], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert says in done.stdout
