// EM routing over a batch.
#pragma once

#include "mixture_driver.h"

namespace torchcaps {

struct EmOptions : MixtureOptions {
    bool mixing;
    double mass_scale;
    std::vector<double> temperature;
    bool rows_covariance = false;  // in place of a variance per dimension; float64 only
};

template <class T>
struct EmBatch : MixtureBatch<T, EmProblem<T>> {
    using MixtureBatch<T, EmProblem<T>>::padded, MixtureBatch<T, EmProblem<T>>::problem;

    Buffer<T> beta_u, beta_a, temperature;

    EmBatch(const Kernels<T> &kernels, const EmOptions &options, const MixtureInputs<T> &inputs, const T *source_beta_u,
            const T *source_beta_a)
        : MixtureBatch<T, EmProblem<T>>(kernels.lanes, options, inputs),
          beta_u(padded, true),
          beta_a(padded, true),
          temperature(options.iterations) {
        if (!options.mixing) {
            std::copy_n(source_beta_u, options.parents, beta_u.get());
            std::copy_n(source_beta_a, options.parents, beta_a.get());
            this->sources[0] = source_beta_u, this->sources[1] = source_beta_a;
        }
        std::copy(options.temperature.begin(), options.temperature.end(), temperature.get());
        problem.mixing = options.mixing;
        problem.mass_scale = T(options.mass_scale);
        problem.temperature = temperature.get();
        problem.beta_u = beta_u.get();
        problem.beta_a = beta_a.get();
    }
};

// Samples that `skipped` [batch] names get no output; it may be null.
template <class T>
void em_forward(const Kernels<T> &kernels, const EmOptions &options, const EmBatch<T> &batch, const EmOutput<T> &output,
                const char *skipped = nullptr) {
    const bool by_rows = options.rows_covariance;
    const auto forward = by_rows ? kernels.rows_forward : kernels.em_forward;
    const auto memory = by_rows ? kernels.rows_forward_scratch : kernels.em_forward_scratch;
    for_each<T>(options.batch, options.threads, memory(batch.problem), [&](int64_t sample, T *scratch) {
        if (!skipped || !skipped[sample]) forward(batch.problem, output, sample, scratch);
    });
}

template <class T>
void em_backward(const Kernels<T> &kernels, const EmOptions &options, const EmBatch<T> &batch,
                 const EmGradient<T> &gradient, T *weight, T *beta_u, T *beta_a, const char *skipped = nullptr) {
    const int64_t size = batch.weights + 2 * batch.padded;
    const Blocks blocks(options.batch, size * sizeof(T));
    Buffer<T> sums(size * blocks.count);
    const bool by_rows = options.rows_covariance;
    const auto backward = by_rows ? kernels.rows_backward : kernels.em_backward;
    const auto memory = by_rows ? kernels.rows_backward_scratch : kernels.em_backward_scratch;
    for_each<T>(blocks.count, options.threads, memory(batch.problem), [&](int64_t block, T *scratch) {
        T *own = sums.get() + block * size;
        std::fill_n(own, size, T(0));
        const EmShared<T> shared{own, own + batch.weights, own + batch.weights + batch.padded};
        for (int64_t b = blocks.first(block); b < blocks.last(block); ++b)
            if (!skipped || !skipped[b]) backward(batch.problem, gradient, shared, b, scratch);
    });
    const T *betas = sums.get() + batch.weights;
    batch.sum_weights(sums.get(), size, blocks.count, options.threads, weight);
    batch.sum_betas(betas, size, blocks.count, 1, beta_u);
    batch.sum_betas(betas + batch.padded, size, blocks.count, 1, beta_a);
}

}  // namespace torchcaps
