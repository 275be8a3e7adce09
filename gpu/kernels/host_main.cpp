// The host engine: a plan is a list of instructions; a team of threads runs it, each instruction cut into tasks.
// The names of the ops and formats come before this text, generated from the tables in gnomon.gpu.host_library.
#include "prelude_host.h"
#include "scalar.h"
#include "formats.h"
#include "dot.h"
#include "linear.h"
#include "rows.h"
#include "attention.h"
#include "recurrent.h"
#include "host_team.h"
#include "host_tile.h"
#include "host_row.h"
#include "host_linear.h"
#include "host_attention.h"
#include "host_attention_many.h"
#include "probe.h"
#include "probe_host.h"

extern "C" {

struct Instruction {
    i32 op;
    i32 format;    // of the weight, or of keys and values
    i32 layer;     // whose state it reads or appends to
    i32 selected;  // 1: rows are those whose logits are wanted
    i32 last;      // 1: the next instruction waits for this one and for those before it
    i32 buffer[6]; // indices of the step's buffers, -1 for none: inputs, then the output last
    i32 n[6];      // sizes, in the order of the op's arguments
    float f[2];    // scale, epsilon
    const void* weight[3];
};

struct Step {
    i32 rows, selected, spans, layers, whole, chunks, small;
    const i32* ids;
    const i32* select;
    const i32* positions;
    const float *cos, *sin;
    const Span* span;
    const Carried* carried;  // [layers, spans]
    float* const* buffers;
    float* part;
    size_t scratch_floats;
};

}  // extern "C"

struct Call {  // an instruction with its operands found
    const Instruction& in;
    const Step& step;
    int rows;
    Linear linear;
    Attention attention;

    float* buffer(int i) const { return in.buffer[i] < 0 ? nullptr : step.buffers[in.buffer[i]]; }
    float* out() const { return step.buffers[in.buffer[5]]; }
    const float* weight(int i) const { return (const float*)in.weight[i]; }
    const Carried& carried(int span) const { return step.carried[(size_t)in.layer * step.spans + span]; }

    Call(const Instruction& i, const Step& s) : in(i), step(s), rows(i.selected ? s.selected : s.rows) {
        if (in.op == OP_LINEAR) {
            linear = {buffer(0), (const u32*)in.weight[0], weight(1), buffer(1), out(), buffer(2), weight(2), rows, in.n[0], in.n[1]};
        } else if (in.op >= OP_KV_APPEND && in.op <= OP_ATTENTION_MERGE) {
            attention = {buffer(0), out(), step.span, &carried(0), step.spans, in.n[0], in.n[1], in.n[2], in.n[3], in.f[0],
                         step.part, step.chunks, rows, step.whole && in.op != OP_SCORES ? MANY : TILE};
        }
    }

    int tasks() const;
    bool at_once() const { return step.whole || step.chunks == 1; }  // attention in one phase
    size_t block_bytes() const;  // of the weight of a linear
    void run(int task, float* room) const;
    template <class FK, class FV>
    void run_attention(int task, float* room) const;
    int span_of(int row) const {
        int span = 0;
        while (row >= step.span[span].stop) span++;
        return span;
    }
};

static int segments(int n) { return (n + SEGMENT - 1) / SEGMENT; }

int Call::tasks() const {
    const i32* n = in.n;
    switch (in.op) {
        case OP_ADD: case OP_MUL: case OP_SWIGLU: case OP_DELTA_DECAY: case OP_SETTLE: case OP_EXP_NEG: case OP_SIGMOID:
        case OP_SILU: case OP_GELU_TANH: case OP_SOFTPLUS: case OP_LOG1P01: case OP_ROUND_BF16:
            return segments(rows * n[0]);
        case OP_SLICE: return segments(rows * n[0]);
        case OP_GATHER: case OP_EMBED: case OP_EMBED_POSITIONS: case OP_QUANT: case OP_ROUTE: case OP_LAYER_NORM: case OP_ROW_SUM:
            return rows;
        case OP_RMS_NORM: case OP_GATED_NORM: case OP_L2_NORM: case OP_ROPE: return rows * n[1];
        case OP_LINEAR: return linear_tasks(rows, n[1]);
        case OP_KV_APPEND: return rows * n[1];
        case OP_SCORES: return tiles_of(attention) * step.chunks;
        case OP_EXP_SCORES: return rows * n[0];
        case OP_MIX: return rows * n[0];
        case OP_ATTENTION_SCORES: return step.whole ? tiles_of(attention) : tiles_of(attention) * step.chunks;
        case OP_ATTENTION_MIX: return at_once() ? 0 : tiles_of(attention) * step.chunks;
        case OP_ATTENTION_MERGE: return at_once() ? 0 : tiles_of(attention);
        case OP_CAUSAL_CONV: return step.spans * segments(n[0]);
        case OP_DELTA_RULE: return step.spans * n[1] * ((n[3] + 63) / 64);
        default: return 0;
    }
}

size_t Call::block_bytes() const {
    switch (in.format) {
#define CASE(F) case FORMAT_##F: return 4 * block_words<F>(in.n[0]);
        WEIGHT_FORMATS(CASE)
#undef CASE
        default: return 4 * block_words<I8>(in.n[0]);
    }
}

template <class FK, class FV>
void Call::run_attention(int task, float* room) const {
    const Attention& a = attention;
    switch (in.op) {
        case OP_KV_APPEND: {
            const int row = task / a.kv_heads, head = task % a.kv_heads, span = span_of(row);
            const int position = step.span[span].length + row - step.span[span].start;
            return append_head<FK, FV>(buffer(0) + (size_t)task * a.d, buffer(1) + (size_t)task * a.d, carried(span).kv, head, a.d, position, room);
        }
        case OP_ATTENTION_SCORES:
            if (step.whole) return attention_many<FK, FV>(a, task, room);
            attention_scores<FK>(a, task, room);
            if (!at_once()) return;
            attention_mix<FV>(a, task, room);
            return attention_merge(a, task, room);
        case OP_ATTENTION_MIX: return attention_mix<FV>(a, task, room);
        case OP_SCORES: {  // of one sequence, for a tap: out [rows, heads, T], which is +0.0 before
            const Tile t = tile_at(a, task / a.chunks);
            const int chunk = task % a.chunks, T = a.spans[0].length + a.rows;
            if (chunk < t.lo / CHUNK || chunk > (t.hi - 1) / CHUNK) return;
            float *q = room + UNPACKED, *s = q + (TILE * a.d + 15) / 16 * 16, most[TILE];
            copy_queries(a, t, q);
            score_chunk<FK>(a, t, q, chunk, s, most, room);
            for (int r = 0; r < t.rows * t.heads; r++) {
                const int p = position_of(a, t, r), lo = first_seen(p, a.window);
                for (int j = chunk * CHUNK; j <= p && j < (chunk + 1) * CHUNK; j++) {
                    if (j >= lo) a.out[((size_t)(t.row + r / t.heads) * a.heads + t.head + r % t.heads) * T + j] = s[r * CHUNK + j % CHUNK];
                }
            }
            return;
        }
        case OP_MIX: {  // buffers: e [rows, heads, T], denominators [rows, heads]
            const int head = task % a.heads, T = a.spans[0].length + a.rows;
            for (int block = 0; block < (a.d + 63) / 64; block++) {
                ALIGNED float tot[64];
                for (int p = 0; p < T; p += CHUNK) {
                    const int n = T - p < CHUNK ? T - p : CHUNK;
                    const u32* values = value_terms<FV>(carried(0).kv, head / (a.heads / a.kv_heads), a.d, block, p);
                    tiles(terms_of<FV>(values, n, room), buffer(0) + (size_t)task * T + p, T, n, p == 0, 1, tot);
                }
                float* to = a.out + (size_t)task * a.d + block * 64;
                for (int i = 0; i < 64 && block * 64 + i < a.d; i++) to[i] = settle(F_DIV(settle(tot[i]), buffer(1)[task]));
            }
            return;
        }
    }
}

void Call::run(int task, float* room) const {
    const i32* n = in.n;
    const int all = rows * n[0];
    switch (in.op) {
        case OP_ADD: return add(buffer(0), buffer(1), out(), all, task);
        case OP_MUL: return mul(buffer(0), buffer(1), out(), all, task);
        case OP_SWIGLU: return swiglu(buffer(0), buffer(1), out(), all, task);
        case OP_SETTLE: return map<Settle>(buffer(0), out(), all, task);
        case OP_EXP_NEG: return map<ExpNeg>(buffer(0), out(), all, task);
        case OP_SIGMOID: return map<Sigmoid>(buffer(0), out(), all, task);
        case OP_SILU: return map<Silu>(buffer(0), out(), all, task);
        case OP_GELU_TANH: return map<GeluTanh>(buffer(0), out(), all, task);
        case OP_SOFTPLUS: return map<Softplus>(buffer(0), out(), all, task);
        case OP_LOG1P01: return map<Log1p01>(buffer(0), out(), all, task);
        case OP_ROUND_BF16: return round_bf16(buffer(0), out(), all, task);
        case OP_DELTA_DECAY: return delta_decay(buffer(0), weight(0), weight(1), out(), all, n[0], task);
        case OP_SLICE: return slice(buffer(0), out(), all, n[1], n[2], n[3], task);
        case OP_GATHER: return gather(buffer(0), step.select, out(), n[0], task);
        case OP_QUANT: return quant_rows(buffer(0), out(), buffer(1), n[0], task, room);
        case OP_ROUTE: return route(buffer(0), out(), n[0], n[1], n[2], task, room);
        case OP_LAYER_NORM: return layer_norm(buffer(0), weight(0), weight(1), out(), n[0], in.f[0], task, room);
        case OP_ROW_SUM: return row_sum(buffer(0), out(), n[0], task, room);
        case OP_RMS_NORM: return rms_norm(buffer(0), weight(0), out(), n[0], in.f[0], task, room);
        case OP_GATED_NORM: return gated_norm(buffer(0), weight(0), buffer(1), out(), n[0], in.f[0], task, room);
        case OP_L2_NORM: return l2_norm(buffer(0), out(), n[0], in.f[0], task, room);
        case OP_ROPE: return rope(buffer(0), step.cos, step.sin, out(), n[1], n[0], n[2], task);
        case OP_EMBED: case OP_EMBED_POSITIONS: {
            const i32* which = in.op == OP_EMBED ? step.ids : step.positions;
            switch (in.format) {
#define CASE(F) case FORMAT_##F: return embed<F>((const u32*)in.weight[0], which, out(), n[0], task);
                WEIGHT_FORMATS(CASE)
#undef CASE
            }
            return;
        }
        case OP_LINEAR:
            switch (in.format) {
#define CASE(F) case FORMAT_##F: return linear_task<F>(linear, task, room);
                WEIGHT_FORMATS(CASE)
#undef CASE
                case FORMAT_I8: return linear_int8_task(linear, task, room);
            }
            return;
        case OP_KV_APPEND: case OP_SCORES: case OP_MIX: case OP_ATTENTION_SCORES: case OP_ATTENTION_MIX:
            if (in.format == FORMAT_F32) return run_attention<F32, F32>(task, room);
            if (in.format == FORMAT_BF16) return run_attention<BF16, BF16>(task, room);
            return run_attention<Q8, V8>(task, room);
        case OP_ATTENTION_MERGE: return attention_merge(attention, task, room);
        case OP_EXP_SCORES: {  // of one sequence, for a tap: s [rows, heads, T]
            const int T = n[4], p = step.span[0].length + task / n[0], lo = first_seen(p, n[3]);
            const float* s = buffer(0) + (size_t)task * T;
            float *e = out() + (size_t)task * T, m = -INFINITY;
            for (int j = lo; j <= p; j++) m = larger(m, s[j]);
            memcpy(e, s, sizeof(float) * T);
            return exp_positions(e, T, lo, p + 1, m);
        }
        case OP_CAUSAL_CONV: {
            const int parts = segments(n[0]), span = task / parts, start = step.span[span].start;
            const Carried& c = carried(span);
            const size_t at = (size_t)start * n[0];
            return causal_conv(buffer(0) + at, weight(0), c.conv, c.next_conv, out() + at, step.span[span].stop - start, n[0], n[1], task % parts);
        }
        case OP_DELTA_RULE: {  // sizes: key heads, value heads, dk, dv
            const int parts = n[1] * ((n[3] + 63) / 64), span = task / parts, start = step.span[span].start;
            const Carried& c = carried(span);
            const size_t keys = (size_t)start * n[0] * n[2], values = (size_t)start * n[1] * n[3], heads = (size_t)start * n[1];
            const Delta a = {buffer(0) + keys, buffer(1) + keys, buffer(2) + values, buffer(3) + heads, buffer(4) + heads,
                             c.delta, c.next_delta, out() + values, step.span[span].stop - start, n[0], n[1], n[2], n[3]};
            return delta_rule(a, task % parts);
        }
    }
}

#include "host_pool.h"
#include "host_passes.h"

#define SHARES 64  // of a pool that a thread takes, about: few enough that taking costs little, many enough to end together

extern "C" {

void* team_new(int threads) { return new Team(threads); }
void team_free(void* team) { delete (Team*)team; }

void plan_run(void* handle, const Instruction* plan, int count, const Step* step) {
    Team& team = *(Team*)handle;
    team.run([&](int thread) {
        static thread_local Pool pool;
        for (int i = 0; i < count;) {
            i = pool.read(plan, i, count, *step);
            if (pool.total == 0) continue;
            const int some = pool.total / (SHARES * team.threads) + 1;
            for (int task, n; (n = team.take(thread, pool.total, some, &task)) > 0;) {
                for (const int stop = task + n; task < stop; task++) {
                    int own = task;
                    pool.call_of(&own).run(own, team.room(thread));
                }
            }
            team.barrier(Ahead{plan, step->rows == 1 ? i : count, count, thread, team.threads, *step});
        }
    }, step->scratch_floats, step->small);
}

// Floats of scratch per thread, and of `part` per tile and chunk
size_t scratch_floats(int chunks, int d) {
    const size_t linear = CHUNK * 64 + 2 * PIECE * 64, attention = attention_scratch(chunks, d);
    return linear > attention ? linear : attention;
}
size_t part_floats_of(int d) { return part_floats(d); }

}  // extern "C"
