"""Nothing that is not exactly a state file, and of this model and form, is taken, and none of it stays.

What is wrong is planted into the bytes of a sound file.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.compare.same import assert_same_bytes
from gnomon.decode.state_file import (
    StateCorruptError,
    StateFileError,
    StateIdentityError,
    identity,
    receive,
    state_stream,
    unpack,
)
from gnomon.engines import engine as engine_of
from gnomon.gates.faults import states
from gnomon.models import micro
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError
from running import LONG, SHORT, fresh
from state_edits import entry, metadata, parsed, with_header

NewEngine = Callable[..., Engine[Any]]


@pytest.fixture(scope="module")
def numpy() -> Engine[Any]:
    return engine_of("numpy", micro())


@pytest.fixture(scope="module")
def file(numpy: Engine[Any]) -> bytes:
    return b"".join(state_stream(numpy, numpy.forward(SHORT)[1]))


KEYS = "blocks.0.kv.k"
SOUND_SHA = "0" * 64
UNREADABLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda d: b"", "the length of the header"),
    "a few bytes": (lambda d: d[:5], "ends after 5"),
    "a header cut": (lambda d: d[:300], "header of at most 292 bytes"),
    "a header of 2^63": (
        lambda d: (1 << 63).to_bytes(8, "little") + d[8:],
        "but the file announces 9223372036854775808",
    ),
    "no JSON": (lambda d: with_header(d, lambda h: None, "{]"), "JSON"),
    "a list": (lambda d: with_header(d, lambda h: None, "[]"), "JSON object"),
    "nested deeply": (lambda d: with_header(d, lambda h: None, "[" * 99999), "nested too deeply|JSON"),
    "no metadata": (lambda d: with_header(d, lambda h: h.pop("__metadata__")), "__metadata__"),
    "metadata of numbers": (metadata(position=14), "__metadata__"),
    "another format": (metadata(format="pt"), "format 'gnomon state' but got 'pt'"),
    "another schema": (metadata(schema="3"), "schema '2' but got '3'$"),
    "no config": (lambda d: with_header(d, lambda h: h["__metadata__"].pop("config")), "the config in a state file"),
    "a config that is a list": (metadata(config="[]"), "the config in a state file"),
    "a config with spaces": (metadata(config='{"eps": 1e-05}'), "sorted JSON without spaces"),
    "a config in another order": (metadata(config='{"heads":4,"eps":1e-05}'), "sorted JSON without spaces"),
    "a config with a field twice": (metadata(config='{"eps":1e-05,"eps":1e-05}'), "'eps' stands there twice"),
    "a config nested deeply": (metadata(config='{"eps":' + "[" * 9999 + "]" * 9999 + "}"), "the config in a state"),
    "a config nested a little less": (metadata(config='{"eps":' + "[" * 960 + "]" * 960 + "}"), "the config|of eps"),
    "no arm": (metadata(arm=""), "Expected arm"),
    "a model of a megabyte": (metadata(model="f" * (1 << 20)), "Expected model"),
    "another position": (metadata(position="15"), "position 14.* but got '15'"),
    "one id less": (metadata(ids=",".join(map(str, SHORT[1:]))), "position 13.* but got '14'"),
    "an id that is none": (metadata(ids="1,2,x"), "token ids below 97 .* but got 'x'"),
    "an id outside": (metadata(ids="97"), "token ids below 97 .* but got '97'"),
    "a negative id": (metadata(ids="-1"), "token ids"),
    "an id with a plus": (metadata(ids="+1"), "token ids"),
    "an id of many digits": (metadata(ids="1" * 5000), "token ids"),
    "no ids field": (lambda d: with_header(d, lambda h: h["__metadata__"].pop("ids")), "token ids"),
    "a digest that is none": (metadata(payload_sha256="x"), "64 hexadecimal digits as 'payload_sha256'"),
    "a digest missing": (lambda d: with_header(d, lambda h: h["__metadata__"].pop(f"{KEYS}.sha256")), "64 hexadecimal"),
    "a field more": (metadata(host="somebody"), "no other field"),
    "a digest of no tensor": (metadata(**{"blocks.9.kv.k.sha256": SOUND_SHA}), "no other field"),
    "keys missing": (
        lambda d: with_header(d, lambda h: h.pop(KEYS)),
        f"a tensor {KEYS} in the state but it is missing",
    ),
    "a tensor more": (
        lambda d: with_header(d, lambda h: h.update({"blocks.9.kv.k": h[KEYS]})),
        "no tensor 'blocks.9.kv.k'",
    ),
    "tensors in another order": (
        lambda d: with_header(d, lambda h: h.update({KEYS: h.pop(KEYS)})),
        "in the order of the layers",
    ),
    "a type it has not": (entry(KEYS, dtype="F64"), "a tensor of type F32, BF16, I8"),
    "another type": (entry(KEYS, dtype="BF16"), rf"{KEYS} to be F32 \[14, 2, 10\] but got BF16"),
    "a shape of another size": (entry(KEYS, shape=[15, 2, 10]), rf"{KEYS} to be F32 .* \[15, 2, 10\]"),
    "a shape turned": (entry(KEYS, shape=[2, 14, 10]), rf"{KEYS} to be F32 .* \[2, 14, 10\]"),
    "a shape of 2^62 values": (entry(KEYS, shape=[1 << 31, 1 << 31]), "a tensor of type"),
    "a negative shape": (entry(KEYS, shape=[-14, 2, 10]), "a tensor of type"),
    "a shape of floats": (entry(KEYS, shape=[14.0, 2, 10]), "a tensor of type"),
    "a shape of truth": (entry(KEYS, shape=[True, 2, 10]), "a tensor of type"),
    "offsets that overlap": (entry(KEYS, data_offsets=[0, 8]), "without gaps"),
    "offsets with a gap": (entry(KEYS, data_offsets=[8, 1128]), "without gaps"),
    "a tensor that is text": (lambda d: with_header(d, lambda h: h.update({KEYS: "x"})), "a tensor of type"),
    "a field more in a tensor": (entry(KEYS, extra=1), "no other field"),
    "spaces in the header": (lambda d: with_header(d, lambda h: None, json.dumps(parsed(d))), "in its one form"),
    "the last byte missing": (lambda d: d[:-1], "as its header says"),
    "a byte more": (lambda d: d + b"\0", "as its header says"),
    "no payload": (lambda d: d[: 8 + int.from_bytes(d[:8], "little")], "as its header says"),
}


@pytest.fixture
def strict(numpy: Engine[Any], monkeypatch: pytest.MonkeyPatch) -> Engine[Any]:
    """The engine, which fails as soon as memory is taken for a tensor."""

    def allocates(*args: Any, **named: Any) -> Any:
        raise AssertionError("memory was taken before everything was checked")

    monkeypatch.setattr(np, "empty", allocates)
    monkeypatch.setattr(numpy.ops, "load_cache", allocates)
    monkeypatch.setattr(numpy.ops, "new_cache", allocates)
    return numpy


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_is_no_state_file_takes_no_memory(strict: Engine[Any], file: bytes, what: str) -> None:
    change, sentence = UNREADABLE[what]
    data = change(file)
    with pytest.raises(StateFileError, match=sentence) as raised:
        receive(strict, [data], len(data))
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("what", ["the last byte missing", "a byte more", "no payload"])
def test_no_stream_of_unknown_length_ends_elsewhere(numpy: Engine[Any], file: bytes, what: str) -> None:
    with pytest.raises(StateFileError, match=r"but the file ends after|but it goes on"):
        receive(numpy, [UNREADABLE[what][0](file)])


def test_no_endless_stream_is_read_to_its_end(numpy: Engine[Any], file: bytes) -> None:
    def endless() -> Iterator[bytes]:
        yield file
        while True:
            yield b"\0" * 1000

    with pytest.raises(StateFileError, match="goes on"):
        receive(numpy, endless())


def test_no_state_is_longer_than_the_model_can_be(numpy: Engine[Any]) -> None:
    short = Engine("numpy", replace(micro(), config=replace(micro().config, max_positions=8)), numpy.ops)
    sent = b"".join(state_stream(numpy, numpy.forward(SHORT)[1]))
    with pytest.raises(StateFileError, match="at most max_positions=8 positions but the state has 14"):
        receive(short, [sent])


@pytest.mark.parametrize("seed", range(5))
def test_no_flipped_bit_of_a_tensor_is_taken(numpy: Engine[Any], file: bytes, seed: int) -> None:
    data, header = bytearray(file), 8 + int.from_bytes(file[:8], "little")
    at = header + (len(file) - header) * seed // 5
    data[at] ^= 1 << seed
    with pytest.raises(StateCorruptError, match=r"Expected blocks\.\d\.\S+ to have SHA-256") as raised:
        receive(numpy, [bytes(data)])
    assert raised.value.exit_code == 1
    with pytest.raises(StateCorruptError):
        unpack([bytes(data)])


def test_no_payload_of_another_digest_is_taken(numpy: Engine[Any], file: bytes) -> None:
    """Every tensor is right by its own digest."""
    with pytest.raises(StateCorruptError, match="a payload of SHA-256 0000"):
        receive(numpy, [metadata(payload_sha256=SOUND_SHA)(file)])


@pytest.mark.parametrize("field", ["contract", "arm", "kv", "model", "tokenizer"])
def test_no_state_of_something_else_is_taken(strict: Engine[Any], file: bytes, field: str) -> None:
    """By field, with both values; whatever else is wrong with it comes later."""
    data = with_header(file, lambda h: (h["__metadata__"].update({field: "0ther", "position": "99"}), h.pop(KEYS)))
    with pytest.raises(StateIdentityError) as raised:
        receive(strict, [data], len(data))
    error = raised.value
    assert (error.field, error.ours, error.theirs) == (field, identity(strict)[field], "0ther")
    assert error.exit_code == 3
    assert str(error) == f"Expected a state of {field} {error.ours} but the file holds one of {field} 0ther"


@pytest.mark.parametrize(
    ("forms", "field", "theirs"),
    [(("int8", "f32"), "arm", "int8"), (("bf16", "f32"), "arm", "bf16"), (("f32", "int8"), "kv", "int8")],
)
def test_no_state_of_another_form_is_taken(numpy: Engine[Any], forms: tuple[str, str], field: str, theirs: str) -> None:
    other = engine_of("numpy", micro(), *forms)
    with pytest.raises(StateIdentityError) as raised:
        receive(numpy, state_stream(other, other.forward(SHORT)[1]))
    assert (raised.value.field, raised.value.theirs) == (field, theirs)


def test_the_first_field_that_differs_is_named(numpy: Engine[Any], file: bytes) -> None:
    others = {"contract": "2", "model": "other", "kv": "int8"}
    with pytest.raises(StateIdentityError, match=r"of contract 1 .* of contract 2$"):
        receive(numpy, [metadata(**others)(file)])


def test_an_engine_is_as_it_was_after_refusals(new_engine: NewEngine, file: bytes) -> None:
    engine = new_engine(micro())
    _, held = engine.forward(LONG[:20])
    before = b"".join(state_stream(engine, held))
    for name in ("flip", "truncated", "position"):
        with pytest.raises(GnomonError):
            receive(engine, [states.FAULTS[name](unpack([file]), None)])
    assert b"".join(state_stream(engine, held)) == before
    expected, _ = fresh(engine, [*LONG[:20], 5])
    assert_same_bytes(engine.forward([5], held)[0][0], expected[-1], "logits")
