"""How to get what is not installed: in words that work where this copy of gnomon came from."""

import json
from importlib.metadata import PackageNotFoundError, distribution


def install(extra: str) -> str:
    """The command that installs an extra of gnomon, for a message."""
    return f"pip install '{source()}[{extra}]'" + (" in the checkout" if source() == "." else "")


def source() -> str:
    """What pip would have to be given: "." where gnomon was installed from a folder, as from a checkout."""
    try:
        told = distribution("gnomon").read_text("direct_url.json")  # pip writes it for all that is not from an index
        return "." if told is None or "dir_info" in json.loads(told) else str(json.loads(told)["url"])
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return "."
