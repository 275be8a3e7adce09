"""A sequence in llama.cpp, saved, loaded and continued, and what its bytes are: a subject of the experiment `ids`.

What `llama_state_seq_get_data` writes for a model that has attention alone, little-endian, without gaps or checksums:

    u32  magic 0xaf143cd8
    i32  sequence
    u32  streams, 1
    u32  cells
    per cell: i32 position, u32 number of sequences (1), i32 sequence
    u32  1 where values are stored transposed (flash attention off), else 0
    u32  layers
    per layer: i32 type of keys, u64 bytes of a row, cells x row
    per layer: i32 type of values, u64 bytes of a row, cells x row
      or, transposed: i32 type of values, u32 bytes of an element, u32 width, width x cells x element

Source: llama.cpp as the sdist of llama-cpp-python 0.3.36 carries it (ggml 0.25.3, commit 0c1e570), functions
`state_seq_get_data` in src/llama-context.cpp, `state_write`, `state_write_meta` and `state_write_data` in
src/llama-kv-cache.cpp. Another layout is noticed: the sizes must add up to the last byte.
"""

import ctypes
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from gnomon.gates.ids_subject import Counters, RefusedError
from gnomon.reference.errors import ModelError, NotRunError

MAGIC = 0xAF143CD8
FLASH = {"auto": -1, "off": 0, "on": 1}
ERROR = 4  # its log level
_errors: list[str] = []


@lib.llama_log_callback  # kept alive by its name: C holds on to it
def _log(level: int, text: bytes, data: Any) -> None:
    if level == ERROR:
        _errors.append(text.decode("utf-8", "replace").strip())


@dataclass(frozen=True)
class Layout:
    """Where things are, in bytes. at: a name -> offset of the first field that has it; keys, values: offset by layer
    row: of one cell; element: 1 where rows are not taken apart; transposed: values lie [elements, cells]"""

    at: dict[str, int]
    cells: int
    transposed: bool
    row: int
    element: int
    keys: tuple[int, ...]
    values: tuple[int, ...]

    def rows(self, data: NDArray[np.uint8], start: int, transposed: bool = False) -> NDArray[np.uint8]:
        """Keys or values of one layer as a view [cells, elements, bytes of one]"""
        n = self.row // self.element
        flat = data[start : start + self.cells * self.row]
        if transposed:
            return flat.reshape(n, self.cells, self.element).swapaxes(0, 1)
        return flat.reshape(self.cells, n, self.element)


def layout(data: bytes) -> Layout:
    """Of a saved sequence. Raises NotRunError where it is none, or keys and values have not the same form."""
    at: dict[str, int] = {}
    here = 0

    def take(name: str, form: str, *allowed: int) -> int:
        nonlocal here
        at.setdefault(name, here)
        (value,) = struct.unpack_from(f"<{form}", data, here)
        here += struct.calcsize(form)
        if allowed and value not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise NotRunError(f"Expected {wanted} for the field {name!r} of llama.cpp's state but got {value}")
        return int(value)

    def skip(name: str, nbytes: int) -> int:
        nonlocal here
        at.setdefault(name, here)
        here += nbytes
        return here - nbytes

    try:
        take("magic", "I", MAGIC)
        take("sequence", "i")
        take("streams", "I", 1)
        cells = take("cells", "I")
        for _ in range(cells):
            take("position", "i")
            take("sequences of a cell", "I", 1)
            take("sequence of a cell", "i")
        transposed = bool(take("transposed", "I", 0, 1))
        layers = take("layers", "I")
        keys, values, row, kind, element = [], [], 0, 0, 1
        for i in range(layers):
            kind = take("key type", "i", *([kind] if i else []))
            row = take("key row size", "Q", *([row] if i else []))
            keys.append(skip("key", cells * row))
        for _ in range(layers):
            take("value type", "i", kind)
            if transposed:
                element = take("value element size", "I")
                take("value width", "I", row // element)
            else:
                take("value row size", "Q", row)
            values.append(skip("value", cells * row))
    except (struct.error, ZeroDivisionError) as error:
        raise NotRunError(f"Expected a state of llama.cpp but its {len(data)} bytes end before it does") from error
    if here != len(data):
        raise NotRunError(f"Expected a state of llama.cpp of {here} bytes but got {len(data)}")
    return Layout(at, cells, transposed, row, element, tuple(keys), tuple(values))


def exchanged(data: bytes) -> bytes:
    """Keys where values were and values where keys were, in every layer; there is no checksum to make again."""
    found = layout(data)
    old, new = np.frombuffer(data, np.uint8), np.frombuffer(data, np.uint8).copy()
    for k, v in zip(found.keys, found.values, strict=True):
        found.rows(new, k)[:] = found.rows(old, v, found.transposed)
        found.rows(new, v, found.transposed)[:] = found.rows(old, k)
    return new.tobytes()


def flipped(data: bytes, at: int | None = None) -> bytes:
    """The lowest bit of one byte is another one. at: its offset, else in the middle of the keys of the middle layer"""
    if at is None:
        found = layout(data)
        at = found.keys[len(found.keys) // 2] + found.cells * found.row // 2
    out = bytearray(data)
    out[at] ^= 1
    return bytes(out)


@dataclass(frozen=True)
class Continuation:
    """What one `generate` left. logits: SHA-256 over its rows; the rest: llama.cpp's own counters after it"""

    logits: str
    n_p_eval: int
    n_eval: int
    n_reused: int


class LlamaSubject:
    """A GGUF file in llama.cpp, one sequence; every prefill and every load begins in a context that was just made.

    flash: of FLASH; continuations: of every `generate` so far
    """

    def __init__(self, path: Path, flash: str, room: int = 512, threads: int = 1) -> None:
        lib.llama_log_set(_log, None)
        lib.llama_backend_init()
        self.name = f"llama.cpp {path.stem}, flash attention {flash}"
        self.model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not self.model:
            raise ModelError(f"Expected a GGUF file that llama.cpp loads but {path.name} fails: {said()}")
        self.vocab = lib.llama_model_get_vocab(self.model)
        if lib.llama_vocab_type(self.vocab) == lib.LLAMA_VOCAB_TYPE_NONE:
            raise ModelError(f"Expected a GGUF file with a tokenizer but {path.name} has none")
        self.params = lib.llama_context_default_params()
        self.params.n_ctx, self.params.flash_attn_type = room, FLASH[flash]
        self.params.n_threads = self.params.n_threads_batch = threads
        self.continuations: list[Continuation] = []
        self.context: Any = None
        self._begin()

    def close(self) -> None:
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def encode(self, text: str) -> list[int]:
        data = text.encode()
        room = len(data) + 8
        out = (lib.llama_token * room)()
        return out[: lib.llama_tokenize(self.vocab, data, len(data), out, room, True, False)]

    def prefill(self, ids: Sequence[int]) -> None:
        self._begin()
        self._step(ids)

    def save(self) -> bytes:
        size = lib.llama_state_seq_get_size(self.context, 0)
        out = (ctypes.c_uint8 * size)()
        if lib.llama_state_seq_get_data(self.context, out, size, 0) != size:
            raise NotRunError(f"Expected llama.cpp to write a state of {size} bytes but it failed: {said()}")
        return bytes(out)

    def load(self, data: bytes) -> None:
        self._begin()
        if not lib.llama_state_seq_set_data(self.context, (ctypes.c_uint8 * len(data))(*data), len(data), 0):
            raise RefusedError(said())
        self._restored = lib.llama_memory_seq_pos_max(lib.llama_get_memory(self.context), 0) + 1

    def generate(self, ids: Sequence[int], n: int) -> list[int]:
        made: list[int] = []
        rows = hashlib.sha256()
        for _ in range(n):
            logits = self._step(made[-1:] or ids)
            rows.update(logits.tobytes())
            made.append(int(np.argmax(logits)))
        perf = lib.llama_perf_context(self.context)
        self.continuations.append(Continuation(rows.hexdigest(), perf.n_p_eval, perf.n_eval, perf.n_reused))
        return made

    def counters(self) -> Counters:
        """n_p_eval (rows that came several at once) and n_eval (rows that came alone). llama.cpp says 1 where it
        counted none: of several rows 1 is never a count, of single ones not before the first."""
        perf = lib.llama_perf_context(self.context)
        several = perf.n_p_eval if perf.n_p_eval > 1 else 0
        return Counters(self._restored, several + (perf.n_eval if self._alone else 0))

    def exchange(self, data: bytes) -> bytes:
        return exchanged(data)

    def flip(self, data: bytes) -> bytes:
        return flipped(data)

    def _begin(self) -> None:
        if self.context:
            lib.llama_free(self.context)
        self.context = lib.llama_init_from_model(self.model, self.params)
        if not self.context:
            raise NotRunError(f"Expected llama.cpp to make a context but it failed: {said()}")
        self._restored, self._alone = 0, False
        _errors.clear()

    def _step(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Logits of the last row: [vocab]"""
        tokens = (lib.llama_token * len(ids))(*ids)  # the batch points to it
        code = lib.llama_decode(self.context, lib.llama_batch_get_one(tokens, len(ids)))
        out = lib.llama_get_logits_ith(self.context, -1)  # waits for them
        if code or not out:
            raise NotRunError(f"Expected llama_decode to take {len(ids)} tokens but it returned {code}: {said()}")
        self._alone |= len(ids) == 1
        return np.ctypeslib.as_array(out, (lib.llama_vocab_n_tokens(self.vocab),)).copy()


def said() -> str:
    """The first error that llama.cpp has logged, which names the cause, and forget them"""
    first = _errors[0] if _errors else "it logged no error"
    _errors.clear()
    return first
