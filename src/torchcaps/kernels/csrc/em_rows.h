// One covariance of the rows of a pose matrix, shared by its columns, which does not depend on the viewpoint. Its members
// have the names and meanings of those of Diagonal.
//
// With X a vote minus the mean, as a matrix of SIDE rows and SIDE columns, and s the share of the parent's mass,
//
//     C = sum s X X^T / SIDE,  S = C + ridge I,  q = tr(X^T S^-1 X),  ln p = -(q + SIDE ln |S|) / 2 + constant
//
// S may be nearly singular, so it is computed in float64 only, as in the plain form.
#pragma once

#include "em_gaussian.h"

namespace torchcaps::INSTRUCTION_SET {

// A symmetric or a lower triangular matrix: its rows up to the diagonal, one after another.
constexpr int TRIANGLE = SIDE * (SIDE + 1) / 2;

INLINE constexpr int entry(int row, int column) {
    return row < column ? column * (column + 1) / 2 + row : row * (row + 1) / 2 + column;
}

template <class T>
struct Rows {
    using V = Vec<T>;
    using Problem = MixtureProblem<T>;

    static constexpr int SECOND = TRIANGLE;

    // The share of the mean variance in the ridge: it keeps S positive where the children span less than all rows.
    static constexpr T RELATIVE_RIDGE = T(1e-10);

    struct Statistics {
        V mean[POSE], low[POSE];
        V covariance[TRIANGLE];  // C, without the ridge
        V mass, logit;
    };

    static_assert(sizeof(Statistics) == ROWS_STATISTICS * sizeof(V), "Python allocates ROWS_STATISTICS");

    static INLINE V volume(const Problem &problem, const Statistics &fitted) {
        Gaussian gaussian;
        return gaussian.set(problem, fitted);
    }

    struct Gaussian {
        V mean[POSE], low[POSE];
        V inverse[TRIANGLE];  // of the Cholesky factor L of S
        V log_peak;

        INLINE void clear_mean() {
            for (int d = 0; d < POSE; ++d) mean[d] = low[d] = V{};
        }

        INLINE void center(V *votes) const {
            for (int d = 0; d < POSE; ++d) votes[d] = (votes[d] - mean[d]) - low[d];
        }

        // The volume is SIDE ln |S|: ln of the product of all variances, if S is diagonal.
        INLINE V set(const Problem &problem, const Statistics &fitted) {
            V floor = {}, trace = {};
            for (int d = 0; d < POSE; ++d) {
                mean[d] = fitted.mean[d], low[d] = fitted.low[d];
                floor = max(floor, least_variance<T>(problem, mean[d]));
            }
            for (int row = 0; row < SIDE; ++row) trace += fitted.covariance[entry(row, row)];
            const V ridge = floor + (RELATIVE_RIDGE / SIDE) * trace;
            V factor[TRIANGLE], volume = {};
            for (int row = 0; row < SIDE; ++row) {
                for (int column = 0; column <= row; ++column) {
                    V sum = fitted.covariance[entry(row, column)];
                    for (int k = 0; k < column; ++k) sum -= factor[entry(row, k)] * factor[entry(column, k)];
                    factor[entry(row, column)] =
                        row == column ? sqrt_lanes<T>(sum + ridge) : sum * inverse[entry(column, column)];
                }
                volume += 2 * SIDE * log(factor[entry(row, row)]);
                inverse[entry(row, row)] = 1 / factor[entry(row, row)];
            }
            for (int column = 0; column < SIDE; ++column)
                for (int row = column + 1; row < SIDE; ++row) {
                    V sum = {};
                    for (int k = column; k < row; ++k) sum += factor[entry(row, k)] * inverse[entry(k, column)];
                    inverse[entry(row, column)] = -sum * inverse[entry(row, row)];
                }
            return volume;
        }

        // X, and W = L^-1 X
        INLINE void whiten(const V *votes, V *centered, V *whitened) const {
            for (int d = 0; d < POSE; ++d) centered[d] = votes[d];
            center(centered);
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column < SIDE; ++column) {
                    V sum = {};
                    for (int k = 0; k <= row; ++k) sum += inverse[entry(row, k)] * centered[k * SIDE + column];
                    whitened[row * SIDE + column] = sum;
                }
        }

        // L^-T W, which is S^-1 X
        INLINE void unwhiten(const V *whitened, V *scaled) const {
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column < SIDE; ++column) {
                    V sum = {};
                    for (int k = row; k < SIDE; ++k) sum += inverse[entry(k, row)] * whitened[k * SIDE + column];
                    scaled[row * SIDE + column] = sum;
                }
        }

        // L^-T M L^-1 for a symmetric M
        INLINE void unwhiten_both(const V *symmetric, V *scaled) const {
            V half[POSE];  // L^-T M
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column < SIDE; ++column) {
                    V sum = {};
                    for (int k = row; k < SIDE; ++k) sum += inverse[entry(k, row)] * symmetric[entry(k, column)];
                    half[row * SIDE + column] = sum;
                }
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column <= row; ++column) {
                    V sum = {};
                    for (int k = column; k < SIDE; ++k) sum += half[row * SIDE + k] * inverse[entry(k, column)];
                    scaled[entry(row, column)] = sum;
                }
        }

        // Writes votes minus the mean, its low part too, to `store` if CENTERED.
        template <bool CENTERED>
        INLINE V distance(const V *votes, V *store) const {
            V centered[POSE], whitened[POSE];
            whiten(votes, centered, whitened);
            PoseSum<T> squares;
            for (int d = 0; d < POSE; ++d) {
                if (CENTERED) store[d] = centered[d];
                squares.add(d, whitened[d] * whitened[d]);
            }
            return squares.total();
        }
    };

    // first += r X,  second += r X X^T
    static INLINE void accumulate(V r, const V *centered, V *first, V *second) {
        V weighted[POSE];
        for (int d = 0; d < POSE; ++d) first[d] += weighted[d] = r * centered[d];
        add_products(weighted, centered, second);
    }

    // sum += A B^T, which is symmetric
    static INLINE void add_products(const V *a, const V *b, V *sum) {
        for (int row = 0; row < SIDE; ++row)
            for (int other = 0; other <= row; ++other)
                for (int column = 0; column < SIDE; ++column)
                    sum[entry(row, other)] += a[row * SIDE + column] * b[other * SIDE + column];
    }

    // C = (S_2 / S_0 - M M^T) / SIDE for sums around a point from which the mean is M away.
    static INLINE void covariance_of(V inverse, const V *second, const V *moved, V *covariance) {
        V products[TRIANGLE] = {};
        add_products(moved, moved, products);
        for (int k = 0; k < TRIANGLE; ++k) covariance[k] = (second[k] * inverse - products[k]) / SIDE;
        for (int row = 0; row < SIDE; ++row) {
            V &variance = covariance[entry(row, row)];
            variance = max(variance, V{});
        }
    }

    template <class Mask>
    static INLINE bool fit(const Problem &problem, T far, const Mask &alive, V inverse, const Gaussian &before,
                           const V *first, const V *second, Statistics &fitted) {
        const V zero = {}, one = broadcast<T>(1);
        V moved[POSE], inaccurate = {};
        for (int d = 0; d < POSE; ++d) {
            moved[d] = first[d] * inverse;
            split(alive ? before.mean[d] : zero, alive ? before.low[d] + moved[d] : zero, fitted.mean[d],
                  fitted.low[d]);
        }
        covariance_of(inverse, second, moved, fitted.covariance);
        for (int d = 0; d < POSE; ++d) {
            const V variance = fitted.covariance[entry(d / SIDE, d / SIDE)];
            inaccurate = alive && (moved[d] * moved[d] > far * (variance + problem.epsilon)) ? one : inaccurate;
        }
        for (int k = 0; k < TRIANGLE; ++k) fitted.covariance[k] = alive ? fitted.covariance[k] : zero;
        return !(hmax<T>(inaccurate) > 0);
    }

    template <class Mask>
    static INLINE bool refine(const Mask &alive, V inverse, const V *first, const V *second, Statistics &fitted) {
        const V zero = {}, one = broadcast<T>(1);
        V moved[POSE], again = zero;
        for (int d = 0; d < POSE; ++d) moved[d] = alive ? first[d] * inverse : zero;
        covariance_of(inverse, second, moved, fitted.covariance);
        for (int d = 0; d < POSE; ++d) {
            const V low = moved[d], step = 16 * ROUNDOFF<T> * fitted.mean[d];
            const V variance = fitted.covariance[entry(d / SIDE, d / SIDE)];
            again = low * low > T(1e-6) * variance && low * low > step * step ? one : again;
            split(fitted.mean[d], low, fitted.mean[d], fitted.low[d]);
        }
        for (int k = 0; k < TRIANGLE; ++k) fitted.covariance[k] = alive ? fitted.covariance[k] : zero;
        return hmax<T>(again) > 0;
    }

    static INLINE void add_least_variance(const Problem &, Statistics &) {}  // part of the ridge

    // The sums of the E-step are of whitened deviations W, so that no digits are lost in a nearly singular S.
    struct Gradient {
        V mean[POSE], low[POSE];
        V grad_mean[POSE];
        V grad_spread[TRIANGLE];  // G_S, then Q = G_C / SIDE
        V grad_center;
        Gaussian gaussian;
        V grad_logit;             // A_0 = sum of G_l
        V grad_first[POSE];       // B_1 = sum of G_l W
        V grad_second[TRIANGLE];  // B_2 = sum of G_l W W^T

        INLINE void clear_sums() {
            grad_logit = V{};
            for (int d = 0; d < POSE; ++d) grad_first[d] = V{};
            for (int k = 0; k < TRIANGLE; ++k) grad_second[k] = V{};
        }

        INLINE void clear_spread() {
            for (int k = 0; k < TRIANGLE; ++k) grad_spread[k] = V{};
        }

        // G_mu = L^-T B_1,  G_S = L^-T (B_2 - SIDE A_0 I) L^-1 / 2
        INLINE void grad_of_gaussian() {
            gaussian.unwhiten(grad_first, grad_mean);
            for (int row = 0; row < SIDE; ++row) grad_second[entry(row, row)] -= SIDE * grad_logit;
            gaussian.unwhiten_both(grad_second, grad_spread);
            for (int k = 0; k < TRIANGLE; ++k) grad_spread[k] *= T(0.5);
        }

        // G_S += SIDE G_volume S^-1,  and through the ridge G_C = G_S + ridge share tr(G_S) I
        template <class Mask>
        INLINE void grad_of_fit(const Problem &problem, const Statistics &fitted, const Mask &alive, V grad_volume) {
            const V zero = {};
            Gaussian own;
            own.set(problem, fitted);
            V identity[TRIANGLE] = {}, precision[TRIANGLE], trace = {};
            for (int row = 0; row < SIDE; ++row) identity[entry(row, row)] = broadcast<T>(1);
            own.unwhiten_both(identity, precision);
            for (int k = 0; k < TRIANGLE; ++k) grad_spread[k] += SIDE * grad_volume * precision[k];
            for (int row = 0; row < SIDE; ++row) trace += grad_spread[entry(row, row)];
            for (int row = 0; row < SIDE; ++row) grad_spread[entry(row, row)] += (RELATIVE_RIDGE / SIDE) * trace;
            // tr(Q SIDE C) = tr(G_C C)
            grad_center = zero;
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column <= row; ++column) {
                    V &grad = grad_spread[entry(row, column)];
                    grad = alive ? grad : zero;
                    grad_center += (row == column ? 1 : 2) * grad * fitted.covariance[entry(row, column)];
                    grad /= SIDE;
                }
            for (int d = 0; d < POSE; ++d) {
                mean[d] = fitted.mean[d], low[d] = fitted.low[d];
                grad_mean[d] = alive ? grad_mean[d] : zero;
            }
        }

        // X and Q X
        INLINE void spread_at(const V *vote, V *centered, V *spread) const {
            for (int d = 0; d < POSE; ++d) centered[d] = (vote[d] - mean[d]) - low[d];
            for (int row = 0; row < SIDE; ++row)
                for (int column = 0; column < SIDE; ++column) {
                    V sum = {};
                    for (int k = 0; k < SIDE; ++k) sum += grad_spread[entry(row, k)] * centered[k * SIDE + column];
                    spread[row * SIDE + column] = sum;
                }
        }

        // tr(X^T (G_mu + Q X)) - grad_center
        INLINE V agreement(const V *vote) const {
            V centered[POSE], spread[POSE];
            spread_at(vote, centered, spread);
            PoseSum<T> sums;
            for (int d = 0; d < POSE; ++d) sums.add(d, centered[d] * (grad_mean[d] + spread[d]));
            return sums.total() - grad_center;
        }

        // G_V = s (G_mu + 2 Q X)
        INLINE void grad_of_vote(V share, const V *vote, V *grad) const {
            V centered[POSE], spread[POSE];
            spread_at(vote, centered, spread);
            for (int d = 0; d < POSE; ++d) grad[d] = share * (grad_mean[d] + 2 * spread[d]);
        }

        // A_0 += G_l,  B_1 += G_l W,  B_2 += G_l W W^T,  G_V -= G_l S^-1 X
        INLINE void grad_of_density(V grad_log_density, bool limited, const V *vote, V *grad) {
            grad_logit += grad_log_density;
            V grad_distance = grad_log_density;
            if (__builtin_expect(limited, 0))
                grad_distance = gaussian.template distance<false>(vote, nullptr) < FARTHEST<T> ? grad_log_density : V{};
            V centered[POSE], whitened[POSE], scaled[POSE];
            gaussian.whiten(vote, centered, whitened);
            gaussian.unwhiten(whitened, scaled);
            for (int d = 0; d < POSE; ++d) grad[d] -= grad_distance * scaled[d];
            accumulate(grad_distance, whitened, grad_first, grad_second);
        }
    };
};

}  // namespace torchcaps::INSTRUCTION_SET
