// Dynamic routing of a group of samples, forward.
#pragma once

#include "dynamic_common.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct DynamicForward : DynamicSamples<T> {
    using typename DynamicSamples<T>::V;
    using DynamicSamples<T>::GROUP, DynamicSamples<T>::problem, DynamicSamples<T>::parts, DynamicSamples<T>::size;

    V *votes;         // [GROUP, children, parents, parts]
    V *guide, *pose;  // [parents, parts]
    T *coupling;      // [choices]

    DynamicForward(const DynamicProblem<T> &problem, Scratch &scratch)
        : DynamicSamples<T>(problem),
          votes(scratch.take<V>(GROUP * problem.children * size)),
          guide(scratch.take<V>(size)),
          pose(scratch.take<V>(size)),
          coupling(scratch.take<T>(this->choices)) {}

    void run(const Range &samples, T *out, T *totals) {
        this->cast(samples, votes);
        for (int64_t sample = samples.first; sample < samples.last; ++sample)
            route(votes + (sample - samples.first) * problem.children * size,
                  out + sample * problem.parents * problem.size_out,
                  reinterpret_cast<V *>(totals) + sample * problem.iterations * size);
    }

    // totals: [iterations, parents, parts], the input of each squash.
    void route(const V *votes, T *out, V *totals) {
        for (int64_t k = 0; k < size; ++k) guide[k] = V{};
        for (int64_t j = 0; j < problem.parents; ++j) coupling[j] = this->uniform_coupling();
        for (int64_t t = 0; t < problem.iterations; ++t) {
            V *total = totals + t * size;
            const V *bias = reinterpret_cast<const V *>(problem.bias);
            for (int64_t k = 0; k < size; ++k) total[k] = V{};
            for (int64_t n = 0; n < problem.children; ++n) {
                const V *vote = votes + n * size;
                if (t) this->couple(vote, guide, coupling);
                for (int64_t j = 0; j < problem.parents; ++j)
                    for (int64_t k = j * parts; k < (j + 1) * parts; ++k) total[k] += coupling[j] * vote[k];
            }
            if (bias)
                for (int64_t k = 0; k < size; ++k) total[k] += bias[k];
            this->squash(total, pose);
            this->update_guide(pose, guide);
        }
        const T *from = reinterpret_cast<const T *>(pose);
        for (int64_t j = 0; j < problem.parents; ++j)
            for (int64_t d = 0; d < problem.size_out; ++d) out[j * problem.size_out + d] = from[j * problem.padded + d];
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
