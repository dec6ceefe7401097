// The arguments of the kernels: sizes, options and pointers. Nothing here owns memory.
#pragma once

#include <cstdint>

namespace torchcaps {

// Parent types are padded to a multiple of this: whole vectors of every instruction set.
constexpr int64_t PADDING = 16;

// EM and Heinsen routing are for matrix poses of SIDE x SIDE.
constexpr int SIDE = 4;
constexpr int POSE = SIDE * SIDE;

// Numbers that one parent keeps per iteration: mean, its low part and variance (POSE each), mass and logit.
constexpr int64_t EM_STATISTICS = 3 * POSE + 2;

// The same with a covariance of rows: mean and its low part, a symmetric matrix of SIDE x SIDE, mass and logit.
constexpr int64_t ROWS_STATISTICS = 2 * POSE + SIDE * (SIDE + 1) / 2 + 2;

// Which child votes for which parents. Votes are sorted by child: child n casts the votes start[n] .. start[n + 1] - 1,
// each for all parent types at one position. The field of a position is the set of children that vote for it.
struct Wiring {
    int64_t children, positions, votes;
    int64_t most_votes;          // of one child
    const int64_t *start;        // [children + 1]
    const int32_t *position;     // [votes] position of the parents
    const int32_t *row;          // [votes] row of the weight
    const int64_t *field_start;  // [positions + 1] position p has the votes field_vote[field_start[p] ..]
    const int32_t *field_vote;   // [votes] votes sorted by position
    const int32_t *child;        // [votes]
};

// As in the plain form, what depends on the type of the tensors: a parent with less mass than `least_mass` has no votes,
// and a variance below the square of `step` times the mean cannot be measured.
template <class T>
struct Limits {
    T least_mass = sizeof(T) == 4 ? T(1e-20) : T(1e-200);
    T step = sizeof(T) == 4 ? T(0x1p-23) : T(0x1p-52);
};

// What EM and Heinsen routing have in common: both fit a Gaussian to the votes of each parent.
template <class T>
struct MixtureProblem {
    Wiring wiring;
    int64_t parents, padded, rows;
    int64_t iterations;
    T epsilon;
    Limits<T> limits;
    const T *pose;        // [batch, children, 16]
    const T *activation;  // [batch, children]
    const T *weight;      // [rows, padded / lanes, 16, lanes]
    const T *offset;      // [children / rows, 16], added to the votes of a place; or null
};

template <class T>
struct EmProblem : MixtureProblem<T> {
    bool mixing;
    T mass_scale;
    const T *temperature;      // [iterations]
    const T *beta_u, *beta_a;  // [padded]
};

template <class T>
struct HeinsenProblem : MixtureProblem<T> {
    const T *beta_use, *beta_ignore;  // [rows, padded]
    const T *bias;                    // like the weight, added to the votes; or null
};

template <class T>
struct EmOutput {
    T *pose, *activation, *logit;  // [batch, positions, parents (, 16)]
    T *statistics;                 // [batch, iterations, positions, padded / lanes, EM_STATISTICS, lanes]
};

template <class T>
struct EmGradient {
    const T *pose, *activation, *logit;  // gradients of the outputs
    const T *statistics;
    T *child_pose, *child_activation;  // gradients of the inputs, [batch, children (, 16)]
};

// Gradients that are sums over samples: each block of samples has its own, and the blocks are added in order.
template <class T>
struct EmShared {
    T *weight;           // like MixtureProblem::weight
    T *beta_u, *beta_a;  // [padded]
};

template <class T>
struct HeinsenShared {
    T *weight;                  // like MixtureProblem::weight
    T *beta_use, *beta_ignore;  // [rows, padded]
    T *bias;                    // like the weight; or null
};

template <class T>
struct DynamicProblem {
    int64_t children, parents, size_in, size_out, padded;  // padded: size_out to whole vectors
    bool shared, accumulate, leaky, through_all;
    int64_t iterations;
    const T *pose;    // [batch, children, size_in]
    const T *weight;  // [children or 1, parents, size_in, padded]
    const T *bias;    // [parents, padded], or null
};

struct Range {
    int64_t first, last;
};

// The kernels of one instruction set for one type. A *_scratch function returns how much memory a thread needs for the
// function below it; this and all other sizes are in numbers of type T.
template <class T>
struct Kernels {
    int64_t lanes;
    int64_t dynamic_group;  // samples that the dynamic kernels take at a time; the last group may be smaller

    int64_t (*em_forward_scratch)(const EmProblem<T> &);
    void (*em_forward)(const EmProblem<T> &, const EmOutput<T> &, int64_t sample, T *scratch);

    int64_t (*em_backward_scratch)(const EmProblem<T> &);
    void (*em_backward)(const EmProblem<T> &, const EmGradient<T> &, const EmShared<T> &, int64_t sample, T *scratch);

    // With a covariance of rows; null for float32, in which a nearly singular covariance has no digits left.
    int64_t (*rows_forward_scratch)(const EmProblem<T> &);
    void (*rows_forward)(const EmProblem<T> &, const EmOutput<T> &, int64_t sample, T *scratch);

    int64_t (*rows_backward_scratch)(const EmProblem<T> &);
    void (*rows_backward)(const EmProblem<T> &, const EmGradient<T> &, const EmShared<T> &, int64_t sample, T *scratch);

    int64_t (*heinsen_forward_scratch)(const HeinsenProblem<T> &);
    void (*heinsen_forward)(const HeinsenProblem<T> &, const EmOutput<T> &, int64_t sample, T *scratch);

    int64_t (*heinsen_backward_scratch)(const HeinsenProblem<T> &);
    void (*heinsen_backward)(const HeinsenProblem<T> &, const EmGradient<T> &, const HeinsenShared<T> &, int64_t sample,
                             T *scratch);

    int64_t (*dynamic_forward_scratch)(const DynamicProblem<T> &);
    void (*dynamic_forward)(const DynamicProblem<T> &, const Range &samples, T *pose, T *totals, T *scratch);

    // The backward pass has two steps. The first saves gradients of each sample and writes those by the bias,
    // [batch, parents, padded]; the second reads them and adds to the weights of these children in order of samples.
    int64_t (*dynamic_saved_size)(const DynamicProblem<T> &);  // of one sample
    int64_t (*dynamic_logits_scratch)(const DynamicProblem<T> &);
    void (*dynamic_grad_of_logits)(const DynamicProblem<T> &, const Range &samples, const T *grad, const T *totals,
                                   T *saved, T *bias, T *scratch);
    int64_t (*dynamic_votes_scratch)(const DynamicProblem<T> &);
    void (*dynamic_grad_of_votes)(const DynamicProblem<T> &, const Range &children, const Range &samples, T *saved,
                                  T *pose, T *weight, T *scratch);
};

}  // namespace torchcaps
