// A variance for each of the 16 dimensions of a pose, as in the paper.
#pragma once

#include "em_gaussian.h"

namespace torchcaps::INSTRUCTION_SET {

template <class T>
struct Diagonal {
    using V = Vec<T>;
    using Problem = MixtureProblem<T>;

    static constexpr int SECOND = POSE;  // how many second moments there are

    // What the M-step returns for one position and one vector of parent types. The forward pass keeps it for every
    // iteration, as the backward pass needs it.
    struct Statistics {
        V mean[POSE];  // rounded
        V low[POSE];   // exact mean minus rounded mean
        V variance[POSE];
        V mass;
        V logit;  // of the activation; its logarithm for mixing proportions
    };

    static_assert(sizeof(Statistics) == EM_STATISTICS * sizeof(V), "Python allocates EM_STATISTICS");

    // ln of the product of all variances.
    static INLINE V volume(const Problem &, const Statistics &fitted) {
        PoseSum<T> sum;
        for (int d = 0; d < POSE; ++d) sum.add(d, log(fitted.variance[d]));
        return sum.total();
    }

    // Statistics in the form that the E-step reads.
    struct Gaussian {
        V mean[POSE];
        V scale[POSE];   // 1 / sigma
        V log_peak;      // ln activation + ln of the density at the mean; -inf in lanes beyond the last parent type
        bool has_shift;  // whether any shift is more than the rounding of a deviation of one sigma; most are not
        V shift[POSE];   // low part of the mean / sigma; last, as it is rarely read

        // Before the first iteration.
        INLINE void clear_mean() {
            for (int d = 0; d < POSE; ++d) mean[d] = V{};
        }

        // Subtracts the rounded mean, around which sums are taken.
        INLINE void center(V *votes) const {
            for (int d = 0; d < POSE; ++d) votes[d] -= mean[d];
        }

        // All but log_peak; returns the volume.
        INLINE V set(const Problem &problem, const Statistics &fitted) {
            V largest = {};
            for (int d = 0; d < POSE; ++d) {
                mean[d] = fitted.mean[d];
                scale[d] = 1 / sqrt_lanes<T>(fitted.variance[d]);
                shift[d] = fitted.low[d] * scale[d];
                largest = max(largest, max(shift[d], -shift[d]));
            }
            has_shift = hsum<T>(largest > ROUNDOFF<T> ? broadcast<T>(1) : V{}) > 0;
            return volume(problem, fitted);
        }

        // Makes ln of the activation times the density of a parent that is not alive a constant below that of all
        // others: only a child whose parents are all dead is assigned to it.
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

        // The squared distance of votes from the mean, in units of sigma. Writes votes minus the rounded mean to
        // `store` if CENTERED.
        template <bool CENTERED>
        INLINE V distance(const V *votes, V *store) const {
            PoseSum<T> squares;
            deviations(
                [&](int d) INLINED {
                    const V centered = votes[d] - mean[d];
                    if (CENTERED) store[d] = centered;
                    return centered;
                },
                [&](int d, V scaled) INLINED { squares.add(d, scaled * scaled); });
            return squares.total();
        }
    };

    // first += r x,  second += r x^2
    static INLINE void accumulate(V r, const V *centered, V *first, V *second) {
        for (int d = 0; d < POSE; ++d) {
            const V weighted = r * centered[d];
            first[d] += weighted;
            second[d] += weighted * centered[d];
        }
    }

    // S_0 = sum r,  S_1 = sum r (V - mu'),  S_2 = sum r (V - mu')^2,  with mu' the mean of the iteration before
    // mu = mu' + S_1 / S_0,  sigma^2 = S_2 / S_0 - (S_1 / S_0)^2;  returns whether the variance is accurate: whether
    // the mean moved by less than the square root of `far` sigma.
    template <class Mask>
    static INLINE bool fit(const Problem &problem, T far, const Mask &alive, V inverse, const Gaussian &before,
                           const V *first, const V *second, Statistics &fitted) {
        const V zero = {}, one = broadcast<T>(1);
        V inaccurate = {};
        for (int d = 0; d < POSE; ++d) {
            const V moved = first[d] * inverse;
            const V variance = second[d] * inverse - moved * moved;
            split(alive ? before.mean[d] : zero, alive ? moved : zero, fitted.mean[d], fitted.low[d]);
            fitted.variance[d] = alive ? max(variance, zero) : zero;
            inaccurate = alive && (moved * moved > far * (variance + problem.epsilon)) ? one : inaccurate;
        }
        return !(hmax<T>(inaccurate) > 0);
    }

    // The same from sums around the mean that was just found. Returns whether it moved by more than a thousandth of
    // sigma again.
    template <class Mask>
    static INLINE bool refine(const Mask &alive, V inverse, const V *first, const V *second, Statistics &fitted) {
        const V zero = {}, one = broadcast<T>(1);
        V again = zero;
        for (int d = 0; d < POSE; ++d) {
            const V low = alive ? first[d] * inverse : zero, step = 16 * ROUNDOFF<T> * fitted.mean[d];
            const V variance = alive ? max(second[d] * inverse - low * low, zero) : zero;
            again = low * low > T(1e-6) * variance && low * low > step * step ? one : again;
            fitted.variance[d] = variance;
            split(fitted.mean[d], low, fitted.mean[d], fitted.low[d]);
        }
        return hmax<T>(again) > 0;
    }

    static INLINE void add_least_variance(const Problem &problem, Statistics &fitted) {
        for (int d = 0; d < POSE; ++d) fitted.variance[d] += least_variance<T>(problem, fitted.mean[d]);
    }

    // The gradients of one vector of parents, on the way from iteration t to t - 1.
    struct Gradient {
        // By the M-step of iteration t.
        V mean[POSE];
        V grad_mean[POSE];
        V grad_variance[POSE];
        V grad_center;  // the part of G_r that all children of the parent have in common
        // The E-step of iteration t, by the Gaussian of t - 1, and the sums of its gradients.
        Gaussian gaussian;
        V grad_logit;         // A_0 = sum of G_l
        V grad_first[POSE];   // A_1 = sum of G_l u / sigma
        V grad_second[POSE];  // A_2 = sum of G_l u^2

        INLINE void clear_sums() {
            grad_logit = V{};
            for (int d = 0; d < POSE; ++d) grad_first[d] = grad_second[d] = V{};
        }

        // Last iteration: the loss does not depend on the variances.
        INLINE void clear_spread() {
            for (int d = 0; d < POSE; ++d) grad_variance[d] = V{};
        }

        // Earlier iterations, from l = ln a - sum_d ln v_d / 2 - sum_d u_d^2 / 2:
        // G_mu = A_1,  G_v = (A_2 - A_0) / (2 v)
        INLINE void grad_of_gaussian() {
            for (int d = 0; d < POSE; ++d) {
                const V scale = gaussian.scale[d];
                grad_mean[d] = grad_first[d];
                // The difference first: where children are one sigma off, as two children always are, it nearly
                // cancels.
                grad_variance[d] = T(0.5) * (grad_second[d] - grad_logit) * scale * scale;
            }
        }

        // To what G_r and G_V of the votes are made of.
        template <class Mask>
        INLINE void grad_of_fit(const Problem &problem, const Statistics &fitted, const Mask &alive, V grad_volume) {
            const V zero = {};
            grad_center = zero;
            for (int d = 0; d < POSE; ++d) {
                mean[d] = fitted.mean[d];
                // A dead parent has no mean and no variance that votes could move; 0 times an infinity would be NaN.
                const V moved = alive ? grad_mean[d] : zero;
                grad_variance[d] = alive ? grad_variance[d] + grad_volume / fitted.variance[d] : zero;
                const V observed = fitted.variance[d] - least_variance<T>(problem, fitted.mean[d]);
                // With delta = x - low and x = V - rounded mean, low is moved out of the sums over x.
                const V low = fitted.low[d];
                grad_center += grad_variance[d] * (observed - low * low) + low * moved;
                grad_mean[d] = moved - 2 * grad_variance[d] * low;
            }
        }

        // sum_d delta (G_mu + G_v delta) - grad_center,  delta = V - mu
        INLINE V agreement(const V *vote) const {
            PoseSum<T> sums;
            for (int d = 0; d < POSE; ++d) {
                const V centered = vote[d] - mean[d];
                sums.add(d, centered * (grad_mean[d] + grad_variance[d] * centered));
            }
            return sums.total() - grad_center;
        }

        // G_V = s (G_mu + 2 G_v delta)
        INLINE void grad_of_vote(V share, const V *vote, V *grad) const {
            for (int d = 0; d < POSE; ++d) {
                const V centered = vote[d] - mean[d];
                grad[d] = share * (grad_mean[d] + 2 * grad_variance[d] * centered);
            }
        }

        // A_0 += G_l,  A_1 += G_l u / sigma,  A_2 += G_l u^2,  G_V -= G_l u / sigma
        INLINE void grad_of_density(V grad_log_density, bool limited, const V *vote, V *grad) {
            grad_logit += grad_log_density;
            V grad_distance = grad_log_density;
            if (__builtin_expect(limited, 0)) {
                // A distance that was limited does not change with the vote.
                PoseSum<T> squares;
                for (int d = 0; d < POSE; ++d) {
                    const V far = (vote[d] - gaussian.mean[d]) * gaussian.scale[d];
                    squares.add(d, far * far);
                }
                grad_distance = squares.total() < FARTHEST<T> ? grad_log_density : V{};
            }
            gaussian.deviations([&](int d) INLINED { return vote[d] - gaussian.mean[d]; },
                                [&](int d, V scaled) INLINED {
                                    const V weighted = grad_distance * scaled;
                                    grad_first[d] += weighted * gaussian.scale[d];
                                    grad_second[d] += weighted * scaled;
                                    grad[d] -= weighted * gaussian.scale[d];
                                });
        }
    };
};

}  // namespace torchcaps::INSTRUCTION_SET
