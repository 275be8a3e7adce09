"""State files opened up, changed in their header and closed again, beside the code under test."""

import json
from collections.abc import Callable
from typing import Any


def parsed(data: bytes) -> Any:
    """The header of a file."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def with_header(data: bytes, change: Callable[[dict[str, Any]], Any], text: str | None = None) -> bytes:
    """The file with another header: parsed, changed in place, written again, padded as it should be."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    change(header)
    raw = (text or json.dumps(header, separators=(",", ":"))).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data[start:]


def metadata(**fields: Any) -> Callable[[bytes], bytes]:
    """The change that gives fields of the metadata these values."""
    return lambda data: with_header(data, lambda header: header["__metadata__"].update(fields))


def entry(name: str, **fields: Any) -> Callable[[bytes], bytes]:
    """The change that gives fields of one tensor these values."""
    return lambda data: with_header(data, lambda header: header[name].update(fields))
