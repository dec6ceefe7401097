// Dynamic routing over a batch.
#pragma once

#include "driver.h"

namespace torchcaps {

struct DynamicOptions {
    int64_t batch, children, parents, size_in, size_out, iterations;
    bool shared, accumulate, leaky, through_all;
    int threads;
};

// Owns a copy of weight and bias in whole vectors, unless the pose is made of whole vectors already.
template <class T>
struct DynamicBatch {
    int64_t padded, weights;
    std::unique_ptr<Buffer<T>> weight, bias;
    DynamicProblem<T> problem;

    DynamicBatch(const Kernels<T> &kernels, const DynamicOptions &options, const T *pose, const T *source,
                 const T *source_bias)
        : padded((options.size_out + kernels.lanes - 1) / kernels.lanes * kernels.lanes),
          weights((options.shared ? 1 : options.children) * options.parents * options.size_in * padded) {
        source = in_vectors(source, weights / padded, options.size_out, weight);
        if (source_bias) source_bias = in_vectors(source_bias, options.parents, options.size_out, bias);
        problem = {options.children,   options.parents,    options.size_in, options.size_out,
                   padded,             options.shared,     options.accumulate, options.leaky,
                   options.through_all, options.iterations, pose,            source,
                   source_bias};
    }

    const T *in_vectors(const T *source, int64_t rows, int64_t size, std::unique_ptr<Buffer<T>> &copy) const {
        const bool aligned = reinterpret_cast<uintptr_t>(source) % 64 == 0;
        if (size == padded && aligned) return source;
        copy = std::make_unique<Buffer<T>>(rows * padded, true);
        for (int64_t row = 0; row < rows; ++row) std::copy_n(source + row * size, size, copy->get() + row * padded);
        return copy->get();
    }
};

template <class T>
void dynamic_forward(const Kernels<T> &kernels, const DynamicOptions &options, const DynamicBatch<T> &batch, T *pose,
                     T *totals) {
    for_each<T>(options.batch, options.threads, kernels.dynamic_forward_scratch(batch.problem),
                [&](int64_t sample, T *scratch) {
                    kernels.dynamic_forward(batch.problem, pose, totals, sample, scratch);
                });
}

template <class T>
void dynamic_backward(const Kernels<T> &kernels, const DynamicOptions &options, const DynamicBatch<T> &batch,
                      const T *grad, const T *totals, T *child_pose, T *weight, T *bias) {
    const DynamicProblem<T> &problem = batch.problem;
    const int64_t biases = options.parents * batch.padded;
    Buffer<T> trails(kernels.dynamic_trail(problem) * options.batch), sample_bias(biases * options.batch);
    for_each<T>(options.batch, options.threads, kernels.dynamic_gather_scratch(problem),
                [&](int64_t sample, T *scratch) {
                    kernels.dynamic_gather(problem, grad, totals, trails.get(), sample_bias.get(), sample, scratch);
                });
    add_rows(sample_bias.get(), biases, options.batch, batch.padded, options.size_out, 1, bias);

    // Children with weights of their own can be shared out among threads; with common weights, samples can.
    const int64_t scratch = kernels.dynamic_push_scratch(problem);
    const Blocks blocks(options.shared ? options.batch : options.children, batch.weights * sizeof(T));
    const int64_t sums = options.shared ? blocks.count : 1;
    Buffer<T> sum(batch.weights * sums, true);
    for_each<T>(blocks.count, options.threads, scratch, [&](int64_t block, T *own) {
        const Range part{blocks.first(block), blocks.last(block)};
        const Range children = options.shared ? Range{0, options.children} : part;
        const Range samples = options.shared ? part : Range{0, options.batch};
        T *to = sum.get() + (options.shared ? block * batch.weights : 0);
        kernels.dynamic_push(problem, children, samples, trails.get(), child_pose, to, own);
    });
    add_rows(sum.get(), batch.weights, sums, batch.padded, options.size_out, options.threads, weight);
}

}  // namespace torchcaps
