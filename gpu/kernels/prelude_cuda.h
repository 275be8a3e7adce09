// CUDA, as NVRTC compiles it with --fmad=false --ftz=false --prec-div=true --prec-sqrt=true.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;

#define FN static __device__ __forceinline__
#define FIXED static constexpr
#define DEVICE
#define SHARED
#define THREAD
#define RESTRICT __restrict__
#define UNROLL _Pragma("unroll")

#define BARRIER() __syncthreads()
#define ROOM(floats) __shared__ float room[floats]

FN u32 bits_of(float x) { return __float_as_uint(x); }
FN float float_of(u32 u) { return __uint_as_float(u); }

// Each rounded to nearest even by itself: these intrinsics are never contracted, whatever the flags.
#define F_ADD(a, b) __fadd_rn(a, b)
#define F_SUB(a, b) __fsub_rn(a, b)
#define F_MUL(a, b) __fmul_rn(a, b)
#define F_DIV(a, b) __fdiv_rn(a, b)
#define F_SQRT(a) __fsqrt_rn(a)
#define F_RINT(a) rintf(a)
#define F_ABS(a) fabsf(a)
