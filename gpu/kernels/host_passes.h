// Passes over memory by all threads of a team, which no plan contains.
#pragma once

#define ALONE 4096  // by floats: fewer are looked through by one thread

extern "C" {

// Whether no value is NaN or infinite: each thread looks through what it is likely to have stored, which lies near it.
i32 all_finite(void* handle, const float* x, int64_t n) {
    Team& team = *(Team*)handle;
    std::atomic<u32> bad{0};
    team.run([&](int thread) {
        const int64_t lo = n * thread / team.threads, hi = n * (thread + 1) / team.threads;
        u32 some = 0;
        for (int64_t e = lo; e < hi; e++) some |= (bits_of(x[e]) & 0x7f800000u) == 0x7f800000u;
        if (some) bad = 1;
    }, 0, n < ALONE);
    return !bad;
}

// Streaming: the sum of n floats by all threads, a pass over memory that adds as fast as it reads.
double stream_read(void* handle, const float* x, int64_t n) {
    Team& team = *(Team*)handle;
    std::vector<double> sums(team.size * 8);
    team.run([&](int thread) {
        const int64_t lo = n / 16 * thread / team.threads * 16, hi = n / 16 * (thread + 1) / team.threads * 16;
        ALIGNED float acc[64] = {};
        for (int64_t e = lo; e + 64 <= hi; e += 64) {
            for (int i = 0; i < 64; i++) acc[i] += x[e + i];
        }
        for (int i = 0; i < 64; i++) sums[thread * 8] += acc[i];
    }, 0);
    double total = 0;
    for (int t = 0; t < team.size; t++) total += sums[t * 8];
    return total;
}

}  // extern "C"
