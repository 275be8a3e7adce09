"""Functions of one's own, by the name that a command line gives them."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from gnomon.reference import own_code


def function(name: str) -> Callable[..., Any]:
    """What "package.module:function" or "file.py:function" names; modules of the working directory are found too.

    Raises ImportError where there is no such module or nothing to call in it, and whatever importing it raises.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute or "\0" in name or module_name.startswith("."):
        raise ImportError("it is not of the form package.module:function or file.py:function")
    own_code.named.add(module_name.partition(".")[0])
    module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_path(module_name)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise ImportError(f"there is no function {attribute!r} in {module_name!r}")
    return cast(Callable[..., Any], found)


def _from_path(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def _from_file(path: Path) -> ModuleType:
    if not os.path.isfile(path):
        raise ImportError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"gnomon_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
