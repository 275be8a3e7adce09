"""What the table of kernels for GPUs is made of: a kernel, its arguments, and the C declarations they are read from."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from gnomon.reference.errors import ModelError

LANES = 64  # threads of a part
LEAST = 8  # elements that every array has room for: MLX moves a smaller one into another address space

Sizes = Mapping[str, int]
Role = Literal["in", "out", "inout", "scalar"]


@dataclass(frozen=True)
class Argument:
    """type: of a scalar, or of what a pointer points to; span: one per sequence of the step, not one for all"""

    name: str
    type: str
    role: Role
    span: bool = False

    @property
    def pointer(self) -> bool:
        return self.role != "scalar"


@dataclass(frozen=True)
class Kernel:
    """function, values: what is called with which arguments; task, part, room and lane follow

    tasks: groups, from the scalars by name and `rows`; of a kernel with span arguments, for the longest span
    parts: of 64 threads each; room: floats shared by a group; most: the largest value of a scalar that fits into them
    """

    name: str
    arguments: tuple[Argument, ...]
    function: str
    values: str
    tasks: Callable[[Sizes], int]
    parts: int = 1
    room: int = 0
    most: tuple[str, int] | None = None

    @property
    def threads(self) -> int:
        return LANES * self.parts

    @property
    def spans(self) -> bool:
        return any(a.span for a in self.arguments)

    def named(self, *roles: Role) -> list[Argument]:
        return [a for a in self.arguments if a.role in roles]

    def groups(self, sizes: Sizes) -> int:
        """How many groups to launch. Raises ModelError for a size that a group has no room for."""
        if self.most is not None and sizes[self.most[0]] > self.most[1]:
            name, limit = self.most
            raise ModelError(f"Expected {name} of {self.name} to be at most {limit} on a GPU but got {sizes[name]}")
        return self.tasks(sizes)


def arguments(signature: str) -> tuple[Argument, ...]:
    """From C declarations: `const T* x` is read, `T* x` written, `inout T* x` both; `span` stands before what every
    sequence has for itself."""
    out = []
    for text in signature.split(","):
        found = re.fullmatch(r"\s*(span )?(inout )?(const )?(\w+)(\*?) (\w+)\s*", text)
        if found is None:
            raise ValueError(f"Expected a declaration but got {text!r}")
        span, inout, const, kind, star, name = found.groups()
        role: Role = "scalar" if not star else "inout" if inout else "in" if const else "out"
        out.append(Argument(name, kind, role, bool(span)))
    return tuple(out)
