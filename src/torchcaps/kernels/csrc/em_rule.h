// How a parent of EM routing gets its activation: by its code length (the paper's), or as a mixing proportion.
#pragma once

#include "em_gaussian.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct EmRule {
    using V = Vec<T>;
    using Problem = EmProblem<T>;
    using Shared = EmShared<T>;

    static constexpr bool EXCLUDES_DEAD = false;  // whether a dead parent gets no child in the next E-step
    static constexpr bool DIRECT = false;         // whether activations of children matter beyond r = R a

    // Sums over the votes of a parent, beside those for its Gaussian: none.
    struct Sums {
        INLINE void clear() {}
    };

    const Problem &problem;
    const Wiring &wiring;
    T *field, *grad_field;  // [positions], for mixing proportions

    EmRule(const Problem &problem, Scratch &scratch)
        : problem(problem),
          wiring(problem.wiring),
          field(scratch.take<T>(wiring.positions)),
          grad_field(scratch.take<T>(wiring.positions)) {}

    // The activation of all children in the field of each position, which mixing proportions divide by.
    void start(const T *activation) const {
        if (!problem.mixing) return;
        for (int64_t p = 0; p < wiring.positions; ++p) {
            T sum = 0;
            for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k)
                sum += activation[wiring.child[wiring.field_vote[k]]];
            field[p] = sum;
            grad_field[p] = 0;
        }
    }

    INLINE void add_bias(int64_t, V *) const {}
    INLINE void add_vote(int64_t, V, T, Sums &) const {}

    // z = lambda (beta_a - (16 beta_u + volume / 2) m k),  a = sigmoid(z),  volume = sum_d ln sigma_d^2;
    // mixing proportions: a = m / F, and z is its logarithm.
    INLINE V logit(int64_t t, int64_t p, int64_t group, V volume, V mass, const Sums &) const {
        if (problem.mixing) return log(max(proportion(p, mass), broadcast<T>(problem.limits.least_mass)));
        const V beta_u = reinterpret_cast<const V *>(problem.beta_u)[group];
        const V beta_a = reinterpret_cast<const V *>(problem.beta_a)[group];
        const V cost = (POSE * beta_u + T(0.5) * volume) * (mass * problem.mass_scale);
        return problem.temperature[t] * (beta_a - cost);
    }

    INLINE V proportion(int64_t p, V mass) const {
        return mass / (field[p] > problem.limits.least_mass ? field[p] : problem.limits.least_mass);
    }

    // Whether a = sigmoid(z).
    INLINE bool logistic() const { return !problem.mixing; }

    INLINE V log_activation(V z) const { return problem.mixing ? z : log_sigmoid<T>(z); }

    template <class Statistics>
    INLINE V activation(int64_t p, const Statistics &fitted) const {
        return problem.mixing ? proportion(p, fitted.mass) : sigmoid<T>(fitted.logit);
    }

    // G_z from the gradient by ln a.
    template <class Statistics>
    INLINE V grad_of_log_activation(const Statistics &fitted, V grad) const {
        return problem.mixing ? grad : grad * sigmoid<T>(-fitted.logit);
    }

    // From the gradients by activation and logit to G_m, and to the gradient by the volume, which is returned.
    // volume() is that of `logit`.
    template <class Volume>
    INLINE V grad_of_activation(int64_t t, int64_t p, int64_t group, V mass, const Volume &volume, V grad_activation,
                                V grad_logit, const Shared &shared, V &grad_mass) const {
        const V zero = {};
        if (problem.mixing) {
            // a = m / F:  G_m = G_a / F,  G_F -= G_a a / F
            const bool positive = field[p] > problem.limits.least_mass;
            const T total = positive ? field[p] : problem.limits.least_mass;
            const V proportion = mass / total;
            grad_activation += proportion > problem.limits.least_mass ? grad_logit / proportion : zero;
            grad_mass = grad_activation / total;
            if (positive) grad_field[p] -= hsum<T>(grad_activation * proportion / total);
            return zero;
        }
        // G_cost = -lambda G_z:  G_beta_a -= G_cost,  G_beta_u += 16 m k G_cost,  G_m = k c G_cost,
        // G_volume = m k G_cost / 2,  with c = 16 beta_u + volume / 2
        const T temperature = problem.temperature[t];
        const V beta_u = reinterpret_cast<const V *>(problem.beta_u)[group];
        const V grad_cost = -temperature * grad_logit;
        const V scaled_mass = mass * problem.mass_scale;
        const V code = POSE * beta_u + T(0.5) * volume();
        reinterpret_cast<V *>(shared.beta_a)[group] -= grad_cost;
        reinterpret_cast<V *>(shared.beta_u)[group] += POSE * scaled_mass * grad_cost;
        grad_mass = problem.mass_scale * code * grad_cost;
        return T(0.5) * scaled_mass * grad_cost;
    }

    // The part of G_r by the activation of the parent: it depends on the mass alone.
    INLINE V grad_of_use(int64_t, V, T, V grad_mass, const Shared &, V &) const { return grad_mass; }

    INLINE void grad_of_bias(int64_t, const V *, const Shared &) const {}

    // What children get through the fields that they are in.
    void finish(T *grad_activation) const {
        if (!problem.mixing) return;
        for (int64_t vote = 0; vote < wiring.votes; ++vote)
            grad_activation[wiring.child[vote]] += grad_field[wiring.position[vote]];
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
