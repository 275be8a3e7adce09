"""Code of a user: an engine, an op or a kernel of one's own. Where it fails, the sentence says that it is theirs,
in which op and at which place, and shows the line in their file. gnomon's own ops are not wrapped and pay nothing."""

import functools
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from gnomon.reference.errors import GnomonError

PACKAGES = re.compile(r"[/\\](site|dist)-packages[/\\]")
named: set[str] = set()  # top-level modules that a command line named: the user's even where they are installed
# Ops whose result has the shape of one of their arrays: its place after `at`.
LIKE = {
    "rms_norm": 0, "layer_norm": 0, "l2_norm": 0, "rope": 0, "add": 0, "mul": 0, "silu": 0, "sigmoid": 0,
    "gelu_tanh": 0, "delta_decay": 0, "route": 0, "experts": 0, "causal_conv": 0, "delta_rule": 2,
    "attention": 0, "swiglu": 0, "gated_norm": 0,
}  # fmt: skip
BORDER = (
    "array", "numpy", "elementary", "with_forms", "devices", "describe", "new_cache", "export_cache", "load_cache",
    "copy_cache", "truncate_cache", "cache_nbytes", "finish",
)  # fmt: skip
OTHERS = (
    "pack", "embed", "embed_positions", "select", "linear", "split", "kv_append", "appended", "scores", "exp_scores",
    "denom", "mix",
)  # fmt: skip


class OwnCodeError(GnomonError):
    """The user's code raised, or gave what the contract has no use for. what: said of it, without the place

    step: the positions that were run, which the engine adds
    """

    def __init__(self, whose: str, what: str, where: str, frame: str) -> None:
        super().__init__(whose, what, where, frame)
        self.whose, self.what, self.where, self.frame, self.step = whose, what, where, frame, ""

    def __str__(self) -> str:
        place = ", ".join(filter(None, (self.where and f"in {self.where}", self.step)))
        return f"{self.whose} {self.what} ({'; '.join(filter(None, (place, self.frame)))})"


def is_own(frame: FrameType) -> bool:
    """Whether a frame is of the user's code: neither of gnomon nor of Python nor of an installed library."""
    root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if root == "gnomon" or root in sys.stdlib_module_names:
        return False
    file = frame.f_code.co_filename
    return root in named or not (file.startswith("<frozen") or PACKAGES.search(file))


def own_frame(error: BaseException) -> str:
    """The innermost line of the user's code that an error came from, as `shown` gives it; "" where there is none."""
    if isinstance(error, SyntaxError) and error.filename and not PACKAGES.search(error.filename):
        return shown(error.filename, error.lineno or 1, "", error.text)
    found, at = "", error.__traceback__
    while at is not None:
        if is_own(at.tb_frame):
            found = shown(at.tb_frame.f_code.co_filename, at.tb_lineno, at.tb_frame.f_code.co_name)
        at = at.tb_next
    return found


def shown(file: str, line: int, name: str, text: str | None = None) -> str:
    """file:line, the function and the source line, in one line."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        file = str(path.relative_to(Path.cwd()))
    source = (text or linecache.getline(str(path), line)).strip()
    function = f" in {name}" if name not in ("", "<module>") else ""
    return f"{file}:{line}{function}" + (f": {source}" if source else "")


def said(error: BaseException) -> str:
    """The type of an error and the first line of what it says."""
    lines = str(error).strip().splitlines() or [""]
    name = type(error).__name__
    return f"{name}: {lines[0][:300]}" if lines[0] else name


def failed(whose: str, error: BaseException, where: str = "", called: Callable[..., Any] | None = None) -> OwnCodeError:
    """The sentence for an error of the user's code. called: what stands for it where no line of it was reached"""
    frame = own_frame(error) or (defined(called) if called else "")
    return OwnCodeError(whose, f"raised {said(error)}", where, frame)


def guard(engine: Any) -> None:
    """Let every op of an engine's table that is the user's own answer for itself; again for one replaced since."""
    for op in (*LIKE, *OTHERS, *BORDER):
        method = getattr(engine.ops, op, None)
        if method is not None and not hasattr(method, "guarded") and _of_user(method):
            setattr(engine.ops, op, _guarded(engine, op, method))


def _of_user(method: Callable[..., Any]) -> bool:
    return str(getattr(method, "__module__", None)).partition(".")[0] != "gnomon"


def _guarded(engine: Any, op: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        where = _place(op, args[0] if args else kwargs.get("at", ""))
        try:
            result = method(*args, **kwargs)
        except GnomonError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(engine.name, error, where, method) from error
        fault = _wrong(op, result, args[1:], kwargs, engine.outputs)
        if fault is not None:
            raise OwnCodeError(engine.name, f"returned {fault[0]} where {fault[1]} is due", where, defined(method))
        return result

    call.guarded = True  # type: ignore[attr-defined]
    return call


def _place(op: str, first: Any) -> str:
    """Where an op stands: the name of its result, or of the weight that it packs."""
    if op in BORDER or not first:
        return op
    return f"{op} at {first.name if op == 'pack' else first if isinstance(first, str) else ', '.join(first)}"


def defined(method: Callable[..., Any]) -> str:
    """The first line of a function, as `shown` gives it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return shown(code.co_filename, code.co_firstlineno, code.co_name) if isinstance(code, CodeType) else repr(method)


def _wrong(
    op: str, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Mapping[int, int]
) -> tuple[str, str] | None:
    """What is wrong with a result, in words: got, wanted. Arrays are of any kind that has a shape and a dtype."""
    given = (*args, *kwargs.values())
    first = next((a for a in _flat(given) if _array(a)), None)
    if op in ("pack", "kv_append", "appended", *BORDER) or first is None:
        return None
    if op in ("scores", "exp_scores", "denom"):
        fine = isinstance(result, list) and all(map(_array, result))
        return None if fine else (_word(result), "a list of arrays, one per sequence of the step")
    if op == "split":
        sizes, heads = args[1], args[2] if len(args) > 2 else kwargs.get("heads", 1)
        wanted = [(first.shape[0], heads * size) for size in sizes]
        fine = isinstance(result, list) and [tuple(getattr(r, "shape", ())) for r in result] == wanted
        return None if fine else (_word(result), f"a list of arrays {[list(w) for w in wanted]}")
    shape: list[int | str] = ["rows", "width"]
    if op in LIKE:
        first = given[LIKE[op]]
        shape = list(first.shape)
    elif op == "linear":
        shape = [first.shape[0], outputs.get(id(given[1]), "width")]
    fits = _array(result) and len(result.shape) == len(shape) and result.dtype == first.dtype
    if fits and all(isinstance(n, str) or n == got for n, got in zip(shape, result.shape, strict=True)):
        return None
    return _word(result), f"{_kind(first)} [{', '.join(map(str, shape))}]"


def _flat(given: Sequence[Any]) -> Iterator[Any]:
    for one in given:
        yield from one if isinstance(one, list) else (one,)


def _array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _kind(x: Any) -> str:
    return f"{type(x).__name__} {x.dtype}"


def _word(x: Any) -> str:
    return f"{_kind(x)} {list(x.shape)}" if _array(x) else type(x).__name__
