"""Formats with a structure of their own: opened, changed and closed again, so that what is inside is reached."""

import hashlib
import json
import math
import struct
from random import Random
from typing import Any, NamedTuple

from fuzz import mutators as m

START = "0" * 64


def safetensors(rng: Random, data: bytes) -> bytes:
    """A .safetensors file with another header, its length made again in most cases, or other bytes."""
    kind = rng.random()
    if kind < 0.25:
        return m.raw_bytes(rng, data)
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    if kind < 0.35:
        return data[: 8 + length] + m.raw_bytes(rng, rest)
    text = m.dumps(m.tree(rng, header)).encode("utf-8", "surrogatepass")
    told = len(text) if rng.random() < 0.9 else m.integer(rng, len(text)) % 2**64
    return told.to_bytes(8, "little") + text + rest


def chain(rng: Random, data: bytes, ended: bool = True) -> bytes:
    """Lines of a hash chain: one record changed, dropped, repeated or moved, and in most cases all linked again."""
    kind = rng.random()
    if kind < 0.25:
        return m.json_lines(rng, data)
    records = [json.loads(line) for line in data.decode().splitlines()]
    at = rng.randrange(len(records))
    if kind < 0.8:
        record = m.tree(rng, records[at])
        records[at] = record if isinstance(record, dict) else {"x": record}
    elif kind < 0.9:
        records.insert(rng.randrange(len(records) + 1), records[at])
    else:
        del records[at]
    return linked(records, ended).encode("utf-8", "surrogatepass")


def linked(records: list[dict[str, Any]], ended: bool) -> str:
    """The lines of a chain whose hashes are right for whatever it holds."""
    lines, prev = [], START
    for index, record in enumerate(records):
        record = {**record, "prev": prev}
        record.pop("hash", None)
        signature = record.pop("signature", None)
        if "end" in record and ended and type(record["end"]) is int:
            record["end"] = index
        text = m.dumps(record, sort_keys=True, separators=(",", ":"))
        prev = hashlib.sha256(text.encode()).hexdigest()
        whole = {**record, "hash": prev} | ({} if signature is None else {"signature": signature})
        lines.append(m.dumps(whole, sort_keys=True, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines)


def state(rng: Random, data: bytes) -> bytes:
    """A state file: its header changed, or its tensors, with digests that are right for them in most cases."""
    kind = rng.random()
    if kind < 0.2:
        return m.raw_bytes(rng, data)
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    if kind < 0.4:
        config = json.loads(header["__metadata__"]["config"])
        changed = m.dumps(m.tree(rng, config), sort_keys=True, separators=(",", ":"))
        header["__metadata__"]["config"] = changed
    elif kind < 0.5:
        rest = bytearray(m.raw_bytes(rng, bytes(rest)))
    elif kind < 0.6:
        bounded(rng, header, rest)
    else:
        header = m.tree(rng, header)
    if rng.random() < 0.7 and isinstance(header, dict):
        signed(header, bytes(rest))
    text = m.dumps(header, separators=(",", ":")).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(rest)


def bounded(rng: Random, header: dict[str, Any], rest: bytearray) -> None:
    """One tensor more, one fewer, or one of another shape, and everything behind it moved: it holds together."""
    names = [name for name in header if name != "__metadata__"]
    name = rng.choice(names)
    if rng.random() < 0.4:
        header[rng.choice(["extra", f"{name}x", *m.TEXTS[:6]])] = dict(header[name])
    elif rng.random() < 0.5:
        del header[name]
    else:
        shape = header[name]["shape"]
        shape[rng.randrange(len(shape))] = abs(m.integer(rng, shape[0])) % 5
    size, start = {"F32": 4, "BF16": 2, "I8": 1}, 0
    for name in header:
        if name != "__metadata__":
            stop = start + math.prod(header[name]["shape"]) * size[header[name]["dtype"]]
            header[name]["data_offsets"] = [start, stop]
            start = stop
    rest[:] = (rest + bytes(max(0, start - len(rest))))[:start]


def signed(header: dict[str, Any], rest: bytes) -> None:
    """Digests of the tensors as they now are, where they can be read."""
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict):
        return
    for name, entry in header.items():
        match entry:
            case {"data_offsets": [int(a), int(b)]} if 0 <= a <= b <= len(rest):
                metadata[f"{name}.sha256"] = hashlib.sha256(rest[a:b]).hexdigest()
    metadata["payload_sha256"] = hashlib.sha256(rest).hexdigest()


class Key(NamedTuple):
    """An entry of the metadata of a GGUF file. kind: its type as a number; payload: its bytes, without the type"""

    name: bytes
    kind: int
    payload: bytes


class Info(NamedTuple):
    """A tensor of a GGUF file."""

    name: bytes
    dims: list[int]
    kind: int
    offset: int


SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Gguf:
    """A sound GGUF file, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8
        tensors, keys = self.take("Q"), self.take("Q")
        self.keys = [self.key() for _ in range(keys)]
        self.infos = [self.info() for _ in range(tensors)]
        self.rest = data[self.at + -self.at % 32 :]

    def take(self, form: str) -> int:
        (number,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return int(number)

    def string(self) -> bytes:
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at]

    def key(self) -> Key:
        name, kind = self.string(), self.take("I")
        start = self.at
        self.skip(kind)
        return Key(name, kind, self.data[start : self.at])

    def skip(self, kind: int) -> None:
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip(inner)
        else:
            self.at += SIZES[kind]

    def info(self) -> Info:
        name = self.string()
        dims = [self.take("Q") for _ in range(self.take("I"))]
        return Info(name, dims, self.take("I"), self.take("Q"))

    def bytes(self, counts: tuple[int, int] | None = None) -> bytes:
        """The file again. counts: of tensors and keys, where others than there are"""
        told = counts or (len(self.infos), len(self.keys))
        out = bytearray(b"GGUF\3\0\0\0" + struct.pack("<QQ", *told))
        for name, kind, payload in self.keys:
            out += packed(name) + struct.pack("<I", kind % 2**32) + payload
        for name, dims, kind, offset in self.infos:
            out += (
                packed(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *(n % 2**64 for n in dims))
            )
            out += struct.pack("<IQ", kind % 2**32, offset % 2**64)
        return bytes(out) + b"\0" * (-len(out) % 32) + self.rest


def packed(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def gguf(rng: Random, data: bytes) -> bytes:
    """A GGUF file with other metadata, other tensors or other bytes."""
    kind = rng.random()
    if kind < 0.25:
        return m.raw_bytes(rng, data)
    held, counts = Gguf(data), None
    for _ in range(rng.choice([1, 1, 1, 2])):
        if kind < 0.7:
            change_key(rng, held)
        elif kind < 0.95:
            change_info(rng, held)
        else:
            counts = m.integer(rng, len(held.infos)) % 2**64, m.integer(rng, len(held.keys)) % 2**64
    return held.bytes(counts)


def change_key(rng: Random, held: Gguf) -> None:
    at = rng.randrange(len(held.keys))
    name, kind, payload = held.keys[at]
    match rng.randrange(8):
        case 0:
            del held.keys[at]
        case 1:
            held.keys.insert(at, held.keys[at])
        case 2:
            held.keys[at] = Key(m.raw_bytes(rng, name, 1), kind, payload)
        case 3:
            held.keys[at] = Key(name, rng.choice([*range(14), 2**32 - 1]), payload)
        case 4:
            new = rng.choice([4, 5, 10, 11])
            size = SIZES[new]
            held.keys[at] = Key(name, new, (m.integer(rng) % 2 ** (8 * size)).to_bytes(size, "little"))
        case 5:
            special = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e-45, 1e38])
            held.keys[at] = Key(name, 6, struct.pack("<f", special))
        case 6:
            text = rng.choice(m.TEXTS).encode("utf-8", "surrogatepass")
            held.keys[at] = Key(name, STRING, packed(text))
        case _:
            if kind in SIZES:
                size, number = SIZES[kind], rng.choice([m.integer(rng), rng.randrange(200)])
                held.keys[at] = Key(name, kind, (number % 2 ** (8 * size)).to_bytes(size, "little"))
            elif kind == ARRAY and rng.random() < 0.5:
                count = struct.unpack_from("<Q", payload, 4)[0]
                told = struct.pack("<Q", m.integer(rng, count) % 2**64)
                held.keys[at] = Key(name, kind, payload[:4] + told + payload[12:])
            else:
                held.keys[at] = Key(name, kind, m.raw_bytes(rng, payload, 1))


def change_info(rng: Random, held: Gguf) -> None:
    at = rng.randrange(len(held.infos))
    name, dims, kind, offset = held.infos[at]
    match rng.randrange(7):
        case 0:
            del held.infos[at]
        case 1:
            held.infos.insert(at, held.infos[at])
        case 2:
            held.infos[at] = Info(m.raw_bytes(rng, name, 1), dims, kind, offset)
        case 3:
            held.infos[at] = Info(name, dims, rng.choice([*range(41), 2**32 - 1]), offset)
        case 4:
            held.infos[at] = Info(name, dims, kind, m.integer(rng, offset) % 2**64)
        case 5:
            new = [m.integer(rng, n) if rng.random() < 0.5 else n for n in dims]
            held.infos[at] = Info(name, new, kind, offset)
        case _:
            held.infos[at] = Info(name, rng.choice([[], dims * 2, dims[:1], dims[::-1], [1, *dims]]), kind, offset)
