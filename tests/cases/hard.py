"""Cases on the few inputs where a nearly right op is wrong: a divisor whose mantissa is all ones, and results that are
the floor of settling itself, or the place below it."""

import numpy as np

from cases.arms import linear_case as arm_case
from cases.arms import stored_case
from cases.case import Case
from cases.elementwise import elementary_case, pair_case, row_case
from cases.experts import experts_case, route_case
from cases.norms import gated_norm_case, l2_norm_case, layer_norm_case, rms_norm_case
from cases.rowwise import linear_case, rotation_case
from cases.values import F32, about_floor, near
from oracle import f32

ONES = f32.from_bits(0x3FFFFFFF)  # 2 - 2^-23
# 1 + exp_neg(-|x|) is ONES for these x: exp_neg gives 1 - 2^-23 from 1.5 to 2.5 * 2^-24.
TO_ONES = np.unique(np.concatenate([np.linspace(8.9e-8, 1.5e-7, 60), near(1.5 * 2.0**-24, 2.0**-23, 2.5 * 2.0**-24)]))
TO_ONES = np.concatenate([TO_ONES, -TO_ONES]).astype(np.float32)
GELU_TO_ONES = (TO_ONES / np.float32(1.5957691)).astype(np.float32)  # the sigmoid's argument is 2 sqrt(2 / pi) x
# x * x + eps is 4 - 2^-22 or 4 - 2^-21, whose root is ONES
ROOT_TO_ONES = {1e-5: 0x3FFFFFEA, 1e-6: 0x3FFFFFFD, 1.0: 0x3FDDB3D6}
LESS = 1 - 2.0**-24  # of a power of two, its lower neighbour


def f32s(*values: float) -> F32:
    return np.array(values, np.float32)


def of_bits(*words: int) -> F32:
    return np.array(words, np.uint32).view(np.float32)


SMALL = 2.0**-49 * np.array([2.0**25, 2.0**25 * LESS, 1, LESS, 1 + 2.0**-23, 0.5])
SMALL = np.concatenate([SMALL, -SMALL]).astype(np.float32)  # one half of some is the floor, or the place below it
ONES_BELOW = "divisor of all ones"


def hard_functions() -> list[Case]:
    return [
        elementary_case("sigmoid", ONES_BELOW, TO_ONES),
        elementary_case("silu", ONES_BELOW, TO_ONES),
        elementary_case("gelu_tanh", ONES_BELOW, GELU_TO_ONES),
        *(elementary_case(op, "floor", SMALL) for op in ("silu", "gelu_tanh", "sigmoid", "softplus")),
    ]


def divisor_cases(name: str) -> list[Case]:
    """1 / ONES is 0x3f000001; an approximate reciprocal of ONES that is one place low never leaves 0x3f000000"""
    up = np.resize(f32s(1.0, -3.0, 0.75), TO_ONES.shape)[None]
    return [
        row_case("sigmoid", name, TO_ONES[None]),
        row_case("silu", name, TO_ONES[None]),
        row_case("gelu_tanh", name, GELU_TO_ONES[None]),
        pair_case("swiglu", name, TO_ONES[None] * np.float32(1), up),
        *norm_cases(name),
        route_case(name, f32s(2.0**-23, 0.0)[None], 2, False),
        route_case(f"{name}, normalised", f32s(2.0**-23, 0.0, -15.942385)[None], 2, True),
        *(arm_case("int8", f"{name}, {i}", x, w) for i, (x, w) in enumerate(((QUANTA, EYE), (EYE, QUANTA)))),
        stored_case("int8", name, QUANTA, 1, [2]),
    ]


# The largest / 127 is ONES, times a power of two: 1 / ONES is just above one half and becomes 1, where 0.5 becomes 0.
QUANTA = np.outer(f32s(1.0, -(2.0**-9)), np.append(of_bits(0x437DFFFF), f32s(1.0, -1.0, 3.0, 0.5))).astype(np.float32)
EYE = np.eye(5, dtype=np.float32)


def norm_cases(name: str) -> list[Case]:
    cases = []
    for eps, word in ROOT_TO_ONES.items():
        x = f32.from_bits(word)
        one, pair = f32s(x)[None], f32s(x, -x)[None]  # of mean square x * x, exactly
        wide = np.zeros((2, 256), np.float32)
        wide[0, 200], wide[1, 3] = 16 * x, -16 * x
        wide[:, 5::16] = 2.0**-40 * np.arange(1, 17)
        ones, none = np.ones(256, np.float32), np.zeros(256, np.float32)
        cases += [
            rms_norm_case(f"{name}, eps {eps}", one, ones[:1], eps),
            rms_norm_case(f"{name}, 256, eps {eps}", wide, ones, eps),
            layer_norm_case(f"{name}, eps {eps}", pair, ones[:2], none[:2], eps),
            gated_norm_case(f"{name}, eps {eps}", wide, ones, np.full((2, 256), 3.0, np.float32), 1, eps),
        ]
    root = of_bits(ROOT_TO_ONES[1e-6])[None]
    return [*cases, l2_norm_case(name, root), l2_norm_case(f"{name}, scaled", root, 1, 0.75)]


def floor_cases() -> list[Case]:
    """Results that are 2^-50, which stays, or its lower neighbour, which does not"""
    to_floor = 2.0**-25 * np.array([1, LESS, 1 + 2.0**-23, 2, -1, -LESS])
    return [
        *(row_case(op, "floor", SMALL[None]) for op in ("silu", "gelu_tanh", "sigmoid")),
        pair_case("swiglu", "floor", SMALL[None], np.resize(to_floor, SMALL.shape).astype(np.float32)[None]),
        *linear_floor_cases(),
        *norm_floor_cases(),
        *rope_floor_cases(),
        route_case("floor", of_bits(0, 0xBFD7FF61, 0xC209F355)[None], 3, False),
        route_case("floor, normalised", of_bits(0, 0xBFD7FF61, 0xC209F355)[None], 3, True),
        route_case("below the floor", of_bits(0, 0xBF0B812B, 0xC208CCD0)[None], 3, False),
        expert_floor_case(),
    ]


# Two terms that make 2^-50, 2^-50 - 2^-74 and their negatives, in bf16 too; rows of zeros; a bias that is the floor
X = np.array([[2.0**-25, 2.0**-37, 0], [2.0**-25, 0, 0], [0, 0, 2.0**-25], [0, 0, 0]], np.float32)
W = np.array([[2.0**-25, -(2.0**-37), 0], [-(2.0**-25), 2.0**-37, 0], [2.0**-24, 0, -(2.0**-24)]], np.float32)
BIAS = f32s(2.0**-50, -(2.0**-50), -(2.0**-50))
# Rows whose scales are 2^-20 and its lower neighbour, and weights whose scale is 2^-30; each dot is 1, -1 or 0
X8 = np.array([[127, 1, 0], [127 - 2.0**-17, 1, 0], [0, 0, 0]], np.float32) * np.float32(2.0**-20)
W8 = np.array([[0, 1, 127], [0, -1, 127], [0, 1, 127]], np.float32) * np.float32(2.0**-30)


def linear_floor_cases() -> list[Case]:
    return [
        *(linear_case(f"floor{how}", X, W, b) for how, b in (("", None), (" of the bias", BIAS))),
        *(arm_case("bf16", f"floor{how}", X, W, b) for how, b in (("", None), (" of the bias", BIAS))),
        *(arm_case("int8", f"floor{how}", X8, W8, b) for how, b in (("", None), (" of the bias", BIAS))),
    ]


# Every value by every gain and every shift; 1 / sqrt is 1/2, 1/16 or 2, since eps or one large value decides it.
VALUES = np.append(SMALL, f32s(2.0**-50, -(2.0**-50)))
GAINS = 2.0**-25 * np.array([1, LESS, 2, 2.0**25, 2.0**26])
ROW, GAIN, SHIFT = (
    a.reshape(-1).astype(np.float32)
    for a in np.meshgrid(VALUES, GAINS, f32s(0.0, 2.0**-50, -(2.0**-49)), indexing="ij")
)
OPPOSITE = np.stack([ROW, -ROW], axis=-1).reshape(1, -1)  # their mean is 0
ABOUT = np.array([[1, -1, 1 + 2.0**-22, -1]], np.float32) * np.float32(2.0**-50)  # their mean is 2^-74
LARGE = np.concatenate([f32s(16.0), VALUES * np.float32(8)])[None]


def norm_floor_cases() -> list[Case]:
    row, ones = ROW[None], np.ones_like(ROW)
    return [
        *(rms_norm_case(f"floor, eps {eps}", row, GAIN, eps) for eps in (4.0, 0.25)),
        *(layer_norm_case(f"floor, eps {eps}", OPPOSITE, GAIN.repeat(2), SHIFT.repeat(2), eps) for eps in (4.0, 0.25)),
        layer_norm_case("floor of a difference", ABOUT, ones[:4], ones[:4] * 0, 0.25),
        l2_norm_case("floor", LARGE),
        l2_norm_case("floor, scaled", LARGE * np.float32(2), 1, 0.5),
        gated_norm_case("floor", row, ones, ones[None] * np.float32(2.0**-24), 1, 4.0),
    ]


# Times the cosines and the sines of 1, of theta 10,000 and width 10, these are the place below the floor.
BY_COSINE = of_bits(0x26ECE787, 0x26819FE6, 0x26800A57, 0x26800042, 0x26800001)
BY_SINE = of_bits(0, 0x27CAC10D, 0x291F4275, 0x2A7B3077, 0x2BC61C95)


def rope_floor_cases() -> list[Case]:
    """Either half by either table, the other half 0; at position 0 nothing turns, so the floor itself comes back"""
    none, floor = np.zeros(5, np.float32), np.full(5, 2.0**-50, np.float32)
    heads = [(BY_COSINE, none), (none, -BY_COSINE), (BY_SINE, none), (none, BY_SINE), (floor, -floor)]
    row = np.concatenate([part for head in heads for part in head])
    return [rotation_case("floor", np.stack([row, row]), [0, 1], len(heads), 10, 10000.0)]


def expert_floor_case() -> Case:
    """Each of two experts counts one half: silu(2^-24) * 2^25 is 1, and the outputs are the columns themselves"""
    D = 40
    gate, up = np.zeros((1, D), np.float32), np.zeros((1, D), np.float32)
    gate[0, 0], up[0, 0] = 2.0**-24, 2.0**25
    experts = [(gate, up, about_floor(f"expert {e}", D, 1)) for e in range(2)]
    x = np.zeros((3, D), np.float32)
    x[:, 0] = 1.0
    return experts_case("floor", np.zeros((3, 2), np.float32), x, experts, 2)


def hard_cases() -> list[Case]:
    return [*divisor_cases(ONES_BELOW), *floor_cases()]
