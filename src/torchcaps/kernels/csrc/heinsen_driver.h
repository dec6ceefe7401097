// Heinsen routing over a batch.
#pragma once

#include "mixture_driver.h"

namespace torchcaps {

template <class T>
struct HeinsenBatch : MixtureBatch<T, HeinsenProblem<T>> {
    using MixtureBatch<T, HeinsenProblem<T>>::rows, MixtureBatch<T, HeinsenProblem<T>>::parents,
        MixtureBatch<T, HeinsenProblem<T>>::padded, MixtureBatch<T, HeinsenProblem<T>>::problem;

    int64_t betas, biases;
    Buffer<T> beta_use, beta_ignore, bias;

    // source_bias may be null.
    HeinsenBatch(const Kernels<T> &kernels, const MixtureOptions &options, const MixtureInputs<T> &inputs,
                 const T *source_use, const T *source_ignore, const T *source_bias)
        : MixtureBatch<T, HeinsenProblem<T>>(kernels.lanes, options, inputs),
          betas(rows * padded),
          biases(source_bias ? this->weights : 0),
          beta_use(betas, true),
          beta_ignore(betas, true),
          bias(biases, true) {
        for (int64_t row = 0; row < rows; ++row) {
            std::copy_n(source_use + row * parents, parents, beta_use.get() + row * padded);
            std::copy_n(source_ignore + row * parents, parents, beta_ignore.get() + row * padded);
        }
        if (source_bias) this->to_lanes(source_bias, bias);
        this->sources[0] = source_use, this->sources[1] = source_ignore, this->sources[2] = source_bias;
        problem.beta_use = beta_use.get();
        problem.beta_ignore = beta_ignore.get();
        problem.bias = source_bias ? bias.get() : nullptr;
    }
};

// Logits have no temperature, so with many children most assignments are tiny, and products of them even smaller.
template <class T>
void heinsen_forward(const Kernels<T> &kernels, const MixtureOptions &options, const HeinsenBatch<T> &batch,
                     const EmOutput<T> &output, const char *skipped = nullptr) {
    for_each<T>(options.batch, options.threads, kernels.heinsen_forward_scratch(batch.problem),
                [&](int64_t sample, T *scratch) {
                    if (skipped && skipped[sample]) return;
                    const FlushToZero flush;
                    kernels.heinsen_forward(batch.problem, output, sample, scratch);
                });
}

// bias is null if the problem has none.
template <class T>
void heinsen_backward(const Kernels<T> &kernels, const MixtureOptions &options, const HeinsenBatch<T> &batch,
                      const EmGradient<T> &gradient, T *weight, T *beta_use, T *beta_ignore, T *bias,
                      const char *skipped = nullptr) {
    // The arrays of one block: weight, bias, and both betas. All begin with whole vectors, as padded is a multiple.
    const int64_t size = batch.weights + batch.biases + 2 * batch.betas;
    const Blocks blocks(options.batch, size * sizeof(T));
    Buffer<T> sums(size * blocks.count);
    T *biases = sums.get() + batch.weights, *betas = biases + batch.biases;
    for_each<T>(blocks.count, options.threads, kernels.heinsen_backward_scratch(batch.problem),
                [&](int64_t block, T *scratch) {
                    const int64_t at = block * size;
                    std::fill_n(sums.get() + at, size, T(0));
                    const HeinsenShared<T> shared{sums.get() + at, betas + at, betas + batch.betas + at,
                                                  bias ? biases + at : nullptr};
                    const FlushToZero flush;
                    for (int64_t b = blocks.first(block); b < blocks.last(block); ++b)
                        if (!skipped || !skipped[b])
                            kernels.heinsen_backward(batch.problem, gradient, shared, b, scratch);
                });
    batch.sum_weights(sums.get(), size, blocks.count, options.threads, weight);
    if (bias) batch.sum_weights(biases, size, blocks.count, options.threads, bias);
    batch.sum_betas(betas, size, blocks.count, options.rows, beta_use);
    batch.sum_betas(betas + batch.betas, size, blocks.count, options.rows, beta_ignore);
}

}  // namespace torchcaps
