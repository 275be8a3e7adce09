"""Every case of the op tests: inputs and the oracle's answer. Neither of them knows an engine."""

from cases.arms import arm_cases
from cases.attention import attention_cases
from cases.case import Case
from cases.elementwise import elementary_cases, pair_cases
from cases.experts import mixture_cases
from cases.hard import hard_cases, hard_functions
from cases.norms import norm_cases
from cases.recurrent import recurrent_cases
from cases.rowwise import (
    embed_case,
    embed_positions_case,
    linear_cases,
    rope_cases,
    select_case,
    split_cases,
)

ELEMENTARY = [*elementary_cases(), *hard_functions()]
OPS = [
    *pair_cases(),
    *linear_cases(),
    *arm_cases(),
    *norm_cases(),
    *rope_cases(),
    *split_cases(),
    embed_case(),
    embed_positions_case(),
    select_case(),
    *attention_cases(),
    *recurrent_cases(),
    *mixture_cases(),
    *hard_cases(),
]

__all__ = ["ELEMENTARY", "OPS", "Case"]
