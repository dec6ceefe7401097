// Votes of 4 x 4 matrix poses, for one lane-wide group of parents at a time.
#pragma once

#include "lanes.h"
#include "problem.h"

namespace torchcaps::INSTRUCTION_SET {

constexpr int SIDE = 4;
constexpr int POSE = SIDE * SIDE;

// vote = pose x weight + offset: the pose is one child's, the same in all lanes.
template <class T>
INLINE void cast_votes(const T *pose, const Vec<T> *weight, const T *offset, Vec<T> *vote) {
    for (int row = 0; row < SIDE; ++row) {
        Vec<T> sum[SIDE];
        for (int column = 0; column < SIDE; ++column) {
            sum[column] = pose[row * SIDE] * weight[column];
            for (int k = 1; k < SIDE; ++k) sum[column] += pose[row * SIDE + k] * weight[k * SIDE + column];
        }
        for (int column = 0; column < SIDE; ++column) vote[row * SIDE + column] = sum[column];
    }
    if (offset)
        for (int d = 0; d < POSE; ++d) vote[d] += offset[d];
}

// The two products that lead back from the gradient of a vote: to its pose, lane by lane, and to its weight.
template <class T>
INLINE void push_votes(const T *pose, const Vec<T> *weight, const Vec<T> *grad, Vec<T> *grad_pose,
                       Vec<T> *grad_weight) {
    for (int row = 0; row < SIDE; ++row)
        for (int k = 0; k < SIDE; ++k) {
            Vec<T> sum = grad_pose[row * SIDE + k];
            for (int column = 0; column < SIDE; ++column) sum += grad[row * SIDE + column] * weight[k * SIDE + column];
            grad_pose[row * SIDE + k] = sum;
        }
    for (int k = 0; k < SIDE; ++k)
        for (int column = 0; column < SIDE; ++column) {
            Vec<T> sum = grad_weight[k * SIDE + column];
            for (int row = 0; row < SIDE; ++row) sum += pose[row * SIDE + k] * grad[row * SIDE + column];
            grad_weight[k * SIDE + column] = sum;
        }
}

// What a parent holds per iteration, in this order (EM_STATISTICS vectors).
enum Statistic { S_MEAN = 0, S_LOW = POSE, S_VARIANCE = 2 * POSE, S_MASS = 3 * POSE, S_LOGIT = 3 * POSE + 1 };

// high + low = a + b exactly, high being the sum as rounded.
template <class V>
INLINE void split(V a, V b, V &high, V &low) {
    const V sum = a + b, part = sum - a;
    low = (a - (sum - part)) + (b - part);
    high = sum;
}

// Half of the distance from 1 to the next number: the hmax relative error of one rounding.
template <class T>
constexpr T ROUNDOFF = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);

// Run work(x) where x(d) is (vote - mean) / sigma of dimension d, the mean being mean + shift * sigma. A shift below
// the rounding of a deviation of one sigma is left out, which most parents can do.
template <class T, class Centred, class Work>
INLINE void with_scaled(const Centred &centred, const Vec<T> *scale, const Vec<T> *shift, bool shifted,
                        const Work &work) {
    // Dividing before squaring keeps votes of 1e15 within float32.
    if (__builtin_expect(shifted, 0))
        for (int d = 0; d < POSE; ++d) work(d, centred(d) * scale[d] - shift[d]);
    else
        for (int d = 0; d < POSE; ++d) work(d, centred(d) * scale[d]);
}

// Whether a shift has to be looked at: nonzero in any lane.
template <class T>
INLINE T find_shift(const Vec<T> *shift) {
    Vec<T> most = {};
    for (int d = 0; d < POSE; ++d) most = max(most, max(shift[d], -shift[d]));
    return hsum<T>(most > ROUNDOFF<T> ? broadcast<T>(1) : Vec<T>{});
}

// Sum of 16 terms by rows: a quarter of the rounding of one long sum, and four chains for the processor.
template <class T>
struct RowSums {
    using V = Vec<T>;
    V row[SIDE] = {};
    INLINE void add(int d, V term) { row[d % SIDE] += term; }
    INLINE V total() const { return (row[0] + row[1]) + (row[2] + row[3]); }
};

// ln of the product of all variances.
template <class T>
INLINE Vec<T> log_volume(const Vec<T> *variance) {
    RowSums<T> volume;
    for (int d = 0; d < POSE; ++d) volume.add(d, log(variance[d]));
    return volume.total();
}

// As in the plain form: a parent with less mass than this has no votes.
template <class T>
constexpr T DEAD = sizeof(T) == 4 ? T(1e-20) : T(1e-200);

// ln(2 pi) * 16 / 2
template <class T>
constexpr T HALF_VOLUME = T(14.703016531274763);

// As in the plain form: a squared distance that float32 can hold, so that no child is infinitely far from all.
template <class T>
constexpr T FARTHEST = T(1e37);

// As in the plain form: what is added to the variance around a mean, epsilon or what rounding alone makes.
template <class T>
INLINE Vec<T> least_variance(T epsilon, const Vec<T> &mean) {
    const Vec<T> step = (sizeof(T) == 4 ? T(0x1p-23) : T(0x1p-52)) * mean;
    return max(broadcast<T>(epsilon), step * step);
}

// Children of one activation field add up to this, per position: what "mixing" shares out.
template <class T>
INLINE void field_activation(const Wiring &wiring, const T *activation, T *field) {
    for (int64_t p = 0; p < wiring.positions; ++p) {
        T sum = 0;
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k)
            sum += activation[wiring.child[wiring.field_vote[k]]];
        field[p] = sum;
    }
}

template <class T>
INLINE const T *offset_of(const EmProblem<T> &problem, int64_t child) {
    return problem.offset ? problem.offset + child / problem.types * POSE : nullptr;
}

// Assignment before the first iteration: 1 / (number of parents of this child).
template <class T>
INLINE T even_share(const EmProblem<T> &problem, int64_t child) {
    const int64_t votes = problem.wiring.start[child + 1] - problem.wiring.start[child];
    return votes ? T(1) / T(votes * problem.parents) : T(0);
}

inline int64_t most_votes(const Wiring &wiring) {
    int64_t most = 0;
    for (int64_t n = 0; n < wiring.children; ++n) {
        const int64_t votes = wiring.start[n + 1] - wiring.start[n];
        most = votes > most ? votes : most;
    }
    return most;
}

// Lanes beyond the last parent type can never be chosen.
template <class T>
INLINE void mask_padding(Vec<T> &logit, int64_t first, int64_t parents) {
    for (int lane = 0; lane < Lanes<T>::count; ++lane)
        if (first + lane >= parents) logit[lane] = -__builtin_inf();
}

template <class T>
INLINE Vec<T> sigmoid(Vec<T> z) {
    const Vec<T> e = exp(z > 0 ? -z : z);
    return (z > 0 ? broadcast<T>(1) : e) / (1 + e);
}

template <class T>
INLINE Vec<T> log_sigmoid(Vec<T> z) {
    const Vec<T> zero = {};
    return (z > 0 ? zero : z) - log(1 + exp(z > 0 ? -z : z));
}

}  // namespace torchcaps::INSTRUCTION_SET
