// EM routing of one sample, backward: exact gradients through all iterations, votes cast anew in each.
// docs/kernels.md has the derivation; names here follow it.
#pragma once

#include "em_votes.h"

namespace torchcaps::INSTRUCTION_SET {

// What a group of parents holds while gradients pass from iteration t ("upper") to t - 1 ("lower").
enum BackwardSlot {
    U_MEAN = 0,
    U_GRAD_MEAN = POSE,
    U_GRAD_VARIANCE = 2 * POSE,
    U_GRAD_CENTRE = 3 * POSE,       // what a child at the mean, with the mean's variance, would add
    U_INVERSE_MASS = 3 * POSE + 1,  // 0 for a dead parent
    U_GRAD_MASS = 3 * POSE + 2,
    L_MEAN = 3 * POSE + 3,
    L_SCALE = 4 * POSE + 3,
    L_BASE = 5 * POSE + 3,
    L_GRAD = 5 * POSE + 4,         // sum of the logits' gradients,
    L_GRAD_FIRST = 5 * POSE + 5,   // the same times (vote - mean) / sigma^2,
    L_GRAD_SECOND = 6 * POSE + 5,  // and times ((vote - mean) / sigma)^2
    L_SHIFT = 7 * POSE + 5,        // low part of the mean / sigma
    B_SLOTS = 8 * POSE + 5,
};

template <class T>
struct EmBackward {
    using V = Vec<T>;
    static constexpr int LANES = Lanes<T>::count;

    const EmProblem<T> &problem;
    const EmShared<T> &shared;
    const Wiring &wiring;
    const T *pose, *activation, *statistics;
    T *grad_pose, *grad_activation;
    int64_t groups;
    V *slots;               // [positions, groups, B_SLOTS]
    V *votes;               // [most votes of a child, groups, POSE]
    V *assigned;            // [most votes of a child, groups] R
    V *grad_assigned;       // the same, the gradient by r = R a
    T *field, *grad_field;  // [positions], for "mixing"
    T *shifted;             // [positions, groups] whether L_SHIFT is to be looked at

    static int64_t scratch(const EmProblem<T> &problem) {
        const int64_t lanes = problem.padded;
        return problem.wiring.positions * (lanes * B_SLOTS + 2 + lanes) +
               most_votes(problem.wiring) * lanes * (POSE + 2) + PADDING;
    }

    EmBackward(const EmProblem<T> &problem, const EmGradient<T> &gradient, const EmShared<T> &shared, int64_t sample,
               T *scratch)
        : problem(problem),
          shared(shared),
          wiring(problem.wiring),
          pose(problem.pose + sample * wiring.children * POSE),
          activation(problem.activation + sample * wiring.children),
          statistics(gradient.statistics +
                     sample * problem.iterations * wiring.positions * problem.padded * EM_STATISTICS),
          grad_pose(gradient.child_pose + sample * wiring.children * POSE),
          grad_activation(gradient.child_activation + sample * wiring.children),
          groups(problem.padded / LANES) {
        slots = reinterpret_cast<V *>(scratch);
        votes = slots + wiring.positions * groups * B_SLOTS;
        assigned = votes + most_votes(wiring) * groups * POSE;
        grad_assigned = assigned + most_votes(wiring) * groups;
        field = reinterpret_cast<T *>(grad_assigned + most_votes(wiring) * groups);
        grad_field = field + wiring.positions;
        shifted = grad_field + wiring.positions;
    }

    INLINE const V *kept_at(int64_t t, int64_t p, int64_t group) const {
        return reinterpret_cast<const V *>(statistics) + ((t * wiring.positions + p) * groups + group) * EM_STATISTICS;
    }

    INLINE int64_t weight_at(int64_t vote, int64_t group) const { return (wiring.row[vote] * groups + group) * POSE; }

    INLINE V *slot_of(int64_t vote, int64_t group) {
        return slots + (wiring.position[vote] * groups + group) * B_SLOTS;
    }

    void run(const EmGradient<T> &gradient, int64_t sample) {
        for (int64_t k = 0; k < wiring.children; ++k) grad_activation[k] = 0;
        for (int64_t k = 0; k < wiring.children * POSE; ++k) grad_pose[k] = 0;
        if (problem.mixing) {
            field_activation(wiring, activation, field);
            for (int64_t p = 0; p < wiring.positions; ++p) grad_field[p] = 0;
        }
        for (int64_t t = problem.iterations - 1; t >= 0; --t) {
            for (int64_t p = 0; p < wiring.positions; ++p)
                for (int64_t group = 0; group < groups; ++group) {
                    if (t == problem.iterations - 1)
                        start_from_outputs(gradient, sample, p, group);
                    else
                        start_from_logits(t, p, group);
                    if (t > 0) prepare_lower(t - 1, p, group);
                }
            for (int64_t n = 0; n < wiring.children; ++n) t > 0 ? pass<false>(n) : pass<true>(n);
        }
        if (problem.mixing)
            for (int64_t vote = 0; vote < wiring.votes; ++vote)
                grad_activation[wiring.child[vote]] += grad_field[wiring.position[vote]];
    }

    void start_from_outputs(const EmGradient<T> &gradient, int64_t sample, int64_t p, int64_t group) {
        const int64_t t = problem.iterations - 1;
        V *slot = slots + (p * groups + group) * B_SLOTS;
        V grad_presence = {}, grad_logit = {}, nothing[POSE] = {};
        for (int d = 0; d < POSE; ++d) slot[U_GRAD_MEAN + d] = V{};
        for (int lane = 0; lane < LANES && group * LANES + lane < problem.parents; ++lane) {
            const int64_t from = (sample * wiring.positions + p) * problem.parents + group * LANES + lane;
            grad_presence[lane] = gradient.activation[from];
            grad_logit[lane] = gradient.logit[from];
            for (int d = 0; d < POSE; ++d) slot[U_GRAD_MEAN + d][lane] = gradient.pose[from * POSE + d];
        }
        if (!problem.mixing) {
            const V z = kept_at(t, p, group)[S_LOGIT];
            grad_logit += grad_presence * sigmoid<T>(z) * sigmoid<T>(-z);
            grad_presence = V{};
        }
        pass_parent(t, p, group, grad_presence, grad_logit, nothing);
    }

    // The E-step's logits at this iteration were ln activation - volume / 2 - distance^2 / 2.
    void start_from_logits(int64_t t, int64_t p, int64_t group) {
        V *slot = slots + (p * groups + group) * B_SLOTS;
        const V z = kept_at(t, p, group)[S_LOGIT];
        const V grad_logit = problem.mixing ? slot[L_GRAD] : slot[L_GRAD] * sigmoid<T>(-z);
        V grad_variance[POSE];
        for (int d = 0; d < POSE; ++d) {
            const V scale = slot[L_SCALE + d];
            slot[U_GRAD_MEAN + d] = slot[L_GRAD_FIRST + d];
            // The difference first: where children are one sigma off, as two children always are, it nearly cancels.
            grad_variance[d] = T(0.5) * (slot[L_GRAD_SECOND + d] - slot[L_GRAD]) * scale * scale;
        }
        pass_parent(t, p, group, V{}, grad_logit, grad_variance);
    }

    // From the gradients by a parent's activation and Gaussian to those by what its votes add up to.
    void pass_parent(int64_t t, int64_t p, int64_t group, V grad_presence, V grad_logit, const V *grad_variance) {
        V *slot = slots + (p * groups + group) * B_SLOTS;
        const V *kept = kept_at(t, p, group);
        const V zero = {}, one = broadcast<T>(1);
        const V mass = kept[S_MASS];
        V grad_volume = {};
        const auto alive = mass > DEAD<T>;
        if (problem.mixing) {
            const bool seen = field[p] > DEAD<T>;
            const T total = seen ? field[p] : DEAD<T>;
            const V presence = mass / total;
            grad_presence += presence > DEAD<T> ? grad_logit / presence : zero;
            slot[U_GRAD_MASS] = grad_presence / total;
            if (seen) grad_field[p] -= hsum<T>(grad_presence * presence / total);
        } else {
            const T temperature = problem.temperature[t];
            const V beta_u = reinterpret_cast<const V *>(problem.beta_u)[group];
            const V grad_cost = -temperature * grad_logit;
            const V scaled_mass = mass * problem.mass_scale;
            const V code = POSE * beta_u + T(0.5) * log_volume<T>(kept + S_VARIANCE);
            reinterpret_cast<V *>(shared.beta_a)[group] -= grad_cost;
            reinterpret_cast<V *>(shared.beta_u)[group] += POSE * scaled_mass * grad_cost;
            grad_volume = T(0.5) * scaled_mass * grad_cost;
            slot[U_GRAD_MASS] = problem.mass_scale * code * grad_cost;
        }
        slot[U_INVERSE_MASS] = alive ? one / mass : zero;
        slot[U_GRAD_CENTRE] = zero;
        for (int d = 0; d < POSE; ++d) {
            slot[U_MEAN + d] = kept[S_MEAN + d];
            // A dead parent has no mean and no variance that votes could move; 0 times an infinity would be NaN.
            slot[U_GRAD_MEAN + d] = alive ? slot[U_GRAD_MEAN + d] : zero;
            slot[U_GRAD_VARIANCE + d] = alive ? grad_variance[d] + grad_volume / kept[S_VARIANCE + d] : zero;
            const V observed = kept[S_VARIANCE + d] - least_variance<T>(problem.epsilon, kept[S_MEAN + d]);
            // With vote - mean = x - low, low is moved out of the sums over x.
            const V low = kept[S_LOW + d], grad_mean = slot[U_GRAD_MEAN + d];
            slot[U_GRAD_CENTRE] += slot[U_GRAD_VARIANCE + d] * (observed - low * low) + low * grad_mean;
            slot[U_GRAD_MEAN + d] = grad_mean - 2 * slot[U_GRAD_VARIANCE + d] * low;
        }
    }

    // The Gaussian that the votes were assigned by, as the forward pass made it.
    void prepare_lower(int64_t t, int64_t p, int64_t group) {
        V *slot = slots + (p * groups + group) * B_SLOTS;
        const V *kept = kept_at(t, p, group);
        for (int d = 0; d < POSE; ++d) {
            slot[L_MEAN + d] = kept[S_MEAN + d];
            slot[L_SCALE + d] = 1 / sqrt_lanes<T>(kept[S_VARIANCE + d]);
            slot[L_SHIFT + d] = kept[S_LOW + d] * slot[L_SCALE + d];
            slot[L_GRAD_FIRST + d] = V{};
            slot[L_GRAD_SECOND + d] = V{};
        }
        const V log_prior = problem.mixing ? kept[S_LOGIT] : log_sigmoid<T>(kept[S_LOGIT]);
        shifted[p * groups + group] = find_shift<T>(slot + L_SHIFT);
        slot[L_GRAD] = V{};
        slot[L_BASE] = log_prior - T(0.5) * log_volume<T>(kept + S_VARIANCE) - HALF_VOLUME<T>;
        mask_padding<T>(slot[L_BASE], group * LANES, problem.parents);
    }

    // One child: its votes, its assignments, their gradients, and back through the votes.
    template <bool FIRST>
    void pass(int64_t n) {
        const int64_t first = wiring.start[n], count = wiring.start[n + 1] - first;
        if (count == 0) return;
        const V *weight = reinterpret_cast<const V *>(problem.weight);
        const T *offset = offset_of(problem, n);
        V peaks = broadcast<T>(-__builtin_inf()), farthest = {};
        for (int64_t k = 0; k < count; ++k)
            for (int64_t group = 0; group < groups; ++group) {
                const V *slot = slot_of(first + k, group);
                V *vote = votes + (k * groups + group) * POSE;
                cast_votes<T>(pose + n * POSE, weight + weight_at(first + k, group), offset, vote);
                if (FIRST) continue;
                RowSums<T> squares;
                with_scaled<T>([&](int d) INLINED { return vote[d] - slot[L_MEAN + d]; }, slot + L_SCALE,
                               slot + L_SHIFT, shifted[wiring.position[first + k] * groups + group] > 0,
                               [&](int d, V scaled) INLINED { squares.add(d, scaled * scaled); });
                V square = squares.total();
                const int64_t at = k * groups + group;
                farthest = max(farthest, square);
                square = square < FARTHEST<T> ? square : broadcast<T>(FARTHEST<T>);
                assigned[at] = slot[L_BASE] - T(0.5) * square;
                peaks = max(peaks, assigned[at]);
            }
        const bool cut = !FIRST && hmax<T>(farthest) >= FARTHEST<T>;
        T share = even_share(problem, n);
        if (!FIRST) {
            const T peak = hmax<T>(peaks);
            V totals = {};
            for (int64_t k = 0; k < count * groups; ++k) {
                assigned[k] = exp(assigned[k] - peak);
                totals += assigned[k];
            }
            share = 1 / hsum<T>(totals);
        }
        V agreement = {};
        for (int64_t k = 0; k < count; ++k)
            for (int64_t group = 0; group < groups; ++group) {
                const V *slot = slot_of(first + k, group);
                const V *vote = votes + (k * groups + group) * POSE;
                RowSums<T> sums;
                for (int d = 0; d < POSE; ++d) {
                    const V centred = vote[d] - slot[U_MEAN + d];
                    sums.add(d, centred * (slot[U_GRAD_MEAN + d] + slot[U_GRAD_VARIANCE + d] * centred));
                }
                const V sum = sums.total() - slot[U_GRAD_CENTRE];
                const int64_t at = k * groups + group;
                assigned[at] = FIRST ? broadcast<T>(share) : assigned[at] * share;
                grad_assigned[at] = sum * slot[U_INVERSE_MASS] + slot[U_GRAD_MASS];
                agreement += assigned[at] * grad_assigned[at];
            }
        const T expected = hsum<T>(agreement);
        grad_activation[n] += expected;
        V to_pose[POSE] = {};
        for (int64_t k = 0; k < count; ++k)
            for (int64_t group = 0; group < groups; ++group) {
                V *slot = slot_of(first + k, group);
                const int64_t at = k * groups + group;
                const V *vote = votes + at * POSE;
                const V share_of_mass = assigned[at] * activation[n] * slot[U_INVERSE_MASS];
                V grad[POSE];
                for (int d = 0; d < POSE; ++d) {
                    const V centred = vote[d] - slot[U_MEAN + d];
                    grad[d] = share_of_mass * (slot[U_GRAD_MEAN + d] + 2 * slot[U_GRAD_VARIANCE + d] * centred);
                }
                if (!FIRST) {
                    const V grad_logit = assigned[at] * activation[n] * (grad_assigned[at] - expected);
                    slot[L_GRAD] += grad_logit;
                    // A distance that was cut does not change with the vote.
                    V grad_distance = grad_logit;
                    if (__builtin_expect(cut, 0)) {
                        RowSums<T> squares;
                        for (int d = 0; d < POSE; ++d) {
                            const V far = (vote[d] - slot[L_MEAN + d]) * slot[L_SCALE + d];
                            squares.add(d, far * far);
                        }
                        grad_distance = squares.total() < FARTHEST<T> ? grad_logit : V{};
                    }
                    with_scaled<T>([&](int d) INLINED { return vote[d] - slot[L_MEAN + d]; }, slot + L_SCALE,
                                   slot + L_SHIFT, shifted[wiring.position[first + k] * groups + group] > 0,
                                   [&](int d, V scaled) INLINED {
                                       const V weighted = grad_distance * scaled;
                                       slot[L_GRAD_FIRST + d] += weighted * slot[L_SCALE + d];
                                       slot[L_GRAD_SECOND + d] += weighted * scaled;
                                       grad[d] -= weighted * slot[L_SCALE + d];
                                   });
                }
                const int64_t where = weight_at(first + k, group);
                push_votes<T>(pose + n * POSE, weight + where, grad, to_pose,
                              reinterpret_cast<V *>(shared.weight) + where);
            }
        T sums[POSE];
        constexpr int TOGETHER = LANES < POSE ? LANES : POSE;
        for (int d = 0; d < POSE; d += TOGETHER) hsum_each<T, TOGETHER>(to_pose + d, sums + d);
        for (int d = 0; d < POSE; ++d) grad_pose[n * POSE + d] += sums[d];
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
