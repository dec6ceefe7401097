// EM routing over a batch.
#pragma once

#include "driver.h"

namespace torchcaps {

// Sizes and options of a call; places is the number of children in a field.
struct EmOptions {
    int64_t batch, children, positions, places, parents, rows, iterations;
    bool mixing;
    double epsilon, mass_scale;
    std::vector<double> temperature;
    int threads;
};

// Owns the arrays of a problem that differ from the tensors: the weight with parents in lanes, and padded betas.
template <class T>
struct EmBatch {
    std::shared_ptr<const OwnedWiring> wiring;
    int64_t padded, lanes, weights;
    Buffer<T> weight, beta_u, beta_a, temperature;
    EmProblem<T> problem;

    EmBatch(const Kernels<T> &kernels, const EmOptions &options, const T *pose, const T *activation, const T *source,
            const T *source_beta_u, const T *source_beta_a, const int64_t *index, const T *offset)
        : wiring(wiring_for(index, options.children, options.positions, options.places, options.rows)),
          padded(round_up(options.parents, PADDING)),
          lanes(kernels.lanes),
          weights(options.rows * padded * POSE),
          weight(weights, true),
          beta_u(padded, true),
          beta_a(padded, true),
          temperature(options.iterations) {
        for (int64_t row = 0; row < options.rows; ++row)
            for (int64_t j = 0; j < options.parents; ++j)
                for (int64_t d = 0; d < POSE; ++d)
                    weight.get()[place(row, j, d)] = source[(row * options.parents + j) * POSE + d];
        if (!options.mixing) {
            std::copy_n(source_beta_u, options.parents, beta_u.get());
            std::copy_n(source_beta_a, options.parents, beta_a.get());
        }
        std::copy(options.temperature.begin(), options.temperature.end(), temperature.get());
        problem.wiring = wiring->view();
        problem.parents = options.parents;
        problem.padded = padded;
        problem.rows = options.rows;
        problem.iterations = options.iterations;
        problem.mixing = options.mixing;
        problem.epsilon = T(options.epsilon);
        problem.mass_scale = T(options.mass_scale);
        problem.temperature = temperature.get();
        problem.pose = pose;
        problem.activation = activation;
        problem.weight = weight.get();
        problem.offset = offset;
        problem.beta_u = beta_u.get();
        problem.beta_a = beta_a.get();
    }

    int64_t place(int64_t row, int64_t parent, int64_t d) const {
        return ((row * (padded / lanes) + parent / lanes) * POSE + d) * lanes + parent % lanes;
    }
};

template <class T>
void em_forward(const Kernels<T> &kernels, const EmOptions &options, const EmBatch<T> &batch,
                const EmOutput<T> &output) {
    for_each<T>(options.batch, options.threads, kernels.em_forward_scratch(batch.problem),
                [&](int64_t sample, T *scratch) { kernels.em_forward(batch.problem, output, sample, scratch); });
}

template <class T>
void em_backward(const Kernels<T> &kernels, const EmOptions &options, const EmBatch<T> &batch,
                 const EmGradient<T> &gradient, T *weight, T *beta_u, T *beta_a) {
    const int64_t size = batch.weights + 2 * batch.padded;
    const Blocks blocks(options.batch, size * sizeof(T));
    Buffer<T> sums(size * blocks.count);
    for_each<T>(blocks.count, options.threads, kernels.em_backward_scratch(batch.problem),
                [&](int64_t block, T *scratch) {
                    T *own = sums.get() + block * size;
                    std::fill_n(own, size, T(0));
                    const EmShared<T> shared{own, own + batch.weights, own + batch.weights + batch.padded};
                    for (int64_t b = blocks.first(block); b < blocks.last(block); ++b)
                        kernels.em_backward(batch.problem, gradient, shared, b, scratch);
                });
    // Blocks are summed in lane order, where they are contiguous, and then copied to the order of the parameters.
    for_each<T>(options.rows, options.threads, batch.padded * POSE, [&](int64_t row, T *total) {
        const int64_t length = batch.padded * POSE;
        std::fill_n(total, length, T(0));
        for (int64_t block = 0; block < blocks.count; ++block) {
            const T *own = sums.get() + block * size + row * length;
            for (int64_t k = 0; k < length; ++k) total[k] += own[k];
        }
        for (int64_t j = 0; j < options.parents; ++j)
            for (int64_t d = 0; d < POSE; ++d)
                weight[(row * options.parents + j) * POSE + d] = total[batch.place(0, j, d)];
    });
    for (int64_t j = 0; j < options.parents; ++j) {
        beta_u[j] = beta_a[j] = 0;
        for (int64_t block = 0; block < blocks.count; ++block) {
            const T *own = sums.get() + block * size + batch.weights;
            beta_u[j] += own[j];
            beta_a[j] += own[batch.padded + j];
        }
    }
}

}  // namespace torchcaps
