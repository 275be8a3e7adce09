"""Single inputs on which a nearly right operation is wrong, as it is on few others. Every form of the probe asks them.

Each list begins with the hardest. The batteries ask it before and after their other cases, so that the body of a vector
loop and its scalar tail both meet it.
"""

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
ONES = 0x3FFFFFFF  # 2 - 2^-23: every bit of the mantissa is set
ONE = 0x3F800000
SIGN = 0x80000000


def array(*words: int) -> U32:
    return np.array(words, np.uint32)


def signed(*words: int) -> U32:
    """Every word, every second one with its sign turned, then all of them with the other sign"""
    turned = [word ^ SIGN * (i % 2) for i, word in enumerate(words)]
    return array(*turned, *(word ^ SIGN for word in turned))


def scaled(word: int, *exponents: int) -> list[int]:
    """The number times powers of two"""
    return [word + (e << 23) for e in exponents]


def around(hard: U32, others: NDArray[np.uint32]) -> U32:
    """The hard ones on both sides of the others, the hardest at either end"""
    return np.concatenate([hard, others, hard[::-1]])


# A reciprocal r of d that is one place off is mended by r + r * (1 - d * r), but where the mantissa of d is all ones:
# 1 / ONES is 0.5 + 2^-25 + 2^-49, and r = 0.5 makes every correction a tie that goes back to 0.5 (P. Markstein,
# "Computation of elementary functions on the IBM RISC System/6000 processor", 1990, theorem 5 and its exception).
NUMERATORS = [*scaled(ONE, 0, 0, 0, -30, 39, -39, 20), ONE - 2, ONE + 1, ONE - 1, ONE + 1, ONE, ONES, ONE]
DIVISORS = [*scaled(ONES, 0, 39, -39, 20, 30, -7, -1), ONES, ONES, ONES, ONES - 1, ONE + 1, ONE + 1, ONE - 1]
QUOTIENTS = signed(*NUMERATORS), array(*DIVISORS, *DIVISORS)

# Roots next to a power of two, where half a place is nearly reached; exact roots; roots of odd and of even exponents.
NEAR_FOUR = [*scaled(ONES + (1 << 23), 0, -40, 38), *scaled(ONES - 1 + (1 << 23), 0, 26, -26)]  # their root is ONES
SQUARES = array(*NEAR_FOUR, ONE - 1, ONE - 2, ONE + 1, ONE + 2, ONE + 3, ONES, ONES - 1, ONES + 2, 0x41100000, ONE)

HALF = 0x3F000000
# Floats next to one half; the largest halves; integers that adding 0.5 or 1.5 * 2^23 would change.
HALVES = signed(
    *(HALF - 1, HALF, HALF + 1, 0x3FC00000, 0x40200000),  # 0.5 and its neighbours, 1.5, 2.5
    *(0x4AFFFFFF, 0x4AFFFFFD, 0x4A7FFFFE, 0x4A800001, 0x4A7FFFFF),  # 2^23 - 0.5 and - 1.5, 2^22 - 0.5, + 0.5, - 0.25
    *(0x4B000000, 0x4B000001, 0x4B400001, 0x4B7FFFFF, 0x4B800001),  # 2^23, + 1, 1.5 * 2^23 + 1, 2^24 - 1, + 2
)

# Integers of more than 24 bits halfway between two floats, their neighbours, and the ends of the range.
NEAR_TIES = [2**24 + 1, 2**24 + 3, *(((2**24 + odd) << 6) + near for odd in (1, 3) for near in (0, 1, -1))]
ENDS = [2**31 - 1, -(2**31), 2**31 - 64, 2**31 - 65, 2**24, -(2**24), 2**24 - 1, 1, -1, 0]
INTEGERS = np.array([*NEAR_TIES, *(-i for i in NEAR_TIES), *ENDS], np.int32)
WHOLE = signed(0x4EFFFFFF, 0x4B7FFFFF, 0x4B800000, 0x4B000001, ONE, 0)  # 2^31 - 128, 2^24 - 1, 2^24, 2^23 + 1, 1, 0
LOWEST = array(0xCF000000)  # -2^31

# bf16: both kinds of tie and their neighbours, a carry into the exponent, the floor of settling, the ends.
BF16_TIES = signed(
    *(0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x3F817FFF, 0x3F818001),
    *(0x3FFF8000, 0x3FFF7FFF, 0x3FFE8000, 0x26808000, 0x26800000, 0x7F7F7FFF, 0x00800000),
)
BF16 = np.array([0x0080, 0x7F7F, 0x3F80, 0x3FFF, 0x2680, 0x8080, 0xFF7F, 0xBFFF, 0x0000], np.uint16)
# f16: the ends of its subnormals and of its normals, zero, infinity, and one subnormal of every exponent
F16 = np.array([0x0001, 0x03FF, 0x0400, 0x7BFF, 0x0000, 0x7C00, *(1 << k for k in range(1, 10)), 0x0401], np.uint16)
F16 = np.concatenate([F16, F16 | np.uint16(0x8000)])

# Sums: ties of either kind, a bit far below the last that breaks a tie, a carry, a tie below a power of two.
LAST = 0x33800000  # 2^-24, half a place of 1
SUMS = (
    (ONE, LAST),
    (ONE + 1, LAST),
    (ONE, LAST + 1),
    (ONE, LAST - 1),
    (ONES, LAST),
    (ONE, 0xB3000000),  # 1 - 2^-25
    (ONE, 0xB3000001),
    (ONE, 0xB2FFFFFF),
    (ONE, 0x21800000),  # 2^-60: nothing of it is seen
    (ONE, 0xA1800000),
    (ONE + 1, ONE ^ SIGN),  # all but the last place goes
    (ONE, (ONE - 1) ^ SIGN),
    (0x4B800000, ONE),  # 2^24 + 1
    (0x4B800001, ONE),
)
# Products: of 1 + 2^-12, a tie; of neighbours of 1, just beside one; with a carry into the next power of two
PRODUCTS = (
    (0x3F800800, 0x3F800800),
    (0x3F800800, 0x3F801800),
    (ONE + 1, ONE - 1),
    (ONE - 1, ONE - 1),
    (ONE + 1, ONE + 1),
    (ONES, ONE + 1),
    (ONES, ONES),
    (ONES, ONE - 1),
)


def pairs(listed: tuple[tuple[int, int], ...]) -> tuple[U32, U32]:
    """The pairs, and the same with both signs turned: a, b"""
    a, b = np.array(listed, np.uint32).T
    minus = np.uint32(SIGN)
    return np.concatenate([a, a ^ minus]), np.concatenate([b, b ^ minus])
