// How a parent of Heinsen routing gets its activation: by weighing what it uses and ignores of each child. Its functions
// have the names and meanings of those of EmRule.
#pragma once

#include "em_gaussian.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct HeinsenRule {
    using V = Vec<T>;
    using Problem = HeinsenProblem<T>;
    using Shared = HeinsenShared<T>;

    static constexpr bool EXCLUDES_DEAD = true;
    static constexpr bool DIRECT = true;

    struct Sums {
        V logit;
        INLINE void clear() { logit = V{}; }
    };

    const V *beta_use, *beta_ignore;  // [rows, groups]
    const V *bias;                    // [rows, groups, POSE], or null
    const T least_mass;

    HeinsenRule(const Problem &problem, Scratch &)
        : beta_use(reinterpret_cast<const V *>(problem.beta_use)),
          beta_ignore(reinterpret_cast<const V *>(problem.beta_ignore)),
          bias(reinterpret_cast<const V *>(problem.bias)),
          least_mass(problem.limits.least_mass) {}

    void start(const T *) const {}

    INLINE void add_bias(int64_t at, V *votes) const {
        if (bias)
            for (int d = 0; d < POSE; ++d) votes[d] += bias[at + d];
    }

    // z = sum beta_use r - beta_ignore (a - r),  r = R a
    INLINE void add_vote(int64_t at, V r, T activation, Sums &sums) const {
        sums.logit += beta_use[at] * r - beta_ignore[at] * (activation - r);
    }

    INLINE V logit(int64_t, int64_t, int64_t, V, V, const Sums &sums) const { return sums.logit; }
    INLINE bool logistic() const { return true; }
    INLINE V log_activation(V z) const { return log_sigmoid<T>(z); }
    template <class Statistics>
    INLINE V activation(int64_t, const Statistics &fitted) const {
        return sigmoid<T>(fitted.logit);
    }

    // A dead parent is excluded by a constant, whatever its activation.
    template <class Statistics>
    INLINE V grad_of_log_activation(const Statistics &fitted, V grad) const {
        const V zero = {};
        return fitted.mass > least_mass ? grad * sigmoid<T>(-fitted.logit) : zero;
    }

    // The logit depends neither on the mass nor on the variances: G_z takes the place of G_m.
    template <class Volume>
    INLINE V grad_of_activation(int64_t, int64_t, int64_t, V, const Volume &, V, V grad_logit, const Shared &,
                                V &grad_mass) const {
        grad_mass = grad_logit;
        return V{};
    }

    // G_r = (beta_use + beta_ignore) G_z,  and G_a -= beta_ignore G_z beside what comes through r;
    // G_beta_use += r G_z,  G_beta_ignore -= (a - r) G_z
    INLINE V grad_of_use(int64_t at, V assigned, T activation, V grad_logit, const Shared &shared, V &direct) const {
        const V r = assigned * activation;
        reinterpret_cast<V *>(shared.beta_use)[at] += r * grad_logit;
        reinterpret_cast<V *>(shared.beta_ignore)[at] -= (activation - r) * grad_logit;
        direct -= beta_ignore[at] * grad_logit;
        return (beta_use[at] + beta_ignore[at]) * grad_logit;
    }

    INLINE void grad_of_bias(int64_t at, const V *grad, const Shared &shared) const {
        if (!bias) return;
        V *sum = reinterpret_cast<V *>(shared.bias) + at;
        for (int d = 0; d < POSE; ++d) sum[d] += grad[d];
    }

    void finish(T *) const {}
};

}  // namespace torchcaps::INSTRUCTION_SET
