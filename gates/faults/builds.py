"""Kernels built otherwise than the flags of the project say."""

from collections.abc import Callable
from dataclasses import replace

from gnomon.gates.gate import Subject
from gnomon.gpu.host_build import Built, build, kernel_sources
from gnomon.gpu.host_library import included

# The operations that the probe asks for, and one dot product, as the whole library has them.
UNIT = """
#include "prelude_host.h"
{before}
#include "scalar.h"
#include "formats.h"
#include "dot.h"
#include "probe.h"
#include "probe_host.h"
extern "C" void one(const unsigned* w, const float* x, float* y, int n) {{
    dot<F32, 1>(w, x, n, n, y);
    {extra}
}}
"""
FUSES = "for (int i = 0; i < n; i++) y[i] = __builtin_fmaf(x[i], y[i], 1.0f);"
# What AMD's sequence gives where v_rcp_f32 is one place low, within the 1 ulp that it promises: every quotient is right
# but that of a power of two by a divisor whose mantissa is all ones, where each correction is a tie.
RECIPROCAL = """
FN float by_reciprocal(float n, float d) {
    const bool tie = bits_of(n) << 9 == 0 && bits_of(d) << 9 == 0xfffffe00u;
    return tie ? float_of(bits_of(n / d) - 1) : n / d;
}
#undef F_DIV
#define F_DIV(a, b) by_reciprocal(a, b)
"""


def unit(extra: str, *flags: str, before: str = "") -> Callable[[], Built]:
    """Builds the unit with something added to its one function or before all of them, and with flags added to the
    project's."""
    main = UNIT.format(extra=extra, before=before)
    return lambda: build(main, included(main, kernel_sources()), flags)


def contracted(subject: Subject) -> Subject:
    return replace(subject, kernels=unit("", "-ffp-contract=fast"))


def one_fused(subject: Subject) -> Subject:
    return replace(subject, kernels=unit(FUSES))


def divided_by_reciprocal(subject: Subject) -> Subject:
    return replace(subject, kernels=unit("", before=RECIPROCAL))
