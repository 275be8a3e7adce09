"""`gnomon check-op`: one's own kernel against the contract, bit for bit."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

import typer

from gnomon.cli.options import JsonOption, present
from gnomon.cli.show import Output
from gnomon.compare.check_op import check_op, listed
from gnomon.reference.errors import UsageError


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="the op, such as rms_norm")] = None,
    kernel: Annotated[str | None, typer.Argument(metavar="KERNEL", help="module:function, or file.py:function")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="how many cases")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the inputs")] = 0,
    case: Annotated[str | None, typer.Option("--case", help="this case only, as a failing check printed it")] = None,
    framework: Annotated[
        str, typer.Option("--framework", help="of the arrays the kernel gets: numpy, mlx, cupy, torch")
    ] = "numpy",
    show_list: Annotated[bool, typer.Option("--list", help="show every op and how a kernel is called")] = False,
    as_json: JsonOption = False,
) -> int:
    """Call a kernel on awkward shapes and adversarial values; print the smallest case in which a bit differs."""
    if show_list:
        ops = [{"op": op, "arguments": arguments, "result": result} for op, arguments, result in listed()]
        print(json.dumps(ops) if as_json else "\n".join(f"{o['op']}({o['arguments']}) -> {o['result']}" for o in ops))
        return 0
    if name is None or kernel is None:
        raise UsageError("Expected an op and a kernel, such as rms_norm my_module:my_function, or --list")
    function = find(kernel)
    result = check_op(name, function, runs=runs, seed=seed, case=case, framework=framework, kernel_name=kernel)
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        Output(soft_wrap=True, markup=False).print(result.text())
    return result.exit_code


def find(kernel: str) -> Callable[..., Any]:
    """The function that "module:function" or "file.py:function" names; modules of the working directory are found too.

    Raises UsageError where there is none, or where importing its module fails.
    """
    module_name, _, attribute = kernel.rpartition(":")
    if not module_name or not attribute:
        raise UsageError(f"Expected a kernel as module:function or file.py:function but got {kernel!r}")
    if module_name.endswith(".py"):
        present("a Python file")(Path(module_name))
    try:
        module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_path(module_name)
    except Exception as error:
        raise UsageError(f"Expected a module {module_name!r} but importing it failed: {error!r}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise UsageError(f"Expected a function {attribute!r} in {module_name!r} but there is none")
    return cast(Callable[..., Any], function)


def _from_path(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gnomon_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
