// All kernels of one instruction set; included by each lanes_*.cpp.
#pragma once

#include "dynamic_backward.h"
#include "dynamic_forward.h"
#include "em_backward.h"
#include "em_forward.h"
#include "em_rule.h"
#include "heinsen_rule.h"

namespace torchcaps::INSTRUCTION_SET {

inline Scratch scratch_at(void *memory) { return {reinterpret_cast<uintptr_t>(memory)}; }

template <class T, class Rule, class Spread>
int64_t mixture_forward_scratch(const typename Rule::Problem &problem) {
    Scratch scratch = scratch_at(nullptr);
    EmForward<T, Rule, Spread>(problem, 0, scratch);
    return scratch.next / sizeof(T);
}

template <class T, class Rule, class Spread>
void mixture_forward(const typename Rule::Problem &problem, const EmOutput<T> &output, int64_t sample, T *memory) {
    Scratch scratch = scratch_at(memory);
    EmForward<T, Rule, Spread>(problem, sample, scratch).run(output, sample);
}

template <class T, class Rule, class Spread>
int64_t mixture_backward_scratch(const typename Rule::Problem &problem) {
    Scratch scratch = scratch_at(nullptr);
    EmBackward<T, Rule, Spread>(problem, EmGradient<T>{}, typename Rule::Shared{}, 0, scratch);
    return scratch.next / sizeof(T);
}

template <class T, class Rule, class Spread>
void mixture_backward(const typename Rule::Problem &problem, const EmGradient<T> &gradient,
                      const typename Rule::Shared &shared, int64_t sample, T *memory) {
    Scratch scratch = scratch_at(memory);
    EmBackward<T, Rule, Spread>(problem, gradient, shared, sample, scratch).run(gradient, sample);
}

template <class T>
int64_t dynamic_forward_scratch(const DynamicProblem<T> &problem) {
    Scratch scratch = scratch_at(nullptr);
    DynamicForward<T>(problem, scratch);
    return scratch.next / sizeof(T);
}

template <class T>
void dynamic_forward(const DynamicProblem<T> &problem, const Range &samples, T *pose, T *totals, T *memory) {
    Scratch scratch = scratch_at(memory);
    DynamicForward<T>(problem, scratch).run(samples, pose, totals);
}

template <class T>
int64_t dynamic_saved_size(const DynamicProblem<T> &problem) {
    return DynamicBackward<T>(problem).saved_size();
}

template <class T>
int64_t dynamic_logits_scratch(const DynamicProblem<T> &problem) {
    Scratch scratch = scratch_at(nullptr);
    DynamicBackward<T>(problem).logits_memory(scratch);
    return scratch.next / sizeof(T);
}

template <class T>
void dynamic_grad_of_logits(const DynamicProblem<T> &problem, const Range &samples, const T *grad, const T *totals,
                            T *saved, T *bias, T *memory) {
    Scratch scratch = scratch_at(memory);
    DynamicBackward<T>(problem).grad_of_logits(samples, grad, totals, saved, bias, scratch);
}

template <class T>
int64_t dynamic_votes_scratch(const DynamicProblem<T> &problem) {
    Scratch scratch = scratch_at(nullptr);
    DynamicBackward<T>(problem).votes_memory(scratch);
    return scratch.next / sizeof(T);
}

template <class T>
void dynamic_grad_of_votes(const DynamicProblem<T> &problem, const Range &children, const Range &samples, T *saved,
                           T *pose, T *weight, T *memory) {
    Scratch scratch = scratch_at(memory);
    DynamicBackward<T>(problem).grad_of_votes(children, samples, saved, pose, weight, scratch);
}

template <class T>
Kernels<T> table() {
    Kernels<T> kernels = {};
    kernels.lanes = Lanes<T>::count;
    kernels.dynamic_group = DynamicSamples<T>::GROUP;
    kernels.em_forward_scratch = mixture_forward_scratch<T, EmRule<T>, Diagonal<T>>;
    kernels.em_forward = mixture_forward<T, EmRule<T>, Diagonal<T>>;
    kernels.em_backward_scratch = mixture_backward_scratch<T, EmRule<T>, Diagonal<T>>;
    kernels.em_backward = mixture_backward<T, EmRule<T>, Diagonal<T>>;
    if constexpr (sizeof(T) == sizeof(double)) {
        kernels.rows_forward_scratch = mixture_forward_scratch<T, EmRule<T>, Rows<T>>;
        kernels.rows_forward = mixture_forward<T, EmRule<T>, Rows<T>>;
        kernels.rows_backward_scratch = mixture_backward_scratch<T, EmRule<T>, Rows<T>>;
        kernels.rows_backward = mixture_backward<T, EmRule<T>, Rows<T>>;
    }
    kernels.heinsen_forward_scratch = mixture_forward_scratch<T, HeinsenRule<T>, Diagonal<T>>;
    kernels.heinsen_forward = mixture_forward<T, HeinsenRule<T>, Diagonal<T>>;
    kernels.heinsen_backward_scratch = mixture_backward_scratch<T, HeinsenRule<T>, Diagonal<T>>;
    kernels.heinsen_backward = mixture_backward<T, HeinsenRule<T>, Diagonal<T>>;
    kernels.dynamic_forward_scratch = dynamic_forward_scratch<T>;
    kernels.dynamic_forward = dynamic_forward<T>;
    kernels.dynamic_saved_size = dynamic_saved_size<T>;
    kernels.dynamic_logits_scratch = dynamic_logits_scratch<T>;
    kernels.dynamic_grad_of_logits = dynamic_grad_of_logits<T>;
    kernels.dynamic_votes_scratch = dynamic_votes_scratch<T>;
    kernels.dynamic_grad_of_votes = dynamic_grad_of_votes<T>;
    return kernels;
}

// bindings.cpp declares this pair for each instruction set.
Kernels<float> single_precision() { return table<float>(); }
Kernels<double> double_precision() { return table<double>(); }

}  // namespace torchcaps::INSTRUCTION_SET
