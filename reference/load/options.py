"""The options of a config file, read one by one; what is left must be known to change no arithmetic."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from gnomon.reference.errors import ModelError
from gnomon.reference.strict_json import show

T = TypeVar("T")

MAX_LAYERS = 4096  # refuses a file that asks for billions before a name is made for each


class Options:
    """given: names and values; where: the file they stand in; prefix: what the file puts before each name

    A reader takes the options it understands. `refuse_rest` then judges those nobody took.
    """

    def __init__(self, given: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.left = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
        self.where = where
        self.prefix = prefix

    def take(self, key: str) -> Any:
        """The value as it stands; None where it is null or left out."""
        return self.left.pop(key, None)

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; without a default the option is required, and null counts as left out."""
        value = self.integer_or_none(key)
        value = default if value is None else value
        if value is None:
            raise self.wrong(key, value, "an integer")
        return value

    def integer_or_none(self, key: str, default: int | None = None) -> int | None:
        """A whole number, or None where the file says null or, without a default, nothing."""
        value = self.left.pop(key, default)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise self.wrong(key, value, "an integer")
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number from 1 to 2^31 - 1; without a default the option is required."""
        value = self.integer(key, default)
        if not 1 <= value < 1 << 31:
            raise self.wrong(key, value, "a positive integer below 2^31")
        return value

    def items(self, key: str, kind: type[T], default: list[T] | None = None) -> list[T]:
        """A list whose items are all of type `kind`."""
        value = self._take(key, default)
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise self.wrong(key, value, f"a list of {kind.__name__}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number, as float."""
        value = self._take(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not -1e308 < value < 1e308:
            raise self.wrong(key, value, "a finite number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false"""
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def text(self, key: str) -> str:
        """A string; required."""
        value = self._take(key, None)
        if not isinstance(value, str):
            raise self.wrong(key, value, "a string")
        return value

    def wrong(self, key: str, value: object, expected: str) -> ModelError:
        """The error for an option whose value cannot be used."""
        if value is None:
            return ModelError(f"Expected {self.prefix}{key} in {self.where} but it is missing")
        return ModelError(f"Expected {expected} in {self.where} but got {self.prefix}{key}={show(value)}")

    def layers(self, key: str) -> int:
        """The number of layers, small enough that one may make a list of them."""
        value = self.integer(key)
        if not 1 <= value <= MAX_LAYERS:
            raise self.wrong(key, value, f"1 to {MAX_LAYERS} layers")
        return value

    def refuse_rest(self, neutral: Mapping[str, Any], harmless: Collection[str] = ()) -> None:
        """Raises ModelError, by name, for the first option nobody took, unless it

        is null, is in `harmless` (whatever its value), or has the value that `neutral` lists.
        """
        for key, value in self.left.items():
            if value is None or key in harmless or (key in neutral and value == neutral[key]):
                continue
            if key in neutral:
                raise self.wrong(key, value, f"{self.prefix}{key}={neutral[key]!r}")
            raise ModelError(
                f"Expected only options that the contract covers but {self.where} sets "
                f"{show(self.prefix + key)[1:-1]}={show(value)}"
            )

    def _take(self, key: str, default: Any) -> Any:
        value = self.left.pop(key, None)
        return default if value is None else value


def head_width(width: int, heads: int) -> int:
    """Width of a head where the file does not name it."""
    if heads < 1 or width % heads:
        raise ModelError(
            f"Expected the width to be a multiple of the number of heads but got width={width}, heads={heads}"
        )
    return width // heads
