"""Kernels built otherwise than the flags of the project say."""

from collections.abc import Callable
from dataclasses import replace

from gnomon.gates.gate import Subject
from gnomon.gpu.host_build import Built, build, kernel_sources
from gnomon.gpu.host_library import included

# The operations that the probe asks for, and one dot product, as the whole library has them.
UNIT = """
#include "prelude_host.h"
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


def unit(extra: str, *flags: str) -> Callable[[], Built]:
    """Builds the unit with something added to its one function, and with flags added to the project's."""
    main = UNIT.format(extra=extra)
    return lambda: build(main, included(main, kernel_sources()), flags)


def contracted(subject: Subject) -> Subject:
    return replace(subject, kernels=unit("", "-ffp-contract=fast"))


def one_fused(subject: Subject) -> Subject:
    return replace(subject, kernels=unit(FUSES))
