// Dynamic routing over a batch.
#pragma once

#include "driver.h"

namespace torchcaps {

struct DynamicOptions {
    int64_t batch, children, parents, size_in, size_out, iterations;
    bool shared, accumulate, leaky, through_all;
    int threads;
};

// Owns copies of weight and bias that are padded to whole vectors, where the tensors are not.
template <class T>
struct DynamicBatch {
    int64_t padded, weights;
    std::unique_ptr<Buffer<T>> weight, bias;
    DynamicProblem<T> problem;

    DynamicBatch(const Kernels<T> &kernels, const DynamicOptions &options, const T *pose, const T *source,
                 const T *source_bias)
        : padded(round_up(options.size_out, kernels.lanes)),
          weights((options.shared ? 1 : options.children) * options.parents * options.size_in * padded) {
        problem.children = options.children;
        problem.parents = options.parents;
        problem.size_in = options.size_in;
        problem.size_out = options.size_out;
        problem.padded = padded;
        problem.shared = options.shared;
        problem.accumulate = options.accumulate;
        problem.leaky = options.leaky;
        problem.through_all = options.through_all;
        problem.iterations = options.iterations;
        problem.pose = pose;
        problem.weight = in_vectors(source, weights / padded, options.size_out, weight);
        problem.bias = source_bias ? in_vectors(source_bias, options.parents, options.size_out, bias) : nullptr;
    }

    const T *in_vectors(const T *source, int64_t rows, int64_t size, std::unique_ptr<Buffer<T>> &copy) const {
        if (size == padded) return source;
        copy = std::make_unique<Buffer<T>>(rows * padded, true);
        for (int64_t row = 0; row < rows; ++row) std::copy_n(source + row * size, size, copy->get() + row * padded);
        return copy->get();
    }
};

template <class T>
void dynamic_forward(const Kernels<T> &kernels, const DynamicOptions &options, const DynamicBatch<T> &batch, T *pose,
                     T *totals) {
    const Blocks groups = Blocks::of_size(options.batch, kernels.dynamic_group);
    for_each<T>(groups.count, options.threads, kernels.dynamic_forward_scratch(batch.problem),
                [&](int64_t group, T *scratch) {
                    kernels.dynamic_forward(batch.problem, groups.range(group), pose, totals, scratch);
                });
}

// Samples whose gradients are computed at a time, where children have weights of their own.
constexpr int64_t PORTION = 16;

template <class T>
void dynamic_backward(const Kernels<T> &kernels, const DynamicOptions &options, const DynamicBatch<T> &batch,
                      const T *grad, const T *totals, T *grad_pose, T *grad_weight, T *grad_bias) {
    const DynamicProblem<T> &problem = batch.problem;
    const int64_t biases = options.parents * batch.padded, saved_size = kernels.dynamic_saved_size(problem);
    // Threads take different children if these have weights of their own, and different samples otherwise.
    const Blocks blocks(options.shared ? options.batch : options.children, batch.weights * sizeof(T));
    const int64_t sums = options.shared ? blocks.count : 1;
    // A few samples at a time, so that what the first step saves is still in the cache when the second reads it.
    const Blocks portions = Blocks::of_size(options.batch, options.shared ? options.batch : PORTION);
    Buffer<T> saved(saved_size * std::min(options.batch, portions.size)), sample_bias(biases * options.batch);
    Buffer<T> weight_sums(batch.weights * sums, true);
    for (int64_t portion = 0; portion < portions.count; ++portion) {
        const Range samples = portions.range(portion);
        const auto saved_from = [&](int64_t sample) { return saved.get() + (sample - samples.first) * saved_size; };
        const Blocks groups = Blocks::of_size(samples.last - samples.first, kernels.dynamic_group);
        for_each<T>(groups.count, options.threads, kernels.dynamic_logits_scratch(problem),
                    [&](int64_t group, T *scratch) {
                        const Range part = groups.range(group, samples.first);
                        kernels.dynamic_grad_of_logits(problem, part, grad, totals, saved_from(part.first),
                                                       sample_bias.get(), scratch);
                    });
        for_each<T>(blocks.count, options.threads, kernels.dynamic_votes_scratch(problem),
                    [&](int64_t block, T *scratch) {
                        const Range part = blocks.range(block), all{0, options.children};
                        if (options.shared)
                            kernels.dynamic_grad_of_votes(problem, all, part, saved_from(part.first), grad_pose,
                                                          weight_sums.get() + block * batch.weights, scratch);
                        else
                            kernels.dynamic_grad_of_votes(problem, part, samples, saved.get(), grad_pose,
                                                          weight_sums.get(), scratch);
                    });
    }
    add_rows(sample_bias.get(), biases, options.batch, batch.padded, options.size_out, 1, grad_bias);
    add_rows(weight_sums.get(), batch.weights, sums, batch.padded, options.size_out, options.threads, grad_weight);
}

}  // namespace torchcaps
