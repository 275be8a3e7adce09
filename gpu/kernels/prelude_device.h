// What every GPU target shares: a lane is a thread, 64 of them are one part of a group, and a task is a group.
// The prelude of the target, which says how its compiler spells a word, comes first.
#pragma once

#define TASK FN void
#define LEAF FN

#define LANES(i) for (int i = lane, lane_turn = 0; lane_turn < 1; lane_turn++)  // once, as this lane
#define FOR_EACH(e, lo, hi) for (int e = (lo) + lane; e < (hi); e += 64)
#define FIRST_LANE (lane == 0)
#define LANE_PARAM , int lane
#define LANE_ARG , lane
#define NL 1            // a thread holds its own copy of a private value alone
#define PL(i) 0
#define SIDE 1          // every lane has a serial sum of its own
#define ALIGNED
#define PREFETCH(words)  // other groups run while one waits for memory
