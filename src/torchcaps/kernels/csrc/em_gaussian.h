// The Gaussian of a parent capsule: the M-step fits it, the E-step assigns votes by it.
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

// What the M-step returns for one position and one vector of parent types. The forward pass keeps it for every
// iteration, as the backward pass needs it.
template <class T>
struct Statistics {
    Vec<T> mean[POSE];  // rounded
    Vec<T> low[POSE];   // exact mean minus rounded mean
    Vec<T> variance[POSE];
    Vec<T> mass;
    Vec<T> logit;  // of the activation; its logarithm for mixing proportions
};

static_assert(sizeof(Statistics<float>) == EM_STATISTICS * sizeof(Vec<float>), "Python allocates EM_STATISTICS");

// ln of the product of all variances.
template <class T>
INLINE Vec<T> log_volume(const Vec<T> *variance) {
    PoseSum<T> sum;
    for (int d = 0; d < POSE; ++d) sum.add(d, log(variance[d]));
    return sum.total();
}

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

// Statistics in the form that the E-step reads.
template <class T>
struct Gaussian {
    using V = Vec<T>;

    V mean[POSE];
    V scale[POSE];   // 1 / sigma
    V log_peak;      // ln activation + ln of the density at the mean; -inf in lanes beyond the last parent type
    bool has_shift;  // whether any shift is more than the rounding of a deviation of one sigma; most are not
    V shift[POSE];   // low part of the mean / sigma; last, as it is rarely read

    INLINE void set(const Statistics<T> &fit, V log_activation, V volume, int64_t first_parent, int64_t parents) {
        V largest = {};
        for (int d = 0; d < POSE; ++d) {
            mean[d] = fit.mean[d];
            scale[d] = 1 / sqrt_lanes<T>(fit.variance[d]);
            shift[d] = fit.low[d] * scale[d];
            largest = max(largest, max(shift[d], -shift[d]));
        }
        has_shift = hsum<T>(largest > ROUNDOFF<T> ? broadcast<T>(1) : V{}) > 0;
        log_peak = log_activation - T(0.5) * volume - HALF_LOG_TWO_PI<T>;
        for (int lane = 0; lane < Lanes<T>::count; ++lane)
            if (first_parent + lane >= parents) log_peak[lane] = -__builtin_inf();
    }

    // Makes ln of the activation times the density of a parent that is not alive a constant below that of all others:
    // only a child whose parents are all dead is assigned to it.
    template <class Mask>
    INLINE void exclude_dead(const Mask &alive) {
        for (int d = 0; d < POSE; ++d) scale[d] = alive ? scale[d] : V{};
        log_peak = alive || log_peak < -FARTHEST<T> ? log_peak : broadcast<T>(-FARTHEST<T>);
    }

    // Calls work(d, u) for each dimension d, with u = (vote - mean) / sigma from centered(d) = vote - rounded mean.
    template <class Centered, class Work>
    INLINE void deviations(const Centered &centered, const Work &work) const {
        // Dividing before squaring keeps votes of 1e15 within float32.
        if (__builtin_expect(has_shift, 0))
            for (int d = 0; d < POSE; ++d) work(d, centered(d) * scale[d] - shift[d]);
        else
            for (int d = 0; d < POSE; ++d) work(d, centered(d) * scale[d]);
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
