"""The source checkout, where there is one: its files, its commit."""

import subprocess
import tomllib
from functools import cache
from pathlib import Path

from gnomon import gates
from gnomon.gates.gate import Files


@cache
def root() -> Path | None:
    """The checkout that this folder lies in, or else the one that this process was started in."""
    for start in (Path(gates.__file__).resolve(), Path.cwd() / "here"):
        for folder in start.parents:
            if (folder / ".git").exists() and project(folder) == "gnomon":
                return folder
    return None


def project(folder: Path) -> str:
    """The name in its pyproject.toml."""
    try:
        with (folder / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["name"])
    except (OSError, ValueError, KeyError):
        return ""


def git(*words: str) -> bytes:
    """What git prints about the checkout; empty where git or checkout are missing."""
    folder = root()
    if folder is None:
        return b""
    try:
        run = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return b""
    return run.stdout


def files() -> Files | None:
    """Tracked files by path; None outside of a checkout. What a user leaves beside them is no concern of ours."""
    folder = root()
    listed = git("ls-files", "-z").decode().split("\0")
    if folder is None or not any(listed):
        return None
    return {name: (folder / name).read_bytes() for name in sorted(filter(None, listed)) if (folder / name).is_file()}


def commit() -> dict[str, str]:
    """Commit and dirty flag, or nothing."""
    head = git("rev-parse", "HEAD").decode().strip()
    if not head:
        return {}
    return {"commit": head, "dirty": "yes" if git("status", "--porcelain").strip() else "no"}
