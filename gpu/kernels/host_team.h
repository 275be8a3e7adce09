// A team of threads that runs a job together. Waiting spins a little, then yields, then sleeps: a thread that only spins
// burns the time slice of whoever it waits for.
#pragma once
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() std::atomic_signal_fence(std::memory_order_seq_cst)
#endif

static bool nothing() { return false; }

// idle: a little that is of use meanwhile; false when nothing is left of it
template <class Idle>
static void wait_while(std::atomic<unsigned>& word, unsigned old, Idle&& idle) {
    for (int i = 0; i < 200; i++) {
        if (word.load(std::memory_order_acquire) != old) return;
        if (!idle()) PAUSE();
    }
    for (int i = 0; i < 400; i++) {
        if (word.load(std::memory_order_acquire) != old) return;
        std::this_thread::yield();
    }
    word.wait(old, std::memory_order_acquire);
}

class Team {
  public:
    explicit Team(int threads) : size(threads), parts(threads), scratch(threads), home(getpid()) {
        for (int t = 1; t < size; t++) workers.emplace_back([this, t] { work(t); });
    }

    ~Team() {
        if (getpid() != home) {  // a forked child has none of the threads
            for (auto& worker : workers) worker.detach();
            return;
        }
        stop = true;
        started.fetch_add(1, std::memory_order_release);
        started.notify_all();
        for (auto& worker : workers) worker.join();
    }

    // job(thread) on every thread; returns when all have returned. A small job, like every job of a forked child, runs
    // on the calling thread alone: to meet others costs more than it saves, and on a busy machine far more.
    template <class Job>
    void run(const Job& job, size_t scratch_floats, bool small = false) {
        for (auto& room : scratch) {
            if (room.size() < scratch_floats + 64) room.resize(scratch_floats + 64);
        }
        threads = small || getpid() != home ? 1 : size;
        if (threads == 1) return job(0);
        call = [](const void* j, int t) { (*(const Job*)j)(t); };
        what = &job;
        started.fetch_add(1, std::memory_order_release);
        started.notify_all();
        job(0);
        barrier(nothing);  // all have returned
    }

    // Where the part of a thread begins
    static int first_task(int total, int thread, int threads) { return (int)((int64_t)total * thread / threads); }

    // A share of `total` tasks that nobody has taken since the last barrier: some of them from `task` on, none at the end.
    // A thread goes through its own part in order, as memory is read best, then helps with what others have left: two
    // cores of a machine are seldom equally fast.
    int take(int thread, int total, int some, int* task) {
        for (int k = 0; k < threads; k++) {
            const int owner = (thread + k) % threads;
            const int lo = first_task(total, owner, threads), hi = first_task(total, owner + 1, threads);
            const int at = lo + parts[owner].taken.fetch_add(some, std::memory_order_relaxed);
            if (at < hi) {
                *task = at;
                return hi - at < some ? hi - at : some;
            }
        }
        return 0;
    }

    template <class Idle>
    void barrier(Idle&& idle) {
        if (threads == 1) return parts[0].taken.store(0, std::memory_order_relaxed);
        const unsigned now = phase.load(std::memory_order_acquire), all = threads;
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
            arrived.store(0, std::memory_order_relaxed);
            for (int t = 0; t < threads; t++) parts[t].taken.store(0, std::memory_order_relaxed);
            phase.fetch_add(1, std::memory_order_release);
            phase.notify_all();
        } else {
            wait_while(phase, now, idle);
        }
    }

    float* room(int thread) {  // aligned to a cache line
        return (float*)(((uintptr_t)scratch[thread].data() + 63) & ~(uintptr_t)63);
    }

    const int size;
    int threads = size;  // that run the job

  private:
    void work(int t) {
        unsigned seen = 0;
        for (;;) {
            wait_while(started, seen, nothing);
            seen++;
            if (stop) return;
            call(what, t);
            barrier(nothing);
        }
    }

    struct alignas(64) Part {  // of the tasks of a pool
        std::atomic<int> taken{0};
    };

    std::vector<Part> parts;
    std::vector<std::vector<float>> scratch;
    std::vector<std::thread> workers;
    const pid_t home;
    bool stop = false;
    const void* what = nullptr;
    void (*call)(const void*, int) = nullptr;
    alignas(64) std::atomic<unsigned> started{0};
    alignas(64) std::atomic<unsigned> arrived{0};
    alignas(64) std::atomic<unsigned> phase{0};
};
