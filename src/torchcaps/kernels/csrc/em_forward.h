// EM routing of one sample, forward. docs/kernels.md has the derivation and the order of the loops.
#pragma once

#include "em_votes.h"

namespace torchcaps::INSTRUCTION_SET {

// What a group of parents (one position, one vector of types) holds while it is fitted: the Gaussian of
// the iteration before, by which votes are assigned, and sums over the votes assigned.
enum ForwardSlot {
    F_MEAN = 0,
    F_SCALE = POSE,           // 1 / sigma
    F_BASE = 2 * POSE,        // ln activation + ln of the density at its peak
    F_MASS = 2 * POSE + 1,    // sum of r
    F_FIRST = 2 * POSE + 2,   // sum of r (vote - mean)
    F_SECOND = 3 * POSE + 2,  // sum of r (vote - mean)^2
    F_SHIFT = 4 * POSE + 2,   // low part of the mean / sigma
    F_SLOTS = 5 * POSE + 2,
};

template <class T>
struct EmForward {
    using V = Vec<T>;
    static constexpr int LANES = Lanes<T>::count;

    const EmProblem<T> &problem;
    const Wiring &wiring;
    const T *pose, *activation;
    int64_t groups;  // of parents at one position
    V *slots;        // [positions, groups, F_SLOTS]
    V *assigned;     // [votes, groups] r = R a
    V *distance;     // [most votes of a child, groups, POSE] votes, centred
    T *field;        // [positions]
    T *shifted;      // [positions, groups] whether F_SHIFT is to be looked at

    static int64_t scratch(const EmProblem<T> &problem) {
        const int64_t lanes = problem.padded;
        return problem.wiring.positions * lanes * F_SLOTS + problem.wiring.votes * lanes +
               most_votes(problem.wiring) * lanes * POSE + problem.wiring.positions * (1 + lanes) + PADDING;
    }

    EmForward(const EmProblem<T> &problem, int64_t sample, T *scratch)
        : problem(problem),
          wiring(problem.wiring),
          pose(problem.pose + sample * wiring.children * POSE),
          activation(problem.activation + sample * wiring.children),
          groups(problem.padded / LANES) {
        slots = reinterpret_cast<V *>(scratch);
        assigned = slots + wiring.positions * groups * F_SLOTS;
        distance = assigned + wiring.votes * groups;
        field = reinterpret_cast<T *>(distance + most_votes(wiring) * groups * POSE);
        shifted = field + wiring.positions;
    }

    INLINE const V *weight_of(int64_t vote, int64_t group) const {
        return reinterpret_cast<const V *>(problem.weight) + (wiring.row[vote] * groups + group) * POSE;
    }

    INLINE V *slot_of(int64_t vote, int64_t group) {
        return slots + (wiring.position[vote] * groups + group) * F_SLOTS;
    }

    void run(const EmOutput<T> &output, int64_t sample) {
        if (problem.mixing) field_activation(wiring, activation, field);
        const int64_t size = wiring.positions * problem.padded * EM_STATISTICS;
        for (int64_t t = 0; t < problem.iterations; ++t) {
            clear_sums();
            if (t == 0) {
                seed_means();
                add_evenly();
            } else {
                add_by_density();
            }
            T *statistics = output.statistics + (sample * problem.iterations + t) * size;
            for (int64_t p = 0; p < wiring.positions; ++p)
                for (int64_t group = 0; group < groups; ++group) fit(t, p, group, statistics);
            if (t + 1 == problem.iterations) write(output, sample, statistics);
        }
    }

    void clear_sums() {
        for (int64_t k = 0; k < wiring.positions * groups; ++k)
            for (int d = F_MASS; d < F_SHIFT; ++d) slots[k * F_SLOTS + d] = V{};
    }

    // Sums are taken around the vote of an active child, so that the variance does not drown in the mean's
    // square; the vote of a dead child might be of quite another scale.
    void seed_means() {
        for (int64_t p = 0; p < wiring.positions; ++p) {
            const bool empty = wiring.field_start[p] == wiring.field_start[p + 1];
            const int64_t vote = empty ? 0 : most_active(p);
            for (int64_t group = 0; group < groups; ++group) {
                V *slot = slots + (p * groups + group) * F_SLOTS;
                for (int d = 0; d < POSE; ++d) slot[F_MEAN + d] = V{};
                if (empty) continue;
                const int64_t child = wiring.child[vote];
                cast_votes<T>(pose + child * POSE, weight_of(vote, group), offset_of(problem, child), slot + F_MEAN);
            }
        }
    }

    // The first vote of a child that is at least half active, or else the one of the most active child.
    int64_t most_active(int64_t p) const {
        int64_t best = wiring.field_vote[wiring.field_start[p]];
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k) {
            if (activation[wiring.child[best]] >= T(0.5)) return best;
            const int64_t vote = wiring.field_vote[k];
            if (activation[wiring.child[vote]] > activation[wiring.child[best]]) best = vote;
        }
        return best;
    }

    INLINE void add(V *slot, V r, const V *centred) {
        slot[F_MASS] += r;
        for (int d = 0; d < POSE; ++d) {
            const V weighted = r * centred[d];
            slot[F_FIRST + d] += weighted;
            slot[F_SECOND + d] += weighted * centred[d];
        }
    }

    void add_evenly() {
        for (int64_t n = 0; n < wiring.children; ++n) {
            const V r = broadcast<T>(activation[n] * even_share(problem, n));
            const T *offset = offset_of(problem, n);
            for (int64_t vote = wiring.start[n]; vote < wiring.start[n + 1]; ++vote)
                for (int64_t group = 0; group < groups; ++group) {
                    V *slot = slot_of(vote, group);
                    V centred[POSE];
                    cast_votes<T>(pose + n * POSE, weight_of(vote, group), offset, centred);
                    for (int d = 0; d < POSE; ++d) centred[d] -= slot[F_MEAN + d];
                    assigned[vote * groups + group] = r;
                    add(slot, r, centred);
                }
        }
    }

    // E-step and M-step in one: a child's votes are cast once, kept in the first cache while the child is shared
    // out among all its parents, and added to their sums.
    void add_by_density() {
        for (int64_t n = 0; n < wiring.children; ++n) {
            const int64_t first = wiring.start[n], last = wiring.start[n + 1];
            const T *offset = offset_of(problem, n);
            V peaks = broadcast<T>(-__builtin_inf());
            for (int64_t vote = first; vote < last; ++vote)
                for (int64_t group = 0; group < groups; ++group) {
                    const V *slot = slot_of(vote, group);
                    V *centred = distance + ((vote - first) * groups + group) * POSE;
                    V votes[POSE];
                    cast_votes<T>(pose + n * POSE, weight_of(vote, group), offset, votes);
                    RowSums<T> squares;
                    with_scaled<T>([&](int d) INLINED { return centred[d] = votes[d] - slot[F_MEAN + d]; },
                                   slot + F_SCALE, slot + F_SHIFT, shifted[wiring.position[vote] * groups + group] > 0,
                                   [&](int d, V scaled) INLINED { squares.add(d, scaled * scaled); });
                    V square = squares.total();
                    square = square < FARTHEST<T> ? square : broadcast<T>(FARTHEST<T>);
                    const V logit = slot[F_BASE] - T(0.5) * square;
                    assigned[vote * groups + group] = logit;
                    peaks = max(peaks, logit);
                }
            const T peak = hmax<T>(peaks);
            V totals = {};
            for (int64_t k = first * groups; k < last * groups; ++k) {
                assigned[k] = exp(assigned[k] - peak);
                totals += assigned[k];
            }
            const T share = last > first ? activation[n] / hsum<T>(totals) : T(0);
            for (int64_t vote = first; vote < last; ++vote)
                for (int64_t group = 0; group < groups; ++group) {
                    const V r = assigned[vote * groups + group] *= share;
                    add(slot_of(vote, group), r, distance + ((vote - first) * groups + group) * POSE);
                }
        }
    }

    // M-step of one group of parents, from its sums.
    void fit(int64_t t, int64_t p, int64_t group, T *statistics) {
        V *slot = slots + (p * groups + group) * F_SLOTS;
        V *kept = reinterpret_cast<V *>(statistics) + (p * groups + group) * EM_STATISTICS;
        const V zero = {}, one = broadcast<T>(1);
        const V mass = slot[F_MASS];
        const auto alive = mass > DEAD<T>;
        const V inverse = one / (alive ? mass : one);
        // Where the mean moved by several sigma, the variance below is a difference of large numbers. A vote that
        // sums were seeded with is several sigma off more often; few votes cost little to look at twice.
        const T far = t == 0 ? T(16) : T(4);
        const int64_t field_size = wiring.field_start[p + 1] - wiring.field_start[p];
        V unsafe = broadcast<T>(field_size < 64);
        for (int d = 0; d < POSE; ++d) {
            const V moved = slot[F_FIRST + d] * inverse;
            const V variance = slot[F_SECOND + d] * inverse - moved * moved;
            split(alive ? slot[F_MEAN + d] : zero, alive ? moved : zero, kept[S_MEAN + d], kept[S_LOW + d]);
            kept[S_VARIANCE + d] = alive ? max(variance, zero) : zero;
            unsafe = alive && (moved * moved > far * (variance + problem.epsilon)) ? one : unsafe;
        }
        if (hmax<T>(unsafe) > 0) {
            // A mean that moved by 10^k times sigma is wrong by 10^(k - 7) of them in float32, and is better by as
            // much after each pass: one is enough, except among votes of very different scales.
            constexpr int MOST_PASSES = 5;
            V again = one;
            for (int pass = 0; pass < MOST_PASSES && hmax<T>(again) > 0; ++pass) {
                V sum[POSE] = {}, square[POSE] = {};
                refine(p, group, kept + S_MEAN, sum, square);
                again = zero;
                for (int d = 0; d < POSE; ++d) {
                    const V low = alive ? sum[d] * inverse : zero, step = 16 * ROUNDOFF<T> * kept[S_MEAN + d];
                    const V variance = alive ? max(square[d] * inverse - low * low, zero) : zero;
                    again = low * low > T(1e-6) * variance && low * low > step * step ? one : again;
                    kept[S_VARIANCE + d] = variance;
                    split(kept[S_MEAN + d], low, kept[S_MEAN + d], kept[S_LOW + d]);
                }
            }
        }
        for (int d = 0; d < POSE; ++d) kept[S_VARIANCE + d] += least_variance<T>(problem.epsilon, kept[S_MEAN + d]);
        const V volume = log_volume<T>(kept + S_VARIANCE);
        kept[S_MASS] = mass;
        V log_prior;
        if (problem.mixing) {
            const V presence = mass / (field[p] > DEAD<T> ? field[p] : DEAD<T>);
            log_prior = log(max(presence, broadcast<T>(DEAD<T>)));
            kept[S_LOGIT] = log_prior;
        } else {
            const V beta_u = reinterpret_cast<const V *>(problem.beta_u)[group];
            const V beta_a = reinterpret_cast<const V *>(problem.beta_a)[group];
            const V cost = (POSE * beta_u + T(0.5) * volume) * (mass * problem.mass_scale);
            kept[S_LOGIT] = problem.temperature[t] * (beta_a - cost);
            log_prior = log_sigmoid<T>(kept[S_LOGIT]);
        }
        for (int d = 0; d < POSE; ++d) {
            slot[F_MEAN + d] = kept[S_MEAN + d];
            slot[F_SCALE + d] = one / sqrt_lanes<T>(kept[S_VARIANCE + d]);
            slot[F_SHIFT + d] = kept[S_LOW + d] * slot[F_SCALE + d];
        }
        shifted[p * groups + group] = find_shift<T>(slot + F_SHIFT);
        slot[F_BASE] = log_prior - T(0.5) * volume - HALF_VOLUME<T>;
        mask_padding<T>(slot[F_BASE], group * LANES, problem.parents);
    }

    // The sums around the mean itself, votes cast anew: the exact second pass.
    void refine(int64_t p, int64_t group, const V *mean, V *sum, V *square) {
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k) {
            const int64_t vote = wiring.field_vote[k], child = wiring.child[vote];
            const V r = assigned[vote * groups + group];
            V votes[POSE];
            cast_votes<T>(pose + child * POSE, weight_of(vote, group), offset_of(problem, child), votes);
            for (int d = 0; d < POSE; ++d) {
                const V centred = votes[d] - mean[d];
                const V weighted = r * centred;
                sum[d] += weighted;
                square[d] += weighted * centred;
            }
        }
    }

    void write(const EmOutput<T> &output, int64_t sample, const T *statistics) {
        const V *kept = reinterpret_cast<const V *>(statistics);
        for (int64_t p = 0; p < wiring.positions; ++p)
            for (int64_t group = 0; group < groups; ++group, kept += EM_STATISTICS) {
                const V presence = problem.mixing ? kept[S_MASS] / (field[p] > DEAD<T> ? field[p] : DEAD<T>)
                                                  : sigmoid<T>(kept[S_LOGIT]);
                for (int lane = 0; lane < LANES && group * LANES + lane < problem.parents; ++lane) {
                    const int64_t to = (sample * wiring.positions + p) * problem.parents + group * LANES + lane;
                    output.activation[to] = presence[lane];
                    output.logit[to] = kept[S_LOGIT][lane];
                    for (int d = 0; d < POSE; ++d) output.pose[to * POSE + d] = kept[S_MEAN + d][lane];
                }
            }
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
