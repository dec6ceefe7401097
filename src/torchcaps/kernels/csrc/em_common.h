// EM routing of one sample: what the forward and the backward pass share, above all the E-step.
//
// Rule is how a parent gets its activation and what is added to its votes: EmRule, or HeinsenRule. Spread is the kind of
// covariance: Diagonal, or Rows.
#pragma once

#include "em_diagonal.h"
#include "em_rows.h"
#include "em_votes.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T, class Rule, class Spread>
struct EmSample {
    using V = Vec<T>;
    using Gaussian = typename Spread::Gaussian;
    using Statistics = typename Spread::Statistics;
    static constexpr int LANES = Lanes<T>::count;

    const typename Rule::Problem &problem;
    const Wiring &wiring;
    const T *pose, *activation;  // of the children of this sample
    int64_t groups;              // vectors of parent types at one position
    Rule rule;

    EmSample(const typename Rule::Problem &problem, int64_t sample, Scratch &scratch)
        : problem(problem),
          wiring(problem.wiring),
          pose(problem.pose + sample * wiring.children * POSE),
          activation(problem.activation + sample * wiring.children),
          groups(problem.padded / LANES),
          rule(problem, scratch) {}

    // Index into arrays of [positions, groups].
    INLINE int64_t parent_of(int64_t vote, int64_t group) const { return wiring.position[vote] * groups + group; }

    // Index into arrays of [rows, groups].
    INLINE int64_t row_at(int64_t vote, int64_t group) const { return wiring.row[vote] * groups + group; }

    // Index into arrays like the weight, of [rows, groups, POSE].
    INLINE int64_t weight_at(int64_t vote, int64_t group) const { return row_at(vote, group) * POSE; }

    INLINE const V *weight_of(int64_t vote, int64_t group) const {
        return reinterpret_cast<const V *>(problem.weight) + weight_at(vote, group);
    }

    INLINE const T *offset_of(int64_t child) const {
        return problem.offset ? problem.offset + child / problem.rows * POSE : nullptr;
    }

    INLINE void cast(int64_t child, int64_t vote, int64_t group, V *votes) const {
        cast_votes<T>(pose + child * POSE, weight_of(vote, group), offset_of(child), votes);
        rule.add_bias(weight_at(vote, group), votes);
    }

    // Assignment in the first iteration: 1 / (number of parents of this child).
    INLINE T uniform_assignment(int64_t child) const {
        const int64_t votes = wiring.start[child + 1] - wiring.start[child];
        return votes ? T(1) / T(votes * problem.parents) : T(0);
    }

    // Completes a Gaussian whose volume is known, so that the E-step can read it.
    INLINE void activate(Gaussian &gaussian, const Statistics &fitted, V volume, int64_t group) const {
        gaussian.log_peak = rule.log_activation(fitted.logit) - T(0.5) * volume - HALF_LOG_TWO_PI<T>;
        for (int lane = 0; lane < LANES; ++lane)
            if (group * LANES + lane >= problem.parents) gaussian.log_peak[lane] = -__builtin_inf();
        if constexpr (Rule::EXCLUDES_DEAD) gaussian.exclude_dead(fitted.mass > problem.limits.least_mass);
    }

    struct Assignment {
        T total;     // what the weights add up to
        V farthest;  // the largest squared distances, before they are limited
    };

    // E-step of one child. Per parent, with the squared distance q = sum_d ((V_d - mu_d) / sigma_d)^2 of the iteration
    // before, or that of Rows,
    //
    //     l = ln a + ln N(V; mu, sigma^2) = log_peak - q / 2
    //     R = softmax(l) over all parents of the child, at all positions
    //
    // Writes exp(l - max l) to weights [votes of the child, groups] and returns their sum, for the caller to divide by.
    // Writes the votes to store [votes of the child, groups, POSE], minus the mean if CENTERED.
    template <bool CENTERED, class Parent>
    INLINE Assignment assign(int64_t child, const Parent *parents, V *weights, V *store) const {
        const int64_t first = wiring.start[child], count = wiring.start[child + 1] - first;
        V peaks = broadcast<T>(-__builtin_inf()), farthest = {};
        for (int64_t i = 0; i < count; ++i)
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t k = i * groups + group;
                const Gaussian &gaussian = parents[parent_of(first + i, group)].gaussian;
                V *stored = store + k * POSE, local[POSE];
                V *votes = CENTERED ? local : stored;
                cast(child, first + i, group, votes);
                V square = gaussian.template distance<CENTERED>(votes, stored);
                farthest = max(farthest, square);
                square = square < FARTHEST<T> ? square : broadcast<T>(FARTHEST<T>);
                weights[k] = gaussian.log_peak - T(0.5) * square;
                peaks = max(peaks, weights[k]);
            }
        const T peak = hmax<T>(peaks);
        V totals = {};
        for (int64_t k = 0; k < count * groups; ++k) {
            weights[k] = exp(weights[k] - peak);
            totals += weights[k];
        }
        return {hsum<T>(totals), farthest};
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
