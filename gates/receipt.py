"""Receipts: what was found, by what, on what, as lines of a hash chain (reference/chain.py).

    {"type": "run", "what", "gnomon", "source_sha256", "checkout", "environment", "packages"}
    {"type": "model", "name", "weights_sha256", "config" | "absent"}    one for each model that gates run; config: the
                                                                        fields that touch arithmetic
    {"type": "engine", "name", "settings" | "absent", "probe"}          one for each engine; read back from what runs
    {"type": "gate", "gate", "engine", "verdict", "required", "detail", "figures", "header_sha256"}
    {"type": "summary", "verdict", "exit_code", "counts", "engines", "absent"}
    {"end", "reason", "prev", "hash"}                                   the chain's own; signed where a key is given

No line holds a user, a home folder, a host name or an environment variable: every text goes through `leaks.scrubbed`.
"""

import hashlib
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from gnomon import gates
from gnomon.gates import checkout
from gnomon.gates.leaks import scrubbed
from gnomon.reference.chain import Chain, Record
from gnomon.reference.chain import write as write_chain
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.strict_json import read_bytes

PACKAGES = ("numpy", "mlx", "cupy-cuda12x", "cupy-rocm-7-0", "tokenizers", "safetensors", "gguf", "regex", "mpmath")
FOLDERS = ("reference", "models", "decode", "gpu", "compare", "serve", "gates")


def write(path: Path, summary: Record, described: list[Record], key: bytes | None = None) -> str:
    """Write the receipt of a run aside, then in place. Returns the public key in hexadecimal, or "" without a key.

    summary: with its results; described: the records of models and engines
    """
    chain = Chain()
    chain.append(scrub(run_record(str(summary["what"]))))
    for record in described:
        chain.append(scrub(record))
    for result in summary["results"]:
        chain.append(scrub({"type": "gate", **result}))
    chain.append(scrub({name: value for name, value in summary.items() if name != "results"}))
    chain.close(str(summary["verdict"]), key)
    write_chain(path, chain)
    return "" if key is None else public_key(key)


def run_record(what: str) -> Record:
    """What ran, and on what."""
    return {
        "type": "run",
        "what": what,
        "gnomon": installed("gnomon"),
        "source_sha256": source_digest(),
        "checkout": checkout.commit(),
        "environment": environment(),
        "packages": {name: installed(name) for name in PACKAGES if installed(name)},
    }


def environment() -> dict[str, str]:
    """Interpreter, its compiler, operating system with its build, processor. No name of a machine."""
    mac = platform.mac_ver()[0]
    return {
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "system": platform.system(),
        "release": platform.release(),
        "build": f"macOS {mac}" if mac else f"{distribution()} {platform.version()}".strip(),
        "machine": platform.machine(),
        "processor": processor(),
        "byte_order": sys.byteorder,
    }


def distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def processor() -> str:
    """The name of the CPU, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def source_digest() -> str:
    """SHA-256 over path and bytes of every module that makes a verdict, as it is installed here."""
    total = hashlib.sha256()
    top = {folder: Path(gates.__file__).parent.parent / folder for folder in FOLDERS}
    top["api"] = Path(str(files("gnomon")))
    for name, folder in sorted(top.items()):
        if not folder.is_dir():
            continue
        for file in sorted(folder.rglob("*.py")):
            if name == "api" and file.relative_to(folder).parts[0] in FOLDERS:
                continue  # an installed wheel nests the other folders in this one
            data = file.read_bytes()
            total.update(f"{name}/{file.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return total.hexdigest()


def scrub(record: Record) -> Record:
    """The record with every text, keys included, freed of private names."""
    cleaned: Record = _scrub(record)
    return cleaned


def _scrub(value: Any) -> Any:
    if isinstance(value, dict):
        return {scrubbed(str(key)): _scrub(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(inner) for inner in value]
    return scrubbed(value) if isinstance(value, str) else value


def read_key(path: Path) -> bytes:
    """An Ed25519 private key: a file of 64 hexadecimal digits. Raises UsageError."""
    try:
        key = bytes.fromhex(read_bytes(path).decode("ascii").strip())
    except (ModelError, ValueError) as error:
        raise UsageError(f"Expected a key file of 64 hexadecimal digits but reading it failed: {error}") from error
    if len(key) != 32:
        raise UsageError(f"Expected a key file of 64 hexadecimal digits but got {2 * len(key)} digits")
    return key


def public_key(key: bytes) -> str:
    """The public half, in hexadecimal."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw().hex()
