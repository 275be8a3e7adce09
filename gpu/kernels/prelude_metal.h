// Metal, as mx.fast.metal_kernel compiles it: this text is its header. Contraction and reassociation are off by pragma,
// functions of one value are named with their precise form. ASCII alone: the source travels as an ASCII string.
#pragma once
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;

#define FN static inline __attribute__((always_inline))
#define FIXED static constant constexpr const
#define DEVICE device
#define SHARED threadgroup
#define THREAD thread
#define RESTRICT
#define UNROLL _Pragma("clang loop unroll(full)")

#define BARRIER() threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup)
#ifndef ROOM
#define ROOM(floats) threadgroup float room[floats]
#endif

FN u32 bits_of(float x) { return as_type<u32>(x); }
FN float float_of(u32 u) { return as_type<float>(u); }

#define F_ADD(a, b) ((a) + (b))
#define F_SUB(a, b) ((a) - (b))
#define F_MUL(a, b) ((a) * (b))
#define F_DIV(a, b) ((a) / (b))
#define F_SQRT(a) metal::precise::sqrt(a)
#define F_RINT(a) metal::rint(a)
#define F_ABS(a) metal::fabs(a)
