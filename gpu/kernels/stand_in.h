// The words of CUDA, HIP and Metal on a CPU, so that the generated units can be run where there is no such GPU.
// Shared memory is static, in a section that stand_in_run.cpp fills with NaN before every group; a barrier hands over to
// the next thread of the group. Metal's address spaces are those of clang: a wrong one does not compile.
#pragma once

typedef unsigned long size_t;
struct StandInIndex {
    unsigned x, y, z;
};
extern "C" StandInIndex stand_in_thread, stand_in_group;  // of the thread that runs now
extern "C" void stand_in_barrier();
extern "C" float rintf(float);

#ifdef __APPLE__
#define STAND_IN_SHARED static __attribute__((section("__DATA,stand_in_shared")))
#else
#define STAND_IN_SHARED static __attribute__((section("stand_in_shared")))
#endif

#if defined(STAND_IN_CUDA) || defined(STAND_IN_HIP)
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads)
#define __shared__ STAND_IN_SHARED
#define __syncthreads() stand_in_barrier()
#define threadIdx stand_in_thread
#define blockIdx stand_in_group
#endif

#ifdef STAND_IN_CUDA
static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline float __uint_as_float(unsigned u) { return __builtin_bit_cast(float, u); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float fabsf(float a) { return __builtin_fabsf(a); }
#endif

#ifdef STAND_IN_METAL
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread
#define ROOM(floats) STAND_IN_SHARED threadgroup float room[floats]
typedef StandInIndex uint3;
template <class To, class From>
static inline To as_type(From x) { return __builtin_bit_cast(To, x); }
namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
static inline float rint(float x) { return __builtin_rintf(x); }
static inline float fabs(float x) { return __builtin_fabsf(x); }
namespace precise {
static inline float sqrt(float x) { return __builtin_sqrtf(x); }
}  // namespace precise
}  // namespace metal
using namespace metal;
static inline void threadgroup_barrier(mem_flags flags) {
    if (flags == (mem_flags::mem_device | mem_flags::mem_threadgroup)) stand_in_barrier();
}
#endif
