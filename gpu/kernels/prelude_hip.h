// HIP, as hiprtc compiles it with -ffp-contract=off -fno-gpu-flush-denormals-to-zero and correctly rounded division and
// square root, which is its default. Plain operators: the __f*_rn functions of HIP are no more than these and contract.
#pragma once
#pragma clang fp contract(off)

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;

#define FN static inline __device__ __attribute__((always_inline))
#define FIXED static constexpr
#define DEVICE
#define SHARED
#define THREAD
#define RESTRICT __restrict__
#define UNROLL _Pragma("unroll")

#define BARRIER() __syncthreads()
#define ROOM(floats) __shared__ float room[floats]

FN u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
FN float float_of(u32 u) { return __builtin_bit_cast(float, u); }

#define F_ADD(a, b) ((a) + (b))
#define F_SUB(a, b) ((a) - (b))
#define F_MUL(a, b) ((a) * (b))
#ifndef F_DIV  // the check of the generated code leaves out what expands to fused multiply-adds
#define F_DIV(a, b) ((a) / (b))
#define F_SQRT(a) __builtin_sqrtf(a)
#endif
#define F_RINT(a) __builtin_rintf(a)
#define F_ABS(a) __builtin_fabsf(a)
