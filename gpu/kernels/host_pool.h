// How a plan is read: pools of instructions, and what a thread does while it waits at the end of one.
#pragma once

// Instructions that depend on nothing among themselves: their tasks are one pool.
struct Pool {
    std::vector<Call> calls;
    int total, ends[64];  // tasks up to the end of each call

    int read(const Instruction* plan, int i, int count, const Step& step) {  // from i on; returns where the next begins
        calls.clear();
        total = 0;
        do {
            calls.emplace_back(plan[i], step);
            total += calls.back().tasks();
            ends[calls.size() - 1] = total;
        } while (++i < count && !plan[i - 1].last);
        return i;
    }

    const Call& call_of(int* task) const {  // whose task it is, which becomes a number among its own
        size_t c = 0;
        while (*task >= ends[c]) c++;
        *task -= c ? ends[c - 1] : 0;
        return calls[c];
    }
};

#define AHEAD 131072  // bytes that a waiting thread fetches: no second-level cache is much smaller

// One row is a race through memory, which must not stand still while a thread waits for another: it fetches the beginning
// of its part of the next linear.
struct Ahead {
    const Instruction* plan;
    int i, count, thread, threads;
    const Step& step;
    const char *at = nullptr, *stop = nullptr;

    void find() {
        static thread_local Pool next;
        while (i < count && plan[i].op != OP_LINEAR) i++;
        if (i == count) return;
        next.read(plan, i, count, step);
        i = count;  // once is enough
        int block = Team::first_task(next.total, thread, threads);
        const Call& call = next.call_of(&block);
        if (call.in.op != OP_LINEAR || call.rows != 1) return;
        at = (const char*)call.linear.w + call.block_bytes() * block;
        stop = at + AHEAD;
    }

    bool operator()() {
        if (i < count) find();
        if (at >= stop) return false;
        for (int line = 0; line < 8; line++) __builtin_prefetch(at + 64 * line, 0, 2);
        at += 512;
        return true;
    }
};
