// Votes of 4 x 4 matrix poses, for one vector of parent types at a time.
#pragma once

#include "lanes.h"
#include "problem.h"

namespace torchcaps::INSTRUCTION_SET {

// V = M W + offset. The pose M of one child is the same in all lanes; W differs from lane to lane.
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

// G_M += G_V W^T, lane by lane, and G_W += M^T G_V.
template <class T>
INLINE void cast_votes_backward(const T *pose, const Vec<T> *weight, const Vec<T> *grad, Vec<T> *grad_pose,
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

}  // namespace torchcaps::INSTRUCTION_SET
