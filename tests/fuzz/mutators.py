"""Changes to bytes, to JSON and to text. Every choice comes from the generator that is passed."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

LIMITS = (2**31, 2**32, 2**53, 2**63, 2**64)
INTS = [
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    65_536,
    *(n + d for n in LIMITS for d in (-1, 0, 1)),
    -(2**31) - 1,
    -(2**63) - 1,
    10**30,
    10**400,
]
FLOATS = [0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-45, 1e-300, 1e38, 1e39, 1e308]
TEXTS = [
    "", " ", "x", "0", "1", "-1", "none", "\0", "\ud800", "\udcff", "\u202e", "\U0001f600", "[bold]x[/]", "[/]", "../x",
    "/", "x" * 300, "x" * 70_000, "{{ x }}", "f32", "bf16", "int8", "nan", "1e999", "0" * 64, "g" * 64,
    "\n", "{i}", "a\tb",
]  # fmt: skip
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, [1, "1"]]
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999", "-0", "-0.0", "01", "1.", "1.0", "1E2", "9" * 5000,
    "[" * 100 + "]" * 100, "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, '"\\ud800"', '"\\u0000"', "",
    "tru", "'x'", "[1,]", '{"a":1,"a":2}', '"\t"', "// x", "null null",
]  # fmt: skip
RAWS = re.compile(r'"\\ue001([0-9]+)\\ue001"')
TWICE = "\ue000"  # ends a key that is to stand there twice


def integer(rng: Random, value: int | None = None) -> int:
    """A number at a limit of something, or near `value`."""
    if value is None or rng.random() < 0.6:
        return rng.choice(INTS)
    return rng.choice([value + 1, value - 1, -value, value * 2, value + 2**32, value + 2**31, value * 2**32])


def scalar(rng: Random) -> Any:
    """Any value of JSON, or one that only looks like it."""
    kind = rng.random()
    if kind < 0.3:
        return integer(rng)
    if kind < 0.45:
        return rng.choice(FLOATS)
    if kind < 0.65:
        return rng.choice(TEXTS)
    if kind < 0.8:
        return rng.choice(OTHERS)
    return raw(rng)


def raw(rng: Random) -> str:
    """Stands for text that is put into the JSON as it is."""
    return f"\ue001{rng.randrange(len(RAW))}\ue001"


def dumps(tree: Any, **options: Any) -> str:
    """JSON of a mutated tree, with its raw parts and its repeated keys."""
    text = RAWS.sub(lambda found: RAW[int(found[1]) % len(RAW)], json.dumps(tree, **options))
    return text.replace("\\ue000", "")


def tree(rng: Random, root: Any, changes: int | None = None) -> Any:
    """A copy of parsed JSON with some changes; keys whose value is picked more often are nearer to the root."""
    root = json.loads(json.dumps(root))
    for _ in range(changes or rng.choice([1, 1, 1, 1, 2, 3])):
        root = changed(rng, root)
    return root


def changed(rng: Random, root: Any) -> Any:
    """One change, in place where there is a place."""
    holder, key = root, None
    while isinstance(holder, dict | list) and len(holder):
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not len(inner) or rng.random() < 0.3:
            break
        holder = inner
    if key is None:
        return scalar(rng)
    rng.choice([value, value, value, like, like, like, drop, repeat, rename, wrap, other, extra, reorder])(
        rng, holder, key
    )
    return root


def value(rng: Random, holder: Any, key: Any) -> None:
    holder[key] = scalar(rng)


def like(rng: Random, holder: Any, key: Any) -> None:
    """Another value of the same type."""
    old = holder[key]
    if type(old) is int:
        holder[key] = integer(rng, old)
    elif isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, float):
        holder[key] = rng.choice([*FLOATS, -old, old * 2, old + 1])
    elif isinstance(old, str):
        holder[key] = text(rng, old) if rng.random() < 0.5 else rng.choice(TEXTS)
    elif isinstance(old, list) and old:
        holder[key] = rng.choice([old[:-1], old + old[-1:], old[::-1], old * 2, old[:1], [old]])
    else:
        holder[key] = scalar(rng)


def drop(rng: Random, holder: Any, key: Any) -> None:
    del holder[key]


def repeat(rng: Random, holder: Any, key: Any) -> None:
    """The same key or the same item again."""
    if isinstance(holder, dict):
        holder[f"{key}{TWICE}"] = rng.choice([holder[key], scalar(rng)])
    else:
        holder.insert(key, holder[key])


def rename(rng: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[rng.choice([rng.choice(TEXTS), key + "x", key.upper(), key[:-1]])] = holder.pop(key)
    else:
        holder[key] = rng.choice(holder)


def wrap(rng: Random, holder: Any, key: Any) -> None:
    holder[key] = rng.choice([[holder[key]], {"x": holder[key]}, str(holder[key])])


def other(rng: Random, holder: Any, key: Any) -> None:
    """The value of another place."""
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    holder[key] = holder[rng.choice(keys)]


def extra(rng: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = scalar(rng)
    else:
        holder.append(scalar(rng))


def reorder(rng: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        items = list(holder.items())
        rng.shuffle(items)
        holder.clear()
        holder.update(items)
    else:
        rng.shuffle(holder)


def text(rng: Random, old: str) -> str:
    """A text with something cut, put in or repeated."""
    a, b = sorted(rng.randrange(len(old) + 1) for _ in range(2))
    put = rng.choice(TEXTS)
    return rng.choice([old[:a] + old[b:], old[:a] + put + old[a:], old[:b] + old[a:], old.upper(), old[:a], old + "\n"])


def raw_bytes(rng: Random, data: bytes, changes: int | None = None) -> bytes:
    """Some changes that know nothing of a format."""
    out = bytearray(data)
    for _ in range(changes or rng.choice([1, 1, 1, 2, 4])):
        at = min(rng.choice([rng.randrange(64), rng.randrange(2048), rng.randrange(len(out) + 1)]), len(out))
        length = rng.choice([1, 2, 4, 8, 16, 64, 300])
        rng.choice(BYTES)(rng, out, at, length)
    return bytes(out)


def flip(rng: Random, out: bytearray, at: int, length: int) -> None:
    if at < len(out):
        out[at] ^= 1 << rng.randrange(8)


def cut(rng: Random, out: bytearray, at: int, length: int) -> None:
    del out[at : at + length]


def insert(rng: Random, out: bytearray, at: int, length: int) -> None:
    out[at:at] = rng.randbytes(length)


def double(rng: Random, out: bytearray, at: int, length: int) -> None:
    out[at:at] = out[at : at + length]


def zeros(rng: Random, out: bytearray, at: int, length: int) -> None:
    out[at : at + length] = b"\0" * len(out[at : at + length])


def ones(rng: Random, out: bytearray, at: int, length: int) -> None:
    out[at : at + length] = b"\xff" * len(out[at : at + length])


def number(rng: Random, out: bytearray, at: int, length: int) -> None:
    """A limit of something as a number of 4 or 8 bytes."""
    size = rng.choice([4, 8])
    out[at : at + size] = (integer(rng) % (1 << 8 * size)).to_bytes(size, "little")


def end(rng: Random, out: bytearray, at: int, length: int) -> None:
    """Nothing follows, or more does."""
    if rng.random() < 0.5:
        del out[at:]
    else:
        out += rng.choice([b"\0", b"\n", b"{}", b"\xff", rng.randbytes(length)])


def swap(rng: Random, out: bytearray, at: int, length: int) -> None:
    to = rng.randrange(len(out) + 1)
    out[at : at + length], out[to : to + length] = out[to : to + length], out[at : at + length]


BYTES: list[Callable[[Random, bytearray, int, int], None]] = [
    flip, flip, cut, insert, double, zeros, ones, number, number, end, swap,
]  # fmt: skip


def json_text(rng: Random, data: bytes) -> bytes:
    """A file of JSON, mutated in its structure or as bytes."""
    if rng.random() < 0.2:
        return raw_bytes(rng, data)
    return dumps(tree(rng, json.loads(data)), ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")


def json_lines(rng: Random, data: bytes) -> bytes:
    """Lines of JSON, mutated in one of them, in their order or as bytes."""
    if rng.random() < 0.15:
        return raw_bytes(rng, data)
    lines = data.decode().splitlines()
    at = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.75:
        lines[at] = dumps(tree(rng, json.loads(lines[at])))
    elif kind < 0.85:
        del lines[at]
    else:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice([lines[at], "", " ", "null", "[]", "{}", "\ufeff{}"]))
    return ("\n".join(lines) + rng.choice(["\n", "\n", "\n", "", "\r\n"])).encode("utf-8", "surrogatepass")
