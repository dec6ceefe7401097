// EM routing of one sample, backward: exact gradients through all iterations, the votes cast again in each.
// G is the gradient of the loss; docs/kernels.md has the derivation.
#pragma once

#include "em_common.h"

namespace torchcaps::INSTRUCTION_SET {

// One position and one vector of parent types, on the way from iteration t to t - 1.
template <class T, class Spread>
struct BackwardParent : Spread::Gradient {
    Vec<T> inverse_mass;  // 0 for a dead parent
    Vec<T> grad_mass;     // or another part of G_r, see Rule::grad_of_use
};

template <class T, class Rule, class Spread>
struct EmBackward : EmSample<T, Rule, Spread> {
    using Sample = EmSample<T, Rule, Spread>;
    using Shared = typename Rule::Shared;
    using Parent = BackwardParent<T, Spread>;
    using Sample::LANES, Sample::problem, Sample::wiring, Sample::activation, Sample::groups, Sample::rule;
    using typename Sample::Statistics;
    using typename Sample::V;

    const Shared &shared;
    const Statistics *statistics;    // [iterations, positions, groups]
    T *grad_pose, *grad_activation;  // of the children of this sample
    Parent *parents;                 // [positions, groups]
    V *votes;                        // [votes of a child, groups, POSE]
    V *assigned;                     // [votes of a child, groups] R
    V *grad_assigned;                // [votes of a child, groups] G_r, the gradient by r = R a

    EmBackward(const typename Rule::Problem &problem, const EmGradient<T> &gradient, const Shared &shared,
               int64_t sample, Scratch &scratch)
        : Sample(problem, sample, scratch),
          shared(shared),
          statistics(reinterpret_cast<const Statistics *>(gradient.statistics) +
                     sample * problem.iterations * wiring.positions * groups),
          grad_pose(gradient.child_pose + sample * wiring.children * POSE),
          grad_activation(gradient.child_activation + sample * wiring.children),
          parents(scratch.take<Parent>(wiring.positions * groups)),
          votes(scratch.take<V>(wiring.most_votes * groups * POSE)),
          assigned(scratch.take<V>(wiring.most_votes * groups)),
          grad_assigned(scratch.take<V>(wiring.most_votes * groups)) {}

    void run(const EmGradient<T> &gradient, int64_t sample) {
        for (int64_t k = 0; k < wiring.children; ++k) grad_activation[k] = 0;
        for (int64_t k = 0; k < wiring.children * POSE; ++k) grad_pose[k] = 0;
        rule.start(activation);
        for (int64_t t = problem.iterations - 1; t >= 0; --t) {
            for (int64_t p = 0; p < wiring.positions; ++p)
                for (int64_t group = 0; group < groups; ++group) {
                    if (t == problem.iterations - 1)
                        grad_of_outputs(gradient, sample, p, group);
                    else
                        grad_of_gaussian(t, p, group);
                    if (t > 0) prepare_assignment(t - 1, p, group);
                }
            for (int64_t n = 0; n < wiring.children; ++n) t > 0 ? child_backward<false>(n) : child_backward<true>(n);
        }
        rule.finish(grad_activation);
    }

    const Statistics &fitted_at(int64_t t, int64_t p, int64_t group) const {
        return statistics[(t * wiring.positions + p) * groups + group];
    }

    // Last iteration: G_z = G_logit + G_a a (1 - a),  G_mu from the pose,  none by the covariance.
    void grad_of_outputs(const EmGradient<T> &gradient, int64_t sample, int64_t p, int64_t group) {
        const int64_t t = problem.iterations - 1;
        Parent &parent = parents[p * groups + group];
        V grad_activation = {}, grad_logit = {};
        for (int d = 0; d < POSE; ++d) parent.grad_mean[d] = V{};
        for (int lane = 0; lane < LANES && group * LANES + lane < problem.parents; ++lane) {
            const int64_t from = (sample * wiring.positions + p) * problem.parents + group * LANES + lane;
            grad_activation[lane] = gradient.activation[from];
            grad_logit[lane] = gradient.logit[from];
            for (int d = 0; d < POSE; ++d) parent.grad_mean[d][lane] = gradient.pose[from * POSE + d];
        }
        if (rule.logistic()) {
            const V z = fitted_at(t, p, group).logit;
            grad_logit += grad_activation * sigmoid<T>(z) * sigmoid<T>(-z);
            grad_activation = V{};
        }
        parent.clear_spread();
        grad_of_fit(t, p, group, grad_activation, grad_logit);
    }

    // Earlier iterations: G_z = A_0 (1 - a),  and the gradients by mean and covariance from the sums of the E-step.
    void grad_of_gaussian(int64_t t, int64_t p, int64_t group) {
        Parent &parent = parents[p * groups + group];
        const V grad_logit = rule.grad_of_log_activation(fitted_at(t, p, group), parent.grad_logit);
        parent.grad_of_gaussian();
        grad_of_fit(t, p, group, V{}, grad_logit);
    }

    // From the gradients by the logit and the Gaussian of a parent to what G_r and G_V of its votes are made of.
    void grad_of_fit(int64_t t, int64_t p, int64_t group, V grad_activation, V grad_logit) {
        Parent &parent = parents[p * groups + group];
        const Statistics &fitted = fitted_at(t, p, group);
        const V zero = {}, one = broadcast<T>(1);
        const auto alive = fitted.mass > problem.limits.least_mass;
        const auto volume = [&]() INLINED { return Spread::volume(problem, fitted); };
        const V grad_volume = rule.grad_of_activation(t, p, group, fitted.mass, volume, grad_activation, grad_logit,
                                                      shared, parent.grad_mass);
        parent.inverse_mass = alive ? one / fitted.mass : zero;
        parent.grad_of_fit(problem, fitted, alive, grad_volume);
    }

    // The Gaussian that the votes were assigned by in the forward pass.
    void prepare_assignment(int64_t t, int64_t p, int64_t group) {
        Parent &parent = parents[p * groups + group];
        const Statistics &fitted = fitted_at(t, p, group);
        const V volume = parent.gaussian.set(problem, fitted);
        this->activate(parent.gaussian, fitted, volume, group);
        parent.clear_sums();
    }

    // One child: its votes and assignments as in the forward pass, then the gradients by both.
    template <bool FIRST>
    void child_backward(int64_t n) {
        const int64_t first = wiring.start[n], count = wiring.start[n + 1] - first;
        if (count == 0) return;
        T share;
        bool limited = false;
        if constexpr (FIRST) {
            for (int64_t i = 0; i < count; ++i)
                for (int64_t group = 0; group < groups; ++group)
                    this->cast(n, first + i, group, votes + (i * groups + group) * POSE);
            share = this->uniform_assignment(n);
        } else {
            const auto assignment = this->template assign<false>(n, parents, assigned, votes);
            share = 1 / assignment.total;
            limited = hmax<T>(assignment.farthest) >= FARTHEST<T>;
        }
        const T expected = grad_of_assignments<FIRST>(n, first, count, share);
        grad_of_votes<FIRST>(n, first, count, expected, limited);
    }

    // G_r = agreement / m + G_m.
    // Normalizes the assignments R and returns sum R G_r over all parents of the child. This is the gradient by its
    // activation, but for what the rule adds.
    template <bool FIRST>
    INLINE T grad_of_assignments(int64_t n, int64_t first, int64_t count, T share) {
        V agreement = {}, direct = {};
        for (int64_t i = 0; i < count; ++i)
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t k = i * groups + group;
                const Parent &parent = parents[this->parent_of(first + i, group)];
                assigned[k] = FIRST ? broadcast<T>(share) : assigned[k] * share;
                const V grad_use = rule.grad_of_use(this->row_at(first + i, group), assigned[k], activation[n],
                                                    parent.grad_mass, shared, direct);
                grad_assigned[k] = parent.agreement(votes + k * POSE) * parent.inverse_mass + grad_use;
                agreement += assigned[k] * grad_assigned[k];
            }
        const T expected = hsum<T>(agreement);
        grad_activation[n] += expected;
        if constexpr (Rule::DIRECT) grad_activation[n] += hsum<T>(direct);
        return expected;
    }

    // G_V from the M-step and, after the first iteration, the E-step; then to the pose and the weight.
    template <bool FIRST>
    INLINE void grad_of_votes(int64_t n, int64_t first, int64_t count, T expected, bool limited) {
        const T *pose = this->pose + n * POSE;
        V to_pose[POSE] = {};
        for (int64_t i = 0; i < count; ++i)
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t k = i * groups + group;
                Parent &parent = parents[this->parent_of(first + i, group)];
                const V *vote = votes + k * POSE;
                V grad[POSE];
                parent.grad_of_vote(assigned[k] * activation[n] * parent.inverse_mass, vote, grad);
                // G_l = R a (G_r - sum R G_r)
                if (!FIRST)
                    parent.grad_of_density(assigned[k] * activation[n] * (grad_assigned[k] - expected), limited, vote,
                                           grad);
                const int64_t at = this->weight_at(first + i, group);
                rule.grad_of_bias(at, grad, shared);
                cast_votes_backward<T>(pose, this->weight_of(first + i, group), grad, to_pose,
                                       reinterpret_cast<V *>(shared.weight) + at);
            }
        T sums[POSE];
        constexpr int TOGETHER = LANES < POSE ? LANES : POSE;
        for (int d = 0; d < POSE; d += TOGETHER) hsum_each<T, TOGETHER>(to_pose + d, sums + d);
        for (int d = 0; d < POSE; ++d) grad_pose[n * POSE + d] += sums[d];
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
