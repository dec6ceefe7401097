// Arithmetic that the Gaussians of all covariances need. em_diagonal.h and em_rows.h have a Gaussian each: the M-step fits
// it, the E-step assigns votes by it.
#pragma once

#include "lanes.h"
#include "problem.h"

namespace torchcaps::INSTRUCTION_SET {

// As in the plain form: squared distances are limited to this, so that no child is infinitely far from all parents.
template <class T>
constexpr T FARTHEST = T(1e37);

// Half of the distance from 1 to the next number: the largest relative error of one rounding.
template <class T>
constexpr T ROUNDOFF = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);

// ln(2 pi) * 16 / 2
template <class T>
constexpr T HALF_LOG_TWO_PI = T(14.703016531274763);

// high + low = a + b exactly, where high is the rounded sum.
template <class V>
INLINE void split(V a, V b, V &high, V &low) {
    const V sum = a + b, part = sum - a;
    low = (a - (sum - part)) + (b - part);
    high = sum;
}

// Sum over the 16 dimensions by columns: a quarter of the rounding of one long sum, and four sums in parallel.
template <class T>
struct PoseSum {
    Vec<T> column[SIDE] = {};
    INLINE void add(int d, Vec<T> term) { column[d % SIDE] += term; }
    INLINE Vec<T> total() const { return (column[0] + column[1]) + (column[2] + column[3]); }
};

// As in the plain form: what is added to the variance around a mean, epsilon or the square of the mean's rounding.
template <class T>
INLINE Vec<T> least_variance(const MixtureProblem<T> &problem, const Vec<T> &mean) {
    const Vec<T> step = problem.limits.step * mean;
    return max(broadcast<T>(problem.epsilon), step * step);
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
