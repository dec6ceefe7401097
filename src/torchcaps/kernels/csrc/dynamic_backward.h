// Dynamic routing, backward, in two steps: first the gradients by totals and logits of each sample, then the
// gradients by votes and through them by poses and weights. G is the gradient of the loss; docs/kernels.md has the
// derivation.
#pragma once

#include "dynamic_common.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct DynamicBackward : DynamicSamples<T> {
    using typename DynamicSamples<T>::V;
    using DynamicSamples<T>::LANES, DynamicSamples<T>::GROUP, DynamicSamples<T>::problem, DynamicSamples<T>::parts,
        DynamicSamples<T>::size, DynamicSamples<T>::choices;

    // What the first step saves of one sample for the second. All numbers of a child are contiguous, since the second
    // step goes from child to child. The first iteration has no logits, as its couplings are uniform.
    struct Saved {
        V *guide, *grad_total;  // [iterations, parents, parts]
        T *logits;              // [children, iterations - 1, (coupling, gradient by the logit), choices]
    };

    explicit DynamicBackward(const DynamicProblem<T> &problem) : DynamicSamples<T>(problem) {}

    int64_t logits_of_child() const { return 2 * (problem.iterations - 1) * choices; }

    Saved saved_in(Scratch &scratch) const {
        return {scratch.take<V>(problem.iterations * size), scratch.take<V>(problem.iterations * size),
                scratch.take<T>(problem.children * logits_of_child())};
    }

    // In numbers of type T.
    int64_t saved_size() const {
        Scratch scratch{0};
        saved_in(scratch);
        return scratch.next / sizeof(T);
    }

    Saved saved_at(T *memory) const {
        Scratch scratch{reinterpret_cast<uintptr_t>(memory)};
        return saved_in(scratch);
    }

    int64_t first_iteration() const { return problem.through_all ? 0 : problem.iterations - 1; }

    struct LogitsMemory {
        V *votes;                   // [GROUP, children, parents, parts]
        V *grad_pose, *grad_guide;  // [parents, parts]
    };

    LogitsMemory logits_memory(Scratch &scratch) const {
        return {scratch.take<V>(GROUP * problem.children * size), scratch.take<V>(size), scratch.take<V>(size)};
    }

    // First step for a group of samples. `saved` begins with the first of them, the other arrays with the first of the
    // batch.
    void grad_of_logits(const Range &samples, const T *grad, const T *totals, T *saved, T *grad_bias,
                        Scratch &scratch) const {
        const LogitsMemory memory = logits_memory(scratch);
        this->cast(samples, memory.votes);
        for (int64_t sample = samples.first; sample < samples.last; ++sample)
            grad_of_logits(memory.votes + (sample - samples.first) * problem.children * size,
                           grad + sample * problem.parents * problem.size_out,
                           reinterpret_cast<const V *>(totals) + sample * problem.iterations * size,
                           saved_at(saved + (sample - samples.first) * saved_size()),
                           reinterpret_cast<V *>(grad_bias) + sample * size, memory);
    }

    // One sample, last iteration first.
    void grad_of_logits(const V *votes, const T *grad, const V *totals, const Saved &saved, V *grad_bias,
                        const LogitsMemory &memory) const {
        V *grad_pose = memory.grad_pose, *grad_guide = memory.grad_guide;
        compute_guides(totals, saved.guide, grad_pose);
        for (int64_t k = 0; k < size; ++k) grad_bias[k] = grad_pose[k] = grad_guide[k] = V{};
        T *entries = reinterpret_cast<T *>(grad_pose);
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t d = 0; d < problem.size_out; ++d)
                entries[j * problem.padded + d] = grad[j * problem.size_out + d];
        for (int64_t t = problem.iterations - 1; t >= first_iteration(); --t) {
            const V *guide = saved.guide + t * size;
            V *grad_total = saved.grad_total + t * size;
            squash_backward(totals + t * size, grad_pose, grad_total);
            for (int64_t k = 0; k < size; ++k) grad_bias[k] += grad_total[k];
            if (!problem.accumulate)
                for (int64_t k = 0; k < size; ++k) grad_guide[k] = V{};
            for (int64_t n = 0; t && n < problem.children; ++n) {
                T *coupling = saved.logits + n * logits_of_child() + 2 * (t - 1) * choices;
                const V *vote = votes + n * size;
                this->couple(vote, guide, coupling);
                couple_backward(vote, coupling, grad_total, coupling + choices, grad_guide);
            }
            // The guide of iteration t is the pose of t - 1, plus the guide of t - 1 if poses accumulate.
            for (int64_t k = 0; k < size; ++k) grad_pose[k] = grad_guide[k];
        }
    }

    // The guides of all iterations from the inputs of the squashes; `pose` is memory for one pose per parent.
    void compute_guides(const V *totals, V *guides, V *pose) const {
        for (int64_t k = 0; k < size; ++k) guides[k] = V{};
        for (int64_t t = 0; t + 1 < problem.iterations; ++t) {
            this->squash(totals + t * size, pose);
            for (int64_t k = 0; k < size; ++k) guides[(t + 1) * size + k] = guides[t * size + k];
            this->update_guide(pose, guides + (t + 1) * size);
        }
    }

    // G_s = scale G + (d scale / d n) <s, G> s / n,  scale = n / (1 + n^2),  n = |s|
    void squash_backward(const V *total, const V *grad_pose, V *grad_total) const {
        for (int64_t j = 0; j < problem.parents; ++j) {
            const V *s = total + j * parts, *grad = grad_pose + j * parts;
            const T n2 = this->square(s, parts), n = sqrt(n2), slope = 1 / (1 + n2), scale = n * slope;
            V sum = {};
            for (int64_t part = 0; part < parts; ++part) sum += s[part] * grad[part];
            // In this order neither 1e-15 nor 1e15 leaves the range of float32.
            const T along = n2 > 0 ? hsum<T>(sum) * slope * (1 - 2 * n * scale) : T(0);
            const T inverse = n2 > 0 ? 1 / n : T(0);
            for (int64_t part = 0; part < parts; ++part)
                grad_total[j * parts + part] = scale * grad[part] + (s[part] * inverse) * along;
        }
    }

    // One child: G_c = <V, G_s>,  G_b = c (G_c - sum c G_c),  G_y += G_b V;  G_b = 0 if only the last iteration counts.
    void couple_backward(const V *vote, const T *coupling, const V *grad_total, T *grad_logit, V *grad_guide) const {
        for (int64_t j = 0; j < choices; ++j) grad_logit[j] = 0;
        if (!problem.through_all) return;
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

    // Votes with the same weights are handled together, so that these are read and written once.
    static constexpr int TOGETHER = 8;

    V *votes_memory(Scratch &scratch) const { return scratch.take<V>(TOGETHER * size); }

    // Second step, for some children of some samples. `saved` begins with the first of these samples, the other
    // arrays with the first of the batch.
    void grad_of_votes(const Range &children, const Range &samples, T *saved, T *grad_pose, T *grad_weight,
                       Scratch &scratch) const {
        V *grad_votes = votes_memory(scratch), *to_weight = reinterpret_cast<V *>(grad_weight);
        // The samples have the weights of a child in common; with shared weights, all children have.
        const Range outer = problem.shared ? samples : children, inner = problem.shared ? children : samples;
        for (int64_t i = outer.first; i < outer.last; ++i) {
            int64_t k = inner.first;
            for (; k + TOGETHER <= inner.last; k += TOGETHER)
                grad_of_inputs<TOGETHER>(i, k, samples.first, saved, grad_pose, to_weight, grad_votes);
            for (; k < inner.last; ++k) grad_of_inputs<1>(i, k, samples.first, saved, grad_pose, to_weight, grad_votes);
        }
    }

    // G_pose = sum_j W G_V and G_W += pose^T G_V for COUNT votes with the same weights.
    template <int COUNT>
    void grad_of_inputs(int64_t outer, int64_t inner, int64_t first_sample, T *saved, T *grad_pose, V *grad_weight,
                        V *grad_votes) const {
        const T *pose[COUNT];
        T *out[COUNT];
        for (int item = 0; item < COUNT; ++item) {
            const int64_t n = problem.shared ? inner + item : outer, b = problem.shared ? outer : inner + item;
            pose[item] = this->pose_of(b, n);
            out[item] = grad_pose + (pose[item] - problem.pose);
            sum_over_iterations(saved_at(saved + (b - first_sample) * saved_size()), n, grad_votes + item, COUNT);
        }
        const V *weight = this->weight_of(outer);
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

    // G_V = sum_t (c G_s + G_b y) for child n, written to every `stride`-th vector.
    void sum_over_iterations(const Saved &saved, int64_t n, V *grad, int64_t stride) const {
        const T *logits = saved.logits + n * logits_of_child();
        const bool from_start = first_iteration() == 0;
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t part = 0; part < parts; ++part) {
                const int64_t at = j * parts + part;
                V sum = from_start ? this->uniform_coupling() * saved.grad_total[at] : V{};
                for (int64_t t = from_start ? 1 : first_iteration(); t < problem.iterations; ++t) {
                    const T *coupling = logits + 2 * (t - 1) * choices;
                    sum += coupling[j] * saved.grad_total[t * size + at] +
                           coupling[choices + j] * saved.guide[t * size + at];
                }
                grad[at * stride] = sum;
            }
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
