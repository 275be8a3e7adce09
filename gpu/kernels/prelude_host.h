// The host as a target: a lane is one turn of a loop that the compiler vectorises, a group is one thread of the team.
// Every other prelude defines the same words for its own compiler.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t i32;

#define FN static inline __attribute__((always_inline))
#define LEAF static __attribute__((noinline))  // hot code stands alone: inlined copies get other registers
#define TASK static __attribute__((noinline)) void

#define FIXED static constexpr  // a number that belongs to a type
#define DEVICE          // memory that every group sees
#define SHARED          // memory of one group
#define THREAD          // memory of one lane (host: of all lanes, see PL)
#define RESTRICT __restrict

#define LANES(i) for (int i = 0; i < 64; i++)                 // the 64 lanes of a group
#define FOR_EACH(e, lo, hi) for (int e = (lo); e < (hi); e++)  // elements, shared out among the lanes
#define FIRST_LANE true                                        // what only one lane does
#define LANE_PARAM      // lanes are a loop here, so no function is told which one it is
#define LANE_ARG
#define NL 64           // copies of a private value: all lanes side by side
#define PL(i) (i)       // where lane i keeps its copy
#define SIDE 4          // serial sums that run side by side in one lane, to hide the time an addition takes
#define ALIGNED alignas(64)
#define UNROLL _Pragma("GCC unroll 16")
#define PREFETCH(words)                                                       \
    for (int line = 0; line < 4; line++) {                                    \
        prefetch((words) + 16 * line); /* of a row of 64 words */             \
    }
#define BARRIER()       // lanes of a group run one after the other

// What a single pass over memory will need: from memory in good time, then from the second-level cache, whose queue is the
// longer one.
FN void prefetch(const void* line) {
    __builtin_prefetch((const char*)line + 8192, 0, 2);
    __builtin_prefetch((const char*)line + 2048);
}

FN u32 bits_of(float x) {
    u32 u;
    memcpy(&u, &x, 4);
    return u;
}

FN float float_of(u32 u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

// The allowed primitives, each rounded by itself; -ffp-contract=off keeps them apart.
#define F_ADD(a, b) ((a) + (b))
#define F_SUB(a, b) ((a) - (b))
#define F_MUL(a, b) ((a) * (b))
#define F_DIV(a, b) ((a) / (b))
#define F_SQRT(a) __builtin_sqrtf(a)
#define F_RINT(a) __builtin_rintf(a)
#define F_ABS(a) __builtin_fabsf(a)
