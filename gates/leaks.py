"""What would tell on whose machine something ran: names of user and host, home folders."""

import getpass
import re
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import Path

# Names that many machines share: they tell nothing, and they are words of a text.
COMMON = frozenset(
    {
        *(
            "admin",
            "administrator",
            "app",
            "build",
            "builder",
            "ci",
            "container",
            "debian",
            "default",
            "docker",
            "fedora",
        ),
        *("gnomon", "guest", "home", "host", "local", "localhost", "localhost.localdomain", "mac", "macbook", "node"),
        *("numpy", "python", "root", "runner", "server", "test", "ubuntu", "user", "users", "vagrant", "work"),
    }
)
SHORTEST = 4  # a shorter name would be found inside of words
# Somebody's home, by the path alone. "user", "you" and "name" are what examples are made of.
HOME = re.compile(rb"(?:/home/|/Users/|[A-Z]:\\Users\\)(?!(?:you|user|name|me)\b)[A-Za-z0-9._-]+")


@cache
def names_of_this_machine() -> tuple[str, ...]:
    """User and host, unless they are common; the longest first."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        user = ""
    host = socket.gethostname()
    names = {user, host, host.partition(".")[0]}
    return tuple(sorted((n for n in names if len(n) >= SHORTEST and n.lower() not in COMMON), key=len, reverse=True))


@cache
def home_of_this_machine() -> str:
    """The home folder, unless it is one that machines share."""
    home = str(Path.home())
    return "" if home in ("/", "/root") else home


def private_names() -> tuple[str, ...]:
    """Everything that no file may hold."""
    return tuple(filter(None, (home_of_this_machine(), *names_of_this_machine())))


def traces_of(data: bytes, private: Iterable[str]) -> list[str]:
    """Which private names some bytes hold, and whose home folders."""
    homes = [match.group().decode("ascii") for match in HOME.finditer(data)]
    return homes + [name for name in private if by_itself(name).search(data)]


def scrubbed(text: str) -> str:
    """The text without home folders, host and user."""
    out = text.encode()
    for name in (str(Path.home()), *private_names()):
        if len(name) >= SHORTEST:
            out = by_itself(name).sub(b"~", out)
    return HOME.sub(b"~", out).decode("utf-8", "replace")


@cache
def by_itself(name: str) -> re.Pattern[bytes]:
    """The name, not inside of a longer word."""
    return re.compile(rb"(?<![A-Za-z0-9_])" + re.escape(name.encode()) + rb"(?![A-Za-z0-9_])", re.IGNORECASE)
