// Dynamic routing: what the forward and the backward pass share. Lanes lie along the pose.
//
// Both update rules make the logits linear in the votes: b_ij = <V_ij, y_j>, where the guide y is the sum of all poses
// so far ("accumulate") or the last pose ("fixed_point"). So guides are kept and logits are not.
#pragma once

#include "lanes.h"
#include "problem.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct DynamicSamples {
    using V = Vec<T>;
    static constexpr int LANES = Lanes<T>::count;

    // Samples whose votes are cast together: the weights of a child are then read once for all of them.
    static constexpr int GROUP = 2;

    const DynamicProblem<T> &problem;
    int64_t parts;    // vectors in a pose
    int64_t size;     // vectors in the poses of all parents
    int64_t choices;  // parents, padded to whole vectors

    explicit DynamicSamples(const DynamicProblem<T> &problem)
        : problem(problem),
          parts(problem.padded / LANES),
          size(problem.parents * parts),
          choices((problem.parents + LANES - 1) / LANES * LANES) {}

    const V *weight_of(int64_t child) const {
        return reinterpret_cast<const V *>(problem.weight) + (problem.shared ? 0 : child) * problem.size_in * size;
    }

    const T *pose_of(int64_t sample, int64_t child) const {
        return problem.pose + (sample * problem.children + child) * problem.size_in;
    }

    // Casts all votes of a group of samples, [samples, children, parents, parts]. Votes with the same weights are cast
    // together: those of one child in all samples, or those of several children if all share their weights.
    void cast(const Range &samples, V *votes) const {
        const int64_t count = samples.last - samples.first, all = problem.children * size;
        if (!problem.shared && count == GROUP) {
            for (int64_t n = 0; n < problem.children; ++n) {
                const T *poses[] = {pose_of(samples.first, n), pose_of(samples.first + 1, n)};
                V *to[] = {votes + n * size, votes + all + n * size};
                cast_together<GROUP>(poses, weight_of(n), to);
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
                cast_together<4>(poses, weight_of(n), to);
            }
            for (; n < problem.children; ++n) {
                const T *pose = pose_of(samples.first + s, n);
                V *to = votes + s * all + n * size;
                cast_together<1>(&pose, weight_of(n), &to);
            }
        }
    }

    template <int COUNT>
    void cast_together(const T *const *poses, const V *weight, V *const *votes) const {
        int64_t j = 0;
        for (; j + 4 <= problem.parents; j += 4) cast_to_parents<COUNT, 4>(poses, weight, j, votes);
        for (; j < problem.parents; ++j) cast_to_parents<COUNT, 1>(poses, weight, j, votes);
    }

    // Several sums at a time hide the latency of each.
    template <int COUNT, int PARENTS>
    INLINE void cast_to_parents(const T *const *poses, const V *weights, int64_t j, V *const *votes) const {
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

    // The coupling of the first iteration, in which all logits are 0.
    T uniform_coupling() const { return T(1) / T(problem.parents + problem.leaky); }

    // c_j = softmax_j <V_j, y_j> for the votes of one child; leaky: with one more logit, 0, for none of the parents.
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

    // squash(s) = s n / (1 + n^2),  n = |s|
    void squash(const V *total, V *pose) const {
        for (int64_t j = 0; j < problem.parents; ++j) {
            const T n2 = square(total + j * parts, parts), scale = sqrt(n2) / (1 + n2);
            for (int64_t part = 0; part < parts; ++part) pose[j * parts + part] = total[j * parts + part] * scale;
        }
    }

    void update_guide(const V *pose, V *guide) const {
        for (int64_t k = 0; k < size; ++k) guide[k] = problem.accumulate ? guide[k] + pose[k] : pose[k];
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
