"""llama.cpp as a runner: `llama_decode` alone through the low-level calls of llama-cpp-python, logits of the last row.

Its defaults, but for the threads and the room for positions: flash attention "auto", keys and values in f16, batches of
2,048 in pieces of 512, repacked weights where it has a layout for the CPU.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.errors import NotRunError

FLASH = {-1: "auto", 0: "off", 1: "on"}
KV_TYPES = {0: "f32", 1: "f16"}
_silent = lib.llama_log_callback(lambda level, text, data: None)  # kept alive: C holds on to it


class LlamaRunner:
    """A GGUF file in llama.cpp. ids: as many as the longest prefill; room: positions. Raises NotRunError."""

    def __init__(self, path: Path, ids: Sequence[int], room: int, threads: int) -> None:
        lib.llama_log_set(_silent, None)
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not self.model:
            raise NotRunError(f"Expected llama.cpp to load {path.name} but it failed")
        self.params = lib.llama_context_default_params()
        self.params.n_ctx = room
        self.params.n_threads = self.params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, self.params)
        if not self.context:
            raise NotRunError(f"Expected llama.cpp to make a context of {room} positions but it failed")
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.memory = lib.llama_get_memory(self.context)
        self.ids = list(ids)
        self.batch = lib.llama_batch_init(len(self.ids), 0, 1)
        self.length = 0  # positions it holds
        self.states: dict[int, Any] = {}  # keys and values of so many positions, as it writes them

    def step(self, tokens: Sequence[int]) -> None:
        """One llama_decode of the tokens after what it holds. Raises NotRunError where it fails."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = token, self.length + i
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 0
        batch.logits[len(tokens) - 1] = 1
        code = lib.llama_decode(self.context, batch)
        self.out = lib.llama_get_logits_ith(self.context, -1)  # waits for them
        if code or not self.out:
            raise NotRunError(f"Expected llama_decode to take {len(tokens)} tokens but it returned {code}")
        self.length += len(tokens)

    def cut(self, length: int) -> None:
        """Forget every position from `length` on."""
        lib.llama_memory_seq_rm(self.memory, 0, length, -1)
        self.length = length

    def logits(self) -> NDArray[np.float32]:
        """Of the last row of the last step"""
        return np.ctypeslib.as_array(self.out, (self.vocab,)).copy()

    def prefill(self, length: int) -> None:
        self.cut(0)
        self.step(self.ids[:length])

    def stand(self, position: int) -> None:
        if position not in self.states:
            self.prefill(position) if position else self.cut(0)
            size = lib.llama_state_seq_get_size(self.context, 0)
            self.states[position] = (ctypes.c_uint8 * size)()
            lib.llama_state_seq_get_data(self.context, self.states[position], size, 0)
        self.cut(0)
        if position:
            state = self.states[position]
            if lib.llama_state_seq_set_data(self.context, state, len(state), 0) != len(state):
                raise NotRunError(f"Expected llama.cpp to take back its state of {position} positions but it refused")
        self.length = position
        self.decode(1)

    def decode(self, tokens: int) -> None:
        for token in self.ids[:tokens]:
            self.step([token])

    def close(self) -> None:
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def facts(self) -> dict[str, Any]:
        """What runs: versions, build, settings as its own calls tell them"""
        return {
            "name": "llama.cpp",
            "package": f"llama-cpp-python {lib.__version__}",
            "ggml": ggml_says("ggml_version"),
            "commit": ggml_says("ggml_commit"),
            "compiler": compiler(),
            "system": lib.llama_print_system_info().decode().strip(" |"),
            "threads": lib.llama_n_threads(self.context),
            "threads_batch": lib.llama_n_threads_batch(self.context),
            "n_batch": lib.llama_n_batch(self.context),
            "n_ubatch": lib.llama_n_ubatch(self.context),
            "flash_attention": FLASH[self.params.flash_attn_type],
            "kv": KV_TYPES.get(self.params.type_k, str(self.params.type_k)),
        }


def library_file(name: str) -> Path:
    """A shared library beside those that the package loads"""
    folder = Path(lib.__file__).parent / "lib"
    return next(iter(sorted(folder.glob(f"*{name}.*"))), folder / name)


def ggml_says(function: str) -> str:
    """What a function without arguments returns as text, "" where the build has none"""
    try:
        call = getattr(ctypes.CDLL(str(library_file("ggml-base"))), function)
    except (OSError, AttributeError):
        return ""
    call.restype = ctypes.c_char_p
    return str(call().decode())


def compiler() -> str:
    """The compiler as the library's .comment section names it, "" where it does not"""
    try:
        data = library_file("ggml-cpu").read_bytes()
    except OSError:
        return ""
    start = max(data.find(b"GCC: ("), data.find(b"clang version "))
    return data[start : data.index(0, start)].decode("ascii", "replace") if start >= 0 else ""
