"""The kernels compiled for this machine, on first use, by the C++ compiler that is found. Nothing is ever rebuilt in
silence: the name of a library is the digest of its sources, flags, compiler and target."""

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from gnomon.reference.aside import write_aside
from gnomon.reference.errors import NotRunError, UsageError

COMPILERS = ("c++", "g++", "clang++")
FLAGS = (
    "-std=c++20", "-O3",
    "-ffp-contract=off",  # the contract: a product that feeds a sum is rounded first
    "-fno-math-errno", "-fno-trapping-math",  # a square root is one instruction, a select has no branch; no bit moves
    "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas",
)  # fmt: skip
WIDE = "-mprefer-vector-width=512"  # of x86 alone


@dataclass(frozen=True)
class Compiler:
    """command: how it is called; version: what it says of itself; target: digest of what its target defines"""

    command: tuple[str, ...]
    version: str
    target: str


@dataclass(frozen=True)
class Built:
    """A library in this process, and the evidence of what it is."""

    library: ctypes.CDLL
    path: Path
    compiler: Compiler
    flags: tuple[str, ...]
    sources: str  # SHA-256


def missing() -> str | None:
    """Why nothing can be compiled here, or None where a compiler is found and what it makes can be kept."""
    try:
        compiler()
        cache_folder()
    except NotRunError as error:
        return str(error)
    return None


@cache
def compiler(command: str | None = None) -> Compiler:
    """The compiler `command` or GNOMON_CXX names, else the first found of c++, g++, clang++ and the ziglang wheel.

    Raises NotRunError where there is none.
    """
    wanted = command or os.environ.get("GNOMON_CXX")
    for name in (wanted,) if wanted else COMPILERS:
        if shutil.which(name.split()[0]):
            return describe(tuple(name.split()))
    if wanted:
        raise NotRunError(f"Expected a C++ compiler {wanted!r} but there is no such program; set GNOMON_CXX to another")
    if importlib.util.find_spec("ziglang"):
        return describe((sys.executable, "-m", "ziglang", "c++"))
    raise NotRunError(
        "Expected a C++ compiler (c++, g++ or clang++) but none is found; install one (apt install g++, "
        "xcode-select --install) or pip install ziglang"
    )


def describe(command: tuple[str, ...]) -> Compiler:
    version = next(iter(run((*command, "--version")).splitlines()), "")
    return Compiler(command, version, hashlib.sha256(macros(command).encode()).hexdigest())


def march(command: tuple[str, ...]) -> tuple[str, ...]:
    """What the command names as its target by -march or -mcpu, else this CPU."""
    return tuple(word for word in command if word.startswith(("-march=", "-mcpu="))) or ("-march=native",)


@cache
def macros(command: tuple[str, ...]) -> str:
    """What the compiler defines for its target."""
    return run((*command, *march(command), "-dM", "-E", "-x", "c++", os.devnull))


def run(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-300:])
        raise NotRunError(f"Expected {' '.join(command[:2])} to compile the kernels but it failed: {first}")
    return done.stdout


def kernel_sources() -> dict[str, str]:
    """Every file of gpu/kernels by name."""
    folder = files("gnomon.gpu") / "kernels"
    return {
        f.name: f.read_text("ascii")
        for f in sorted(folder.iterdir(), key=lambda f: f.name)
        if f.name[-2:] in (".h", "pp")
    }


def kernel_number(file: str, name: str) -> int:
    """What a file of gpu/kernels defines a name as: such a number stands there alone."""
    text = (files("gnomon.gpu") / "kernels" / file).read_text("ascii")
    found = re.search(rf"^#define {name} (\d+)\b", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"Expected a number {name} in kernels/{file} but it defines none")
    return int(found[1])


def build(main: str, sources: dict[str, str], extra: tuple[str, ...] = (), cxx: str | None = None) -> Built:
    """Compile `main` beside `sources` into a library, or load the one made before.

    extra: flags added at the end; cxx: the compiler, else the default one
    Raises NotRunError where there is no compiler or it fails.
    """
    found = compiler(cxx)
    wide = "-mavx512f" in extra or "__AVX512F__" in macros(found.command)
    flags = (*march(found.command), *FLAGS, *((WIDE,) if wide else ()), *extra)
    digest = hashlib.sha256("\0".join([main, *(f"{n}\0{t}" for n, t in sources.items())]).encode()).hexdigest()
    key = hashlib.sha256("\0".join([digest, *flags, *found.command, found.version, found.target]).encode()).hexdigest()
    path = cache_folder() / f"host-{key[:32]}.so"
    try:
        with locked(path):
            if not whole(path):
                compile_aside(main, sources, (*found.command, *flags), path)
    except (OSError, UsageError) as error:
        raise NotRunError(f"Expected to keep compiled kernels in {str(path.parent)!r} but got: {error}") from error
    return Built(ctypes.CDLL(str(path)), path, found, flags, digest)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process compiles a library, the others wait for it."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_aside(main: str, sources: dict[str, str], command: tuple[str, ...], path: Path) -> None:
    """Written aside and renamed: a library is whole or absent."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        for name, text in {**sources, "main.cpp": main}.items():
            (Path(folder) / name).write_text(text)
        made = Path(folder) / "made.so"
        run((*command, str(Path(folder) / "main.cpp"), "-o", str(made)))
        if not made.exists():
            raise NotRunError(f"Expected {' '.join(command[:1])} to compile the kernels but it made no library")
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        made.replace(path)
        write_aside(path.with_suffix(".sha256"), [digest.encode()])


def whole(path: Path) -> bool:
    """Whether a library is what was compiled: to load half of one ends the process."""
    try:
        digest = path.with_suffix(".sha256").read_text("ascii")
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except (OSError, UnicodeDecodeError):
        return False


@cache
def spare_folder() -> Path:
    """One temporary folder a process."""
    return Path(tempfile.mkdtemp(prefix="gnomon-"))


def cache_folder() -> Path:
    """GNOMON_CACHE, else the user's cache folder, else a temporary one where that cannot be written."""
    chosen = os.environ.get("GNOMON_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnomon"
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base
    except OSError as error:
        if chosen:
            raise NotRunError(
                f"Expected to write into GNOMON_CACHE={chosen} but it failed: {error.strerror}"
            ) from error
        return spare_folder()
