// EM routing of one sample, backward: exact gradients through all iterations, the votes cast again in each.
// G is the gradient of the loss; docs/kernels.md has the derivation.
#pragma once

#include "em_common.h"

namespace torchcaps::INSTRUCTION_SET {

// One position and one vector of parent types, on the way from iteration t to t - 1.
template <class T>
struct BackwardParent {
    // The M-step of iteration t.
    Vec<T> mean[POSE];
    Vec<T> grad_mean[POSE];
    Vec<T> grad_variance[POSE];
    Vec<T> grad_center;   // the part of G_r that all children of the parent have in common
    Vec<T> inverse_mass;  // 0 for a dead parent
    Vec<T> grad_mass;     // or another part of G_r, see Rule::grad_of_use
    // The E-step of iteration t, by the Gaussian of t - 1, and the sums of its gradients.
    Gaussian<T> gaussian;
    Vec<T> grad_logit;         // A_0 = sum of G_l
    Vec<T> grad_first[POSE];   // A_1 = sum of G_l u / sigma
    Vec<T> grad_second[POSE];  // A_2 = sum of G_l u^2

    INLINE void clear_sums() {
        grad_logit = Vec<T>{};
        for (int d = 0; d < POSE; ++d) grad_first[d] = grad_second[d] = Vec<T>{};
    }
};

template <class T, class Rule>
struct EmBackward : EmSample<T, Rule> {
    using Sample = EmSample<T, Rule>;
    using Shared = typename Rule::Shared;
    using Sample::LANES, Sample::problem, Sample::wiring, Sample::activation, Sample::groups, Sample::rule;
    using typename Sample::V;

    const Shared &shared;
    const Statistics<T> *statistics;  // [iterations, positions, groups]
    T *grad_pose, *grad_activation;   // of the children of this sample
    BackwardParent<T> *parents;       // [positions, groups]
    V *votes;                         // [votes of a child, groups, POSE]
    V *assigned;                      // [votes of a child, groups] R
    V *grad_assigned;                 // [votes of a child, groups] G_r, the gradient by r = R a

    EmBackward(const typename Rule::Problem &problem, const EmGradient<T> &gradient, const Shared &shared,
               int64_t sample, Scratch &scratch)
        : Sample(problem, sample, scratch),
          shared(shared),
          statistics(reinterpret_cast<const Statistics<T> *>(gradient.statistics) +
                     sample * problem.iterations * wiring.positions * groups),
          grad_pose(gradient.child_pose + sample * wiring.children * POSE),
          grad_activation(gradient.child_activation + sample * wiring.children),
          parents(scratch.take<BackwardParent<T>>(wiring.positions * groups)),
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

    const Statistics<T> &fitted_at(int64_t t, int64_t p, int64_t group) const {
        return statistics[(t * wiring.positions + p) * groups + group];
    }

    // Last iteration: G_z = G_logit + G_a a (1 - a),  G_mu from the pose,  G_v = 0.
    void grad_of_outputs(const EmGradient<T> &gradient, int64_t sample, int64_t p, int64_t group) {
        const int64_t t = problem.iterations - 1;
        BackwardParent<T> &parent = parents[p * groups + group];
        V grad_activation = {}, grad_logit = {}, grad_variance[POSE] = {};
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
        grad_of_fit(t, p, group, grad_activation, grad_logit, grad_variance);
    }

    // Earlier iterations, from l = ln a - sum_d ln v_d / 2 - sum_d u_d^2 / 2:
    // G_z = A_0 (1 - a),  G_mu = A_1,  G_v = (A_2 - A_0) / (2 v)
    void grad_of_gaussian(int64_t t, int64_t p, int64_t group) {
        BackwardParent<T> &parent = parents[p * groups + group];
        const V grad_logit = rule.grad_of_log_activation(fitted_at(t, p, group), parent.grad_logit);
        V grad_variance[POSE];
        for (int d = 0; d < POSE; ++d) {
            const V scale = parent.gaussian.scale[d];
            parent.grad_mean[d] = parent.grad_first[d];
            // The difference first: where children are one sigma off, as two children always are, it nearly cancels.
            grad_variance[d] = T(0.5) * (parent.grad_second[d] - parent.grad_logit) * scale * scale;
        }
        grad_of_fit(t, p, group, V{}, grad_logit, grad_variance);
    }

    // From the gradients by the logit and the Gaussian of a parent to what G_r and G_V of its votes are made of.
    void grad_of_fit(int64_t t, int64_t p, int64_t group, V grad_activation, V grad_logit, const V *grad_variance) {
        BackwardParent<T> &parent = parents[p * groups + group];
        const Statistics<T> &fitted = fitted_at(t, p, group);
        const V zero = {}, one = broadcast<T>(1);
        const V mass = fitted.mass;
        const auto alive = mass > problem.limits.least_mass;
        const V grad_volume =
            rule.grad_of_activation(t, p, group, fitted, grad_activation, grad_logit, shared, parent.grad_mass);
        parent.inverse_mass = alive ? one / mass : zero;
        parent.grad_center = zero;
        for (int d = 0; d < POSE; ++d) {
            parent.mean[d] = fitted.mean[d];
            // A dead parent has no mean and no variance that votes could move; 0 times an infinity would be NaN.
            const V grad_mean = alive ? parent.grad_mean[d] : zero;
            parent.grad_variance[d] = alive ? grad_variance[d] + grad_volume / fitted.variance[d] : zero;
            const V observed = fitted.variance[d] - least_variance<T>(problem, fitted.mean[d]);
            // With delta = x - low and x = V - rounded mean, low is moved out of the sums over x.
            const V low = fitted.low[d];
            parent.grad_center += parent.grad_variance[d] * (observed - low * low) + low * grad_mean;
            parent.grad_mean[d] = grad_mean - 2 * parent.grad_variance[d] * low;
        }
    }

    // The Gaussian that the votes were assigned by in the forward pass.
    void prepare_assignment(int64_t t, int64_t p, int64_t group) {
        BackwardParent<T> &parent = parents[p * groups + group];
        const Statistics<T> &fitted = fitted_at(t, p, group);
        const V volume = log_volume<T>(fitted.variance);
        this->prepare(fitted, rule.log_activation(fitted.logit), volume, group, parent.gaussian);
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

    // G_r = (sum_d delta (G_mu + G_v delta) - grad_center) / m + G_m,  delta = V - mu.
    // Normalizes the assignments R and returns sum R G_r over all parents of the child. This is the gradient by its
    // activation, but for what the rule adds.
    template <bool FIRST>
    INLINE T grad_of_assignments(int64_t n, int64_t first, int64_t count, T share) {
        V agreement = {}, direct = {};
        for (int64_t i = 0; i < count; ++i)
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t k = i * groups + group;
                const BackwardParent<T> &parent = parents[this->parent_of(first + i, group)];
                const V *vote = votes + k * POSE;
                PoseSum<T> sums;
                for (int d = 0; d < POSE; ++d) {
                    const V centered = vote[d] - parent.mean[d];
                    sums.add(d, centered * (parent.grad_mean[d] + parent.grad_variance[d] * centered));
                }
                assigned[k] = FIRST ? broadcast<T>(share) : assigned[k] * share;
                const V grad_use = rule.grad_of_use(this->row_at(first + i, group), assigned[k], activation[n],
                                                    parent.grad_mass, shared, direct);
                grad_assigned[k] = (sums.total() - parent.grad_center) * parent.inverse_mass + grad_use;
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
                BackwardParent<T> &parent = parents[this->parent_of(first + i, group)];
                const V *vote = votes + k * POSE;
                V grad[POSE];
                // G_V = s (G_mu + 2 G_v delta),  s = r / m
                const V share_of_mass = assigned[k] * activation[n] * parent.inverse_mass;
                for (int d = 0; d < POSE; ++d) {
                    const V centered = vote[d] - parent.mean[d];
                    grad[d] = share_of_mass * (parent.grad_mean[d] + 2 * parent.grad_variance[d] * centered);
                }
                // G_l = R a (G_r - sum R G_r)
                if (!FIRST)
                    grad_of_logit(assigned[k] * activation[n] * (grad_assigned[k] - expected), limited, vote, parent,
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

    // A_0 += G_l,  A_1 += G_l u / sigma,  A_2 += G_l u^2,  G_V -= G_l u / sigma
    INLINE void grad_of_logit(V grad_logit, bool limited, const V *vote, BackwardParent<T> &parent, V *grad) const {
        const Gaussian<T> &gaussian = parent.gaussian;
        parent.grad_logit += grad_logit;
        V grad_distance = grad_logit;
        if (__builtin_expect(limited, 0)) {
            // A distance that was limited does not change with the vote.
            PoseSum<T> squares;
            for (int d = 0; d < POSE; ++d) {
                const V far = (vote[d] - gaussian.mean[d]) * gaussian.scale[d];
                squares.add(d, far * far);
            }
            grad_distance = squares.total() < FARTHEST<T> ? grad_logit : V{};
        }
        gaussian.deviations([&](int d) INLINED { return vote[d] - gaussian.mean[d]; },
                            [&](int d, V scaled) INLINED {
                                const V weighted = grad_distance * scaled;
                                parent.grad_first[d] += weighted * gaussian.scale[d];
                                parent.grad_second[d] += weighted * scaled;
                                grad[d] -= weighted * gaussian.scale[d];
                            });
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
