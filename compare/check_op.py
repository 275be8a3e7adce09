"""One's own kernel against the definition: awkward shapes, adversarial values, and the smallest case that fails."""

import random
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import bits
from gnomon.compare.frameworks import FRAMEWORKS, Border, border
from gnomon.compare.mismatch import mismatch
from gnomon.compare.op_cases import KINDS, Case, plant_nan, read_case, sequence, values
from gnomon.compare.op_forms import PRODUCTS, form
from gnomon.compare.op_table import OPS, OpUnderTest
from gnomon.compare.words import counted
from gnomon.reference import shown
from gnomon.reference.errors import UsageError
from gnomon.reference.own_code import defined, own_frame, said

Array = NDArray[Any]
Kernel = Callable[..., Any]
SHRINK_TRIES = 300
NOT_SHRUNK = "not shrunk: pip install hypothesis to get the smallest failing case"
NOT_MET = "not shrunk: no simpler case was met that fails"


@dataclass(frozen=True)
class OpCheck:
    """What a check found. verdict: PASS, FAIL, or NOT RUN where no value was compared

    cases, values: compared; kinds: cases by kind of values
    case, detail, replay: of the smallest case that fails, with the command that shows it again; else empty
    arm, weights: the form of a matrix product, see check_op
    """

    op: str
    kernel: str
    verdict: str
    seed: int
    cases: int
    values: int
    kinds: dict[str, int]
    case: str = ""
    detail: str = ""
    replay: str = ""
    note: str = ""
    arm: str = "f32"
    weights: str = ""
    type: str = field(default="check_op", init=False)

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "FAIL": 1, "NOT RUN": 3}[self.verdict]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type} | asdict(self)

    def text(self) -> str:
        form = f" arm={self.arm}" * (self.arm != "f32") + f" weights={self.weights}" * bool(self.weights)
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        head = f"{self.verdict} {self.op}{form} {self.kernel}:"
        if self.verdict == "NOT RUN":
            lines = [f"{head} no value was compared in {counted(self.cases, 'case')}"]
        elif self.verdict == "PASS":
            lines = [
                f"{head} {counted(self.cases, 'case')}, {counted(self.values, 'value')}: none differs from the contract"
            ]
            lines.append(f"cases by kind of values: {kinds}")
        else:
            passed = f", after {counted(self.cases - 1, 'case')} that passed" if self.cases > 1 else ""
            lines = [
                f"{head} case {self.cases:,} fails{passed}",
                f"failing case: {self.case}",
                *self.detail.splitlines(),
                f"to see it again: {self.replay}",
            ]
        return "\n  ".join(lines + ([self.note] if self.note else []))

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return shown.preformatted(self.text(), self.verdict == "PASS")


def check_op(
    name: str,
    kernel: Kernel,
    *,
    runs: int = 200,
    seed: int = 0,
    case: str | None = None,
    framework: str = "numpy",
    kernel_name: str = "",
    arm: str = "f32",
    weights: str = "",
) -> OpCheck:
    """Call `kernel` as the op `name` of the contract on `runs` cases and compare every bit.

    case: run this one only, as a failing check printed it; framework: of the arrays the kernel gets ("numpy", "mlx",
    "cupy", "torch"); kernel_name: module:function, for the command that is printed
    arm, weights: of linear and linear_bias alone: "f32", "bf16" or "int8"; a stored type such as "Q4_0", whose blocks
    the kernel gets as they are stored. docs/check-op.md says what is handed over.
    Raises UsageError for an unknown op, case or framework, NotRunError where the framework is not installed.
    """
    op = form(name, arm, weights)
    if runs < 1 or seed < 0:
        raise UsageError(f"Expected at least one run and a seed from 0 up but got runs={runs}, seed={seed}")
    told = kernel_name or f"{kernel.__module__}:{getattr(kernel, '__qualname__', type(kernel).__name__)}"
    asked = {"framework": framework * (framework != "numpy"), "arm": arm * (arm != "f32"), "weights": weights}
    across = border(framework)
    cases = sequence(op.sizes, seed, runs) if case is None else [read_case(case, op.sizes)]
    kinds: Counter[str] = Counter()
    compared = 0
    for one in cases:
        kinds[one.kind] += 1
        count, detail = run_case(op, kernel, one, seed, across)
        compared += count
        if detail:
            smallest, note = (one, "") if case is not None else shrink(op, kernel, one, seed, across)
            detail = run_case(op, kernel, smallest, seed, across)[1] or detail
            words = ["gnomon", "check-op", name, told, "--seed", str(seed), "--case", str(smallest)]
            words += [word for option, value in asked.items() if value for word in (f"--{option}", value)]
            replay = shlex.join(words)
            if told.startswith("__main__:"):  # of a notebook: no command line can name it
                called = told.partition(":")[2] if told.partition(":")[2].isidentifier() else "kernel"
                given = "".join(f", {k}={v!r}" for k, v in asked.items() if v)
                replay = f"gnomon.check_op({name!r}, {called}, seed={seed}, case={str(smallest)!r}{given})"
            found = (str(smallest), detail, replay, note, arm, weights)
            return OpCheck(name, told, "FAIL", seed, kinds.total(), compared, dict(kinds), *found)
    verdict = "PASS" if compared else "NOT RUN"
    return OpCheck(name, told, verdict, seed, kinds.total(), compared, dict(kinds), arm=arm, weights=weights)


def run_case(op: OpUnderTest, kernel: Kernel, case: Case, seed: int, across: Border) -> tuple[int, str]:
    """How many values were compared, and what is wrong; "" where none differs from the contract."""
    arguments = op.arguments(case, values(case, seed))
    plant_nan(arguments, case, seed)
    with np.errstate(all="ignore"):
        expected = op.contract(*arguments)  # before the kernel, which may write into what it is given
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        handed = [across.give(a) if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            returned = kernel(*handed)
        except (Exception, SystemExit) as error:
            where = own_frame(error) or defined(kernel)
            return 0, f"the kernel raised {said(error)} ({where}){other_arrays(kernel, across)}"
        for number, (kept, now) in enumerate(zip(before, arguments, strict=True)):
            if isinstance(now, np.ndarray) and kept.tobytes() != now.tobytes():
                what = f"argument {number + 1} of {len(arguments)}"
                return (
                    0,
                    f"Expected a kernel that only reads its arguments but it wrote into {what} ({defined(kernel)})",
                )
        wanted = expected if isinstance(expected, tuple) else (expected,)
        got = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        if len(got) != len(wanted):
            due = f"{len(wanted)} results ({op.result})"
            return 0, f"Expected {due} but the kernel returned {len(got)} ({defined(kernel)})"
        count = 0
        for at, (g, w) in enumerate(zip(got, wanted, strict=True)):
            what = "result" if len(wanted) == 1 else f"result {at}"
            try:
                observed = across.take(g)
            except Exception as error:
                return count, f"Expected {what} to be an array but got {type(g).__name__}: {error} ({defined(kernel)})"
            detail = misfit(observed, w, what)
            if detail:
                return count, f"{detail} ({defined(kernel)})"
            detail = judged(observed, w, what, op.unit)
            if detail:
                return count, detail
            count += w.size
    return count, ""


def other_arrays(kernel: Kernel, across: Border) -> str:
    """A hint for a kernel that was written for the arrays of another framework than it was handed."""
    held = [id(x) for x in getattr(kernel, "__globals__", {}).values()]
    others = {name: module for name, (module, _) in FRAMEWORKS.items() if name != across.framework}
    used = [name for name, module in others.items() if id(sys.modules.get(module)) in held]
    if across.framework != "numpy" or not used:
        return ""
    return f"; it was handed NumPy arrays: --framework {used[0]} hands over those of {used[0]}"


def misfit(observed: Array, expected: Array, what: str) -> str:
    """What is wrong with the type or the shape of a result."""
    if observed.dtype != expected.dtype:
        return f"Expected {what} of dtype {expected.dtype} but got {observed.dtype}"
    if observed.shape != expected.shape:
        return f"Expected {what} of shape {list(expected.shape)} but got {list(observed.shape)}"
    return ""


def judged(observed: Array, expected: Array, what: str, unit: int | None) -> str:
    """Which bits of a result are wrong."""
    broken, told = ~np.isfinite(expected), ~np.isfinite(observed)
    if unit is not None:  # one NaN or infinity within the unit will do
        axes = tuple(range(unit, expected.ndim))
        told = np.broadcast_to(told.any(axis=axes, keepdims=True), told.shape)
    lost = broken & ~told
    out = ~lost if lost.any() else broken  # not looked at
    o, e = (np.where(out, expected.dtype.type(0), x) for x in (observed, expected))
    found = mismatch(bits.patterns(o), bits.patterns(e), bits.format_of(e), what + ", a NaN lost" * bool(lost.any()))
    return "" if found is None else found.text()


def shrink(op: OpUnderTest, kernel: Kernel, failing: Case, seed: int, across: Border) -> tuple[Case, str]:
    """The simplest case that fails, no larger than `failing` in any size; and a note where nothing was shrunk."""
    try:
        import hypothesis
        from hypothesis import strategies as st
    except ImportError:
        return failing, NOT_SHRUNK
    options: list[Sequence[int | str]] = [
        choices[: choices.index(failing[name]) + 1] for name, choices in op.sizes.items()
    ]
    simpler = KINDS[: KINDS.index(failing.kind) + 1]
    cases = st.builds(
        lambda picked, kind, draw: Case(tuple(zip(op.sizes, picked, strict=True)), kind, draw),
        st.tuples(*(st.sampled_from(o) for o in options)),
        st.sampled_from(simpler),
        st.sampled_from((*range(16), failing.draw)),
    )
    settings = hypothesis.settings(
        max_examples=SHRINK_TRIES, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    try:
        smallest: Case = hypothesis.find(
            cases,
            lambda case: bool(run_case(op, kernel, case, seed, across)[1]),
            settings=settings,
            random=random.Random(seed),
        )
    except hypothesis.errors.NoSuchExample:  # it fails too seldom to be met again
        return failing, NOT_MET
    return smallest, ""


def listed(arm: str = "f32", weights: str = "") -> Iterator[tuple[str, str, str]]:
    """Every op that there is in this form: name, how a kernel is called, what it returns."""
    names = OPS if (arm, weights) == ("f32", "") else PRODUCTS
    return ((name, op.signature, op.result) for name in names for op in [form(name, arm, weights)])
