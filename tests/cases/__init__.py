"""Every case of the op tests: inputs and the oracle's answer. Neither of them knows an engine."""

from cases.attention import attention_cases
from cases.case import Case
from cases.elementwise import elementary_cases, pair_cases
from cases.functions import function_cases
from cases.rowwise import embed_case, linear_cases, rms_norm_cases, rope_cases, select_case

ELEMENTARY = elementary_cases()
FUNCTIONS = function_cases()
OPS = [
    *pair_cases(),
    *linear_cases(),
    *rms_norm_cases(),
    *rope_cases(),
    embed_case(),
    select_case(),
    *attention_cases(),
]

__all__ = ["ELEMENTARY", "FUNCTIONS", "OPS", "Case"]
