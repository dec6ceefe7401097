// The table of kernels of one instruction set; included by each lanes_*.cpp.
#pragma once

#include "dynamic.h"
#include "em_backward.h"
#include "em_forward.h"

namespace torchcaps::INSTRUCTION_SET {

inline Scratch scratch_at(void *memory) { return {reinterpret_cast<uintptr_t>(memory)}; }

template <class T>
int64_t em_forward_scratch(const EmProblem<T> &problem) {
    Scratch scratch = scratch_at(nullptr);
    EmForward<T>(problem, 0, scratch);
    return scratch.next / sizeof(T);
}

template <class T>
void em_forward(const EmProblem<T> &problem, const EmOutput<T> &output, int64_t sample, T *memory) {
    Scratch scratch = scratch_at(memory);
    EmForward<T>(problem, sample, scratch).run(output, sample);
}

template <class T>
int64_t em_backward_scratch(const EmProblem<T> &problem) {
    Scratch scratch = scratch_at(nullptr);
    EmBackward<T>(problem, EmGradient<T>{}, EmShared<T>{}, 0, scratch);
    return scratch.next / sizeof(T);
}

template <class T>
void em_backward(const EmProblem<T> &problem, const EmGradient<T> &gradient, const EmShared<T> &shared, int64_t sample,
                 T *memory) {
    Scratch scratch = scratch_at(memory);
    EmBackward<T>(problem, gradient, shared, sample, scratch).run(gradient, sample);
}

template <class T>
int64_t dynamic_forward_scratch(const DynamicProblem<T> &problem) {
    return Dynamic<T>(problem).forward_scratch();
}

template <class T>
void dynamic_forward(const DynamicProblem<T> &problem, const Range &samples, T *pose, T *totals, T *scratch) {
    Dynamic<T>(problem).forward(samples, pose, totals, scratch);
}

template <class T>
int64_t dynamic_trail(const DynamicProblem<T> &problem) {
    return Dynamic<T>(problem).trail_size();
}

template <class T>
int64_t dynamic_gather_scratch(const DynamicProblem<T> &problem) {
    return Dynamic<T>(problem).gather_scratch();
}

template <class T>
void dynamic_gather(const DynamicProblem<T> &problem, const Range &samples, const T *grad, const T *totals, T *trails,
                    T *bias, T *scratch) {
    Dynamic<T>(problem).gather(samples, grad, totals, trails, bias, scratch);
}

template <class T>
int64_t dynamic_push_scratch(const DynamicProblem<T> &problem) {
    return Dynamic<T>(problem).push_scratch();
}

template <class T>
void dynamic_push(const DynamicProblem<T> &problem, const Range &children, const Range &samples, T *trails,
                  T *child_pose, T *weight, T *scratch) {
    Dynamic<T>(problem).push(children, samples, trails, child_pose, reinterpret_cast<Vec<T> *>(weight), scratch);
}

template <class T>
Kernels<T> table() {
    return {Lanes<T>::count,
            Dynamic<T>::GROUP,
            em_forward_scratch<T>,
            em_forward<T>,
            em_backward_scratch<T>,
            em_backward<T>,
            dynamic_forward_scratch<T>,
            dynamic_forward<T>,
            dynamic_trail<T>,
            dynamic_gather_scratch<T>,
            dynamic_gather<T>,
            dynamic_push_scratch<T>,
            dynamic_push<T>};
}

// What the driver links to, one pair per instruction set.
Kernels<float> single_precision() { return table<float>(); }
Kernels<double> double_precision() { return table<double>(); }

}  // namespace torchcaps::INSTRUCTION_SET
