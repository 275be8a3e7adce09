// Single operations in the words in which the kernels write them, for known answers: `gnomon probe` and the start of an
// engine. A target makes an entry of each: OP(name, type of the inputs a, b, c, d, type of the result, expression).
#pragma once

#define PROBE_OPERATIONS(OP)                                            \
    OP(add, float, float, F_ADD(a, b))                                  \
    OP(mul, float, float, F_MUL(a, b))                                  \
    OP(div, float, float, F_DIV(a, b))                                  \
    OP(mul_add, float, float, F_ADD(F_MUL(a, b), c))                    \
    OP(cross, float, float, F_SUB(F_MUL(a, b), F_MUL(c, d)))            \
    OP(kept_order, float, float, F_SUB(F_ADD(a, b), b))                 \
    OP(sqrt, float, float, F_SQRT(a))                                   \
    OP(inverse_sqrt, float, float, F_DIV(1.0f, F_SQRT(a)))              \
    OP(maximum, float, float, larger(a, b))                             \
    OP(rint, float, float, F_RINT(a))                                   \
    OP(to_int, float, i32, (i32)a)                                      \
    OP(from_int, i32, float, (float)a)                                  \
    OP(from_f16, u16, float, from_f16(a))                               \
    OP(from_bf16, u16, float, from_bf16(a))                             \
    OP(to_bf16, float, u16, (u16)to_bf16(a))
