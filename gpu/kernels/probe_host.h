// The operations of probe.h on the host: loops over arrays, which the compiler vectorises as it does the kernels.
// An operation of fewer than four inputs is given its first again; the compiler drops what it does not read.
#pragma once

#define PROBE_LOOP(name, In, Out, expression)                                                                \
    extern "C" void probe_##name(const In* first, const In* second, const In* third, const In* fourth, Out* out, \
                                 i32 n) {                                                                    \
        for (i32 i = 0; i < n; i++) {                                                                        \
            const In a = first[i], b = second[i], c = third[i], d = fourth[i];                               \
            (void)b, (void)c, (void)d;                                                                       \
            out[i] = expression;                                                                             \
        }                                                                                                    \
    }

PROBE_OPERATIONS(PROBE_LOOP)
