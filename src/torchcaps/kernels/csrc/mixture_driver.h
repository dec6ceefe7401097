// What EM and Heinsen routing over a batch have in common.
#pragma once

#include "driver.h"

namespace torchcaps {

// Sizes and options of a call; places is the number of children in a field.
struct MixtureOptions {
    int64_t batch, children, positions, places, parents, rows, iterations;
    double epsilon;
    int threads;
};

template <class T>
struct MixtureInputs {
    const T *pose, *activation, *weight;
    const int64_t *index;
    const T *offset;
};

// Owns the arrays of a problem that differ from the tensors: parameters with parents in lanes, and padded.
template <class T, class Problem>
struct MixtureBatch {
    std::shared_ptr<const OwnedWiring> wiring;
    MixtureInputs<T> inputs;
    const T *sources[3] = {};  // of the parameters beside the weight, as the caller has them
    int64_t rows, parents, padded, lanes, weights;
    Buffer<T> weight;
    Problem problem;

    MixtureBatch(int64_t lanes, const MixtureOptions &options, const MixtureInputs<T> &inputs)
        : wiring(wiring_for(inputs.index, options.children, options.positions, options.places, options.rows)),
          inputs(inputs),
          rows(options.rows),
          parents(options.parents),
          padded(round_up(options.parents, PADDING)),
          lanes(lanes),
          weights(options.rows * padded * POSE),
          weight(weights, true) {
        to_lanes(inputs.weight, weight);
        problem.wiring = wiring->view();
        problem.parents = parents;
        problem.padded = padded;
        problem.rows = rows;
        problem.iterations = options.iterations;
        problem.epsilon = T(options.epsilon);
        problem.pose = inputs.pose;
        problem.activation = inputs.activation;
        problem.weight = weight.get();
        problem.offset = inputs.offset;
    }

    int64_t place(int64_t row, int64_t parent, int64_t d) const {
        return ((row * (padded / lanes) + parent / lanes) * POSE + d) * lanes + parent % lanes;
    }

    // From [rows, parents, 16] to the layout of the weight.
    void to_lanes(const T *source, const Buffer<T> &target) const {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t j = 0; j < parents; ++j)
                for (int64_t d = 0; d < POSE; ++d)
                    target.get()[place(row, j, d)] = source[(row * parents + j) * POSE + d];
    }

    // Sums arrays like the weight, one for each block, `stride` apart. They are summed in lane order, where they are
    // contiguous, and then copied to the order of the parameter, [rows, parents, 16].
    void sum_weights(const T *arrays, int64_t stride, int64_t blocks, int threads, T *out) const {
        for_each<T>(rows, threads, padded * POSE, [&](int64_t row, T *total) {
            const int64_t length = padded * POSE;
            std::fill_n(total, length, T(0));
            for (int64_t block = 0; block < blocks; ++block) {
                const T *own = arrays + block * stride + row * length;
                for (int64_t k = 0; k < length; ++k) total[k] += own[k];
            }
            for (int64_t j = 0; j < parents; ++j)
                for (int64_t d = 0; d < POSE; ++d) out[(row * parents + j) * POSE + d] = total[place(0, j, d)];
        });
    }

    // The same for arrays of [count, padded], to [count, parents].
    void sum_betas(const T *arrays, int64_t stride, int64_t blocks, int64_t count, T *out) const {
        for (int64_t row = 0; row < count; ++row)
            for (int64_t j = 0; j < parents; ++j) {
                T sum = 0;
                for (int64_t block = 0; block < blocks; ++block) sum += arrays[block * stride + row * padded + j];
                out[row * parents + j] = sum;
            }
    }
};

}  // namespace torchcaps
