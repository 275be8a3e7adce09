// The most that one thread can multiply and add, unfused, in vectors of the native width: a roof for the kernels.
#include <cstdint>

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define CHAINS 10  // enough to cover the latencies of both, few enough for 16 registers

typedef float V __attribute__((vector_size(WIDTH)));

extern "C" double mul_add(int64_t rounds) {  // returns how many pairs of a product and a sum
    V x[CHAINS];
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) x[i] = V{} + (float)i;
    const V m = V{} + 0.5f, a = V{} + 1.0f;
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * m + a;
    }
    V total = V{};
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) total = total + x[i];
    volatile float kept = total[0];
    (void)kept;
    return (double)rounds * CHAINS * (WIDTH / 4);
}
