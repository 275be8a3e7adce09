// Runs a grid on one CPU thread: groups in shuffled order, each thread of a group a fiber. Between two barriers the threads
// of a group run one after the other, in an order shuffled anew: what one thread needs from another and no barrier promises
// is thus absent in one order or another, and shared memory starts as NaN.
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#define STACK (64 * 1024)
#define MOST 1024  // threads of a group

struct StandInIndex {
    unsigned x, y, z;
};

extern "C" {
StandInIndex stand_in_thread, stand_in_group;
#ifdef __APPLE__
extern uint32_t shared_start[] __asm("section$start$__DATA$stand_in_shared");
extern uint32_t shared_stop[] __asm("section$end$__DATA$stand_in_shared");
#else
extern uint32_t shared_start[] __asm("__start_stand_in_shared") __attribute__((weak));
extern uint32_t shared_stop[] __asm("__stop_stand_in_shared") __attribute__((weak));
#endif
}

enum State { NEW, WAITING, DONE };
static ucontext_t scheduler, contexts[MOST];
static State states[MOST];
static char* stacks;
static unsigned current;
static void (*entry)(void**);
static void** arguments;

extern "C" void stand_in_barrier() {
    states[current] = WAITING;
    swapcontext(&contexts[current], &scheduler);
}

static void body() {
    entry(arguments);
    states[current] = DONE;
}

static void resume(unsigned thread) {
    ucontext_t& context = contexts[thread];
    current = thread;
    stand_in_thread = {thread, 0, 0};
    if (states[thread] == NEW) {
        getcontext(&context);
        context.uc_stack.ss_sp = stacks + (size_t)thread * STACK;
        context.uc_stack.ss_size = STACK;
        context.uc_link = &scheduler;
        makecontext(&context, body, 0);
    }
    swapcontext(&scheduler, &context);
}

static void shuffle(unsigned* order, int n, uint32_t* random) {
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        *random = *random * 1664525u + 1013904223u;
        const unsigned other = (unsigned)(((uint64_t)*random * (i + 1)) >> 32), was = order[i];
        order[i] = order[other], order[other] = was;
    }
}

// 0, or 1 where some threads of a group ended while others wait at a barrier
extern "C" int stand_in_launch(void (*call)(void**), void** args, int groups, int spans, int threads, uint32_t random) {
    unsigned* order = (unsigned*)malloc(sizeof(unsigned) * (groups * spans + threads));
    if (!stacks) stacks = (char*)malloc((size_t)MOST * STACK);
    shuffle(order, groups * spans, &random);
    entry = call, arguments = args;
    int apart = 0;
    for (int g = 0; g < groups * spans && !apart; g++) {
        unsigned* threads_of = order + groups * spans;
        stand_in_group = {order[g] % groups, order[g] / groups, 0};
        for (uint32_t* p = shared_start; p < shared_stop; p++) *p = 0x7fc0beefu;
        for (int t = 0; t < threads; t++) states[t] = NEW;
        for (int done = 0; done < threads && !apart;) {
            shuffle(threads_of, threads, &random);
            done = 0;
            for (int t = 0; t < threads; t++) {
                resume(threads_of[t]);
                done += states[threads_of[t]] == DONE;
            }
            apart = done > 0 && done < threads;
        }
    }
    free(order);
    return apart;
}
