"""`gnomon check-op`: one's own kernel against the contract, bit for bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli.options import ArmOption, JsonOption, present
from gnomon.cli.show import Output
from gnomon.compare.check_op import check_op, listed
from gnomon.compare.op_forms import SCALES
from gnomon.imported import function
from gnomon.reference.errors import UsageError
from gnomon.reference.own_code import failed, own_frame


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="the op, such as rms_norm")] = None,
    kernel: Annotated[str | None, typer.Argument(metavar="KERNEL", help="module:function, or file.py:function")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="how many cases")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the inputs")] = 0,
    case: Annotated[str | None, typer.Option("--case", help="this case only, as a failing check printed it")] = None,
    framework: Annotated[
        str, typer.Option("--framework", help="of the arrays the kernel gets: numpy, mlx, cupy, torch")
    ] = "numpy",
    arm: ArmOption = "f32",
    weights: Annotated[
        str,
        typer.Option("--weights", help=f"of linear, as stored: {', '.join(SCALES)}"),
    ] = "",
    show_list: Annotated[bool, typer.Option("--list", help="show every op and how a kernel is called")] = False,
    as_json: JsonOption = False,
) -> int:
    """Call a kernel on awkward shapes and adversarial values; print the smallest case in which a bit differs."""
    if show_list:
        ops = [{"op": op, "arguments": arguments, "result": result} for op, arguments, result in listed(arm, weights)]
        print(json.dumps(ops) if as_json else "\n".join(f"{o['op']}({o['arguments']}) -> {o['result']}" for o in ops))
        return 0
    if name is None or kernel is None:
        raise UsageError("Expected an op and a kernel, such as rms_norm my_module:my_function, or --list")
    function = find(kernel)
    result = check_op(
        name, function, runs=runs, seed=seed, case=case, framework=framework, kernel_name=kernel,
        arm=arm, weights=weights,
    )  # fmt: skip
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        Output(soft_wrap=True, markup=False).print(result.text())
    return result.exit_code


def find(kernel: str) -> Callable[..., Any]:
    """The function that "module:function" or "file.py:function" names; modules of the working directory are found too.

    Raises UsageError where there is none, OwnCodeError where importing its module fails.
    """
    module_name, _, attribute = kernel.rpartition(":")
    if not module_name or not attribute:
        raise UsageError(f"Expected a kernel as module:function or file.py:function but got {kernel!r}")
    if module_name.endswith(".py"):
        present("a Python file")(Path(module_name))
    try:
        return function(kernel)
    except ImportError as error:
        at = f" ({own_frame(error)})" * bool(own_frame(error))
        raise UsageError(f"Expected a kernel at {kernel!r} but importing it failed: {error}{at}") from error
    except (Exception, SystemExit) as error:
        raise failed(kernel, error, "its import") from error
