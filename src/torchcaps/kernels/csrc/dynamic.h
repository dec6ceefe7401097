// Dynamic routing of one sample, lanes along the pose. docs/kernels.md has the derivation.
//
// Both update rules make the logits linear in the votes: b_ij = <vote_ij, guide_j>, where the guide is the sum of
// all poses so far ("accumulate") or the last one ("fixed_point"). So no logits are kept, only guides.
#pragma once

#include "lanes.h"
#include "problem.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct Dynamic {
    using V = Vec<T>;
    static constexpr int LANES = Lanes<T>::count;

    const DynamicProblem<T> &problem;
    int64_t parts;    // vectors in a pose
    int64_t size;     // vectors in the poses of all parents
    int64_t choices;  // parents, padded to whole vectors

    explicit Dynamic(const DynamicProblem<T> &problem)
        : problem(problem),
          parts(problem.padded / LANES),
          size(problem.parents * parts),
          choices((problem.parents + LANES - 1) / LANES * LANES) {}

    int64_t row(int64_t child) const { return problem.shared ? 0 : child; }

    const V *weight_of(int64_t child, int64_t parent) const {
        return reinterpret_cast<const V *>(problem.weight) +
               (row(child) * problem.parents + parent) * problem.size_in * parts;
    }

    // Samples that are handled together: a child's weights are then read once for all of them.
    static constexpr int GROUP = 2;

    int64_t votes_size() const { return problem.children * size * LANES; }

    const T *pose_of(int64_t sample, int64_t child) const {
        return problem.pose + (sample * problem.children + child) * problem.size_in;
    }

    // All votes of a group, [samples, children, parents, parts]. What goes through the same weights is cast together:
    // a child of several samples, or several children if all have the same weights.
    void cast(const Range &samples, V *votes) const {
        const int64_t count = samples.last - samples.first, all = problem.children * size;
        if (!problem.shared && count == GROUP) {
            for (int64_t n = 0; n < problem.children; ++n) {
                const T *poses[] = {pose_of(samples.first, n), pose_of(samples.first + 1, n)};
                V *to[] = {votes + n * size, votes + all + n * size};
                cast_together<GROUP>(poses, weight_of(n, 0), to);
            }
            return;
        }
        for (int64_t s = 0; s < count; ++s) {
            int64_t n = 0;
            for (; problem.shared && n + 4 <= problem.children; n += 4) {
                const T *poses[4];
                V *to[4];
                for (int c = 0; c < 4; ++c) {
                    poses[c] = pose_of(samples.first + s, n + c);
                    to[c] = votes + s * all + (n + c) * size;
                }
                cast_together<4>(poses, weight_of(n, 0), to);
            }
            for (; n < problem.children; ++n) {
                const T *pose = pose_of(samples.first + s, n);
                V *to = votes + s * all + n * size;
                cast_together<1>(&pose, weight_of(n, 0), &to);
            }
        }
    }

    template <int COUNT>
    void cast_together(const T *const *poses, const V *weight, V *const *votes) const {
        int64_t j = 0;
        for (; j + 4 <= problem.parents; j += 4) cast_some<COUNT, 4>(poses, weight, j, votes);
        for (; j < problem.parents; ++j) cast_some<COUNT, 1>(poses, weight, j, votes);
    }

    // Several sums at a time hide the latency of each.
    template <int COUNT, int PARENTS>
    INLINE void cast_some(const T *const *poses, const V *weights, int64_t j, V *const *votes) const {
        const int64_t stride = problem.size_in * parts;
        for (int64_t part = 0; part < parts; ++part) {
            const V *weight = weights + j * stride + part;
            V sum[COUNT][PARENTS] = {};
            for (int64_t k = 0; k < problem.size_in; ++k)
                for (int a = 0; a < PARENTS; ++a)
                    for (int c = 0; c < COUNT; ++c) sum[c][a] += poses[c][k] * weight[a * stride + k * parts];
            for (int c = 0; c < COUNT; ++c)
                for (int a = 0; a < PARENTS; ++a) votes[c][(j + a) * parts + part] = sum[c][a];
        }
    }

    // The coupling of the first iteration: nothing is known, so that all parents get as much.
    T even_share() const { return T(1) / T(problem.parents + problem.leaky); }

    // How a child is shared out among the parents, given the guides.
    void couple(const V *votes, const V *guide, T *coupling) const {
        T peak = problem.leaky ? T(0) : T(-__builtin_inf());
        for (int64_t j = 0; j < problem.parents; ++j) {
            V sum = {};
            for (int64_t part = 0; part < parts; ++part) sum += votes[j * parts + part] * guide[j * parts + part];
            coupling[j] = hsum<T>(sum);
            peak = coupling[j] > peak ? coupling[j] : peak;
        }
        for (int64_t j = problem.parents; j < choices; ++j) coupling[j] = T(-__builtin_inf());
        V totals = {};
        V *weights = reinterpret_cast<V *>(coupling);
        for (int64_t k = 0; k < choices / LANES; ++k) totals += weights[k] = exp(weights[k] - peak);
        T total = hsum<T>(totals);
        if (problem.leaky) total += exp(broadcast<T>(-peak))[0];
        for (int64_t k = 0; k < choices / LANES; ++k) weights[k] /= total;
    }

    static T square(const V *vector, int64_t parts) {
        V sum = {};
        for (int64_t part = 0; part < parts; ++part) sum += vector[part] * vector[part];
        return hsum<T>(sum);
    }

    // squash(s) = s n / (1 + n^2), n = |s|.
    void squash(const V *total, V *pose) const {
        for (int64_t j = 0; j < problem.parents; ++j) {
            const T n2 = square(total + j * parts, parts), scale = sqrt(n2) / (1 + n2);
            for (int64_t part = 0; part < parts; ++part) pose[j * parts + part] = total[j * parts + part] * scale;
        }
    }

    void squash_backward(const V *total, const V *grad_pose, V *grad_total) const {
        for (int64_t j = 0; j < problem.parents; ++j) {
            const V *s = total + j * parts, *grad = grad_pose + j * parts;
            const T n2 = square(s, parts), n = sqrt(n2), slope = 1 / (1 + n2), scale = n * slope;
            V sum = {};
            for (int64_t part = 0; part < parts; ++part) sum += s[part] * grad[part];
            // (d scale / d n) <s, grad> s / n, in an order that neither 1e-15 nor 1e15 takes out of float32.
            const T along = n2 > 0 ? hsum<T>(sum) * slope * (1 - 2 * n * scale) : T(0);
            const T inverse = n2 > 0 ? 1 / n : T(0);
            for (int64_t part = 0; part < parts; ++part)
                grad_total[j * parts + part] = scale * grad[part] + (s[part] * inverse) * along;
        }
    }

    void follow(const V *pose, V *guide) const {
        for (int64_t k = 0; k < size; ++k) guide[k] = problem.accumulate ? guide[k] + pose[k] : pose[k];
    }

    int64_t forward_scratch() const { return GROUP * votes_size() + 2 * size * LANES + choices; }

    void forward(const Range &samples, T *out, T *totals, T *scratch) const {
        V *votes = reinterpret_cast<V *>(scratch);
        cast(samples, votes);
        for (int64_t sample = samples.first; sample < samples.last; ++sample)
            route(votes + (sample - samples.first) * problem.children * size,
                  out + sample * problem.parents * problem.size_out,
                  reinterpret_cast<V *>(totals) + sample * problem.iterations * size, scratch + GROUP * votes_size());
    }

    // totals: [iterations, parents, parts], what each squash was given.
    void route(const V *votes, T *out, V *totals, T *scratch) const {
        V *guide = reinterpret_cast<V *>(scratch), *pose = guide + size;
        T *coupling = reinterpret_cast<T *>(pose + size);
        for (int64_t k = 0; k < size; ++k) guide[k] = V{};
        for (int64_t j = 0; j < problem.parents; ++j) coupling[j] = even_share();
        for (int64_t t = 0; t < problem.iterations; ++t) {
            V *total = totals + t * size;
            const V *bias = reinterpret_cast<const V *>(problem.bias);
            for (int64_t k = 0; k < size; ++k) total[k] = V{};
            for (int64_t n = 0; n < problem.children; ++n) {
                const V *vote = votes + n * size;
                if (t) couple(vote, guide, coupling);
                for (int64_t j = 0; j < problem.parents; ++j)
                    for (int64_t k = j * parts; k < (j + 1) * parts; ++k) total[k] += coupling[j] * vote[k];
            }
            if (bias)
                for (int64_t k = 0; k < size; ++k) total[k] += bias[k];
            squash(total, pose);
            follow(pose, guide);
        }
        const T *from = reinterpret_cast<const T *>(pose);
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t d = 0; d < problem.size_out; ++d) out[j * problem.size_out + d] = from[j * problem.padded + d];
    }

    // What one sample leaves for the last pass, which turns it into gradients of poses and weights. All of a child
    // lies together, since that pass goes from child to child. In the first iteration children are shared evenly.
    struct Trail {
        V *guide, *grad_total;  // [iterations, parents, parts]
        T *shares;              // [children, iterations - 1, (coupling, gradient by the logit), choices]
    };

    int64_t share_size() const { return 2 * (problem.iterations - 1) * choices; }

    int64_t trail_size() const { return 2 * problem.iterations * size * LANES + problem.children * share_size(); }

    Trail trail_at(T *scratch) const {
        V *guide = reinterpret_cast<V *>(scratch), *grad_total = guide + problem.iterations * size;
        return {guide, grad_total, reinterpret_cast<T *>(grad_total + problem.iterations * size)};
    }

    int64_t gather_scratch() const { return GROUP * votes_size() + 2 * size * LANES; }

    // The trails are those of these samples, all else that of the batch.
    void gather(const Range &samples, const T *grad, const T *totals, T *trails, T *grad_bias, T *scratch) const {
        V *votes = reinterpret_cast<V *>(scratch);
        cast(samples, votes);
        for (int64_t sample = samples.first; sample < samples.last; ++sample)
            gather_one(votes + (sample - samples.first) * problem.children * size,
                       grad + sample * problem.parents * problem.size_out,
                       reinterpret_cast<const V *>(totals) + sample * problem.iterations * size,
                       trail_at(trails + (sample - samples.first) * trail_size()),
                       reinterpret_cast<V *>(grad_bias) + sample * size, scratch + GROUP * votes_size());
    }

    // Gradients of one sample by its totals and logits, last iteration first.
    void gather_one(const V *votes, const T *grad, const V *totals, const Trail &trail, V *grad_bias,
                    T *scratch) const {
        V *grad_pose = reinterpret_cast<V *>(scratch), *grad_guide = grad_pose + size, *pose = grad_pose;
        const int64_t count = problem.iterations;
        for (int64_t k = 0; k < size; ++k) trail.guide[k] = grad_bias[k] = V{};
        for (int64_t t = 0; t + 1 < count; ++t) {
            squash(totals + t * size, pose);
            for (int64_t k = 0; k < size; ++k) trail.guide[(t + 1) * size + k] = trail.guide[t * size + k];
            follow(pose, trail.guide + (t + 1) * size);
        }
        for (int64_t k = 0; k < size; ++k) grad_pose[k] = grad_guide[k] = V{};
        T *entries = reinterpret_cast<T *>(grad_pose);
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t d = 0; d < problem.size_out; ++d)
                entries[j * problem.padded + d] = grad[j * problem.size_out + d];
        for (int64_t t = count - 1; t >= first_iteration(); --t) {
            const V *guide = trail.guide + t * size;
            V *grad_total = trail.grad_total + t * size;
            squash_backward(totals + t * size, grad_pose, grad_total);
            for (int64_t k = 0; k < size; ++k) grad_bias[k] += grad_total[k];
            if (!problem.accumulate)
                for (int64_t k = 0; k < size; ++k) grad_guide[k] = V{};
            for (int64_t n = 0; t && n < problem.children; ++n) {
                T *coupling = trail.shares + n * share_size() + 2 * (t - 1) * choices;
                T *grad_logit = coupling + choices;
                const V *vote = votes + n * size;
                couple(vote, guide, coupling);
                for (int64_t j = 0; j < choices; ++j) grad_logit[j] = 0;
                if (!problem.through_all) continue;
                T expected = 0;
                for (int64_t j = 0; j < problem.parents; ++j) {
                    V sum = {};
                    for (int64_t k = j * parts; k < (j + 1) * parts; ++k) sum += vote[k] * grad_total[k];
                    grad_logit[j] = hsum<T>(sum);
                    expected += coupling[j] * grad_logit[j];
                }
                for (int64_t j = 0; j < problem.parents; ++j) {
                    grad_logit[j] = coupling[j] * (grad_logit[j] - expected);
                    for (int64_t k = j * parts; k < (j + 1) * parts; ++k) grad_guide[k] += grad_logit[j] * vote[k];
                }
            }
            // The guide of iteration t is the pose of t - 1, plus the guide before it if they accumulate.
            for (int64_t k = 0; k < size; ++k) grad_pose[k] = grad_guide[k];
        }
    }

    int64_t first_iteration() const { return problem.through_all ? 0 : problem.iterations - 1; }

    // Votes that go through the same weights are pushed back together, so that those are read and written once.
    static constexpr int TOGETHER = 8;

    int64_t push_scratch() const { return TOGETHER * size * LANES; }

    // The trails are those of these samples, all else that of the batch.
    void push(const Range &children, const Range &samples, T *trails, T *child_grad, V *grad_weight, T *scratch) const {
        // With weights of its own, a child shares them among samples; with common weights, all children do.
        const Range outer = problem.shared ? samples : children, inner = problem.shared ? children : samples;
        for (int64_t fixed = outer.first; fixed < outer.last; ++fixed) {
            int64_t next = inner.first;
            for (; next + TOGETHER <= inner.last; next += TOGETHER)
                push_some<TOGETHER>(fixed, next, samples.first, trails, child_grad, grad_weight, scratch);
            for (; next < inner.last; ++next)
                push_some<1>(fixed, next, samples.first, trails, child_grad, grad_weight, scratch);
        }
    }

    template <int COUNT>
    void push_some(int64_t fixed, int64_t next, int64_t first_sample, T *trails, T *child_grad, V *grad_weight,
                   T *scratch) const {
        V *grad_votes = reinterpret_cast<V *>(scratch);  // [parents, parts, COUNT]
        const T *pose[COUNT];
        T *out[COUNT];
        for (int item = 0; item < COUNT; ++item) {
            const int64_t n = problem.shared ? next + item : fixed, b = problem.shared ? fixed : next + item;
            const int64_t at = (b * problem.children + n) * problem.size_in;
            pose[item] = problem.pose + at;
            out[item] = child_grad + at;
            vote_gradient(trail_at(trails + (b - first_sample) * trail_size()), n, grad_votes + item, COUNT);
        }
        const V *weight = weight_of(problem.shared ? 0 : fixed, 0);
        V *to_weight = grad_weight + (weight - reinterpret_cast<const V *>(problem.weight));
        const int64_t stride = problem.size_in * parts;
        for (int64_t k = 0; k < problem.size_in; ++k) {
            V to_pose[COUNT] = {}, own[COUNT];
            for (int item = 0; item < COUNT; ++item) own[item] = broadcast<T>(pose[item][k]);
            for (int64_t j = 0; j < problem.parents; ++j)
                for (int64_t part = 0; part < parts; ++part) {
                    const int64_t at = j * stride + k * parts + part;
                    const V *grad = grad_votes + (j * parts + part) * COUNT;
                    V sum = to_weight[at];
                    for (int item = 0; item < COUNT; ++item) {
                        sum += own[item] * grad[item];
                        to_pose[item] += weight[at] * grad[item];
                    }
                    to_weight[at] = sum;
                }
            T sums[COUNT];
            hsum_each<T, COUNT>(to_pose, sums);
            for (int item = 0; item < COUNT; ++item) out[item][k] = sums[item];
        }
    }

    // By the votes of child n: each iteration's weighted sum, and the agreement that led to it.
    void vote_gradient(const Trail &trail, int64_t n, V *grad, int64_t stride) const {
        const T *shares = trail.shares + n * share_size();
        const bool from_start = first_iteration() == 0;
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t part = 0; part < parts; ++part) {
                const int64_t at = j * parts + part;
                V sum = from_start ? even_share() * trail.grad_total[at] : V{};
                for (int64_t t = from_start ? 1 : first_iteration(); t < problem.iterations; ++t) {
                    const T *coupling = shares + 2 * (t - 1) * choices;
                    sum += coupling[j] * trail.grad_total[t * size + at] +
                           coupling[choices + j] * trail.guide[t * size + at];
                }
                grad[at * stride] = sum;
            }
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
