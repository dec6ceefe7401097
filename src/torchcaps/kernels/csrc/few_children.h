// Samples of EM routing that float32 is too short for, in float64: those with few active children.
//
// Two active children are one sigma from the mean of every parent, whatever their votes are. In the gradients by their
// poses and weights, terms of opposite sign cancel that are up to a million times larger than what is left, so float32
// leaves one digit. docs/kernels.md has the derivation. Few children make little work, also in float64.
#pragma once

#include <vector>

#include "em_driver.h"
#include "instruction_sets.h"

namespace torchcaps {

// Whether the effective number of children, (sum of a)^2 / sum of a^2, is below 4 in all fields that have any.
inline bool few_children(const Wiring &wiring, const float *activation) {
    bool any = false;
    for (int64_t p = 0; p < wiring.positions; ++p) {
        double sum = 0, squares = 0;
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k) {
            const double a = activation[wiring.child[wiring.field_vote[k]]];
            sum += a, squares += a * a;
        }
        if (squares == 0) continue;
        if (!(sum * sum < 4 * squares)) return false;
        any = true;
    }
    return any;
}

inline std::vector<char> few_children_of_each(const EmOptions &options, const EmBatch<float> &batch) {
    std::vector<char> few(options.batch);
    const EmProblem<float> &problem = batch.problem;
    for (int64_t b = 0; b < options.batch; ++b)
        few[b] = few_children(problem.wiring, problem.activation + b * options.children);
    return few;
}

// Some samples of a batch in float64, with the limits of float32.
class Widened {
  public:
    Widened(const Kernels<double> &kernels, const EmOptions &all, const EmBatch<float> &narrow,
            const std::vector<char> &chosen)
        : kernels_(kernels),
          options_(all),
          samples_(list(chosen)),
          pose_(gather(narrow.inputs.pose, all.children * POSE)),
          activation_(gather(narrow.inputs.activation, all.children)),
          weight_(copy(narrow.inputs.weight, all.rows * all.parents * POSE)),
          offset_(copy(narrow.inputs.offset, (all.children + all.rows - 1) / all.rows * POSE)),
          beta_u_(copy(narrow.beta_u.get(), all.parents)),
          beta_a_(copy(narrow.beta_a.get(), all.parents)),
          batch_(kernels, resized(),
                 {pose_.data(), activation_.data(), weight_.data(), narrow.inputs.index,
                  narrow.inputs.offset ? offset_.data() : nullptr},
                 beta_u_.data(), beta_a_.data()),
          outputs_(count() * parents()),
          out_pose_(outputs_ * POSE),
          out_activation_(outputs_),
          out_logit_(outputs_),
          statistics_(count() * all.iterations * all.positions * batch_.padded * EM_STATISTICS) {
        batch_.problem.limits = {Limits<float>().least_mass, Limits<float>().step};
    }

    void forward() {
        em_forward<double>(kernels_, options_, batch_,
                           {out_pose_.get(), out_activation_.get(), out_logit_.get(), statistics_.get()});
    }

    void write(const EmOutput<float> &output) const {
        scatter(out_pose_.get(), parents() * POSE, output.pose);
        scatter(out_activation_.get(), parents(), output.activation);
        scatter(out_logit_.get(), parents(), output.logit);
        // The backward pass does not read them: it computes them again.
        const int64_t size = options_.iterations * options_.positions * batch_.padded * EM_STATISTICS;
        for (const int64_t sample : samples_) std::fill_n(output.statistics + sample * size, size, 0.0f);
    }

    // Writes the gradients of these samples, and adds to those of the parameters.
    void backward(const EmGradient<float> &gradient, float *weight, float *beta_u, float *beta_a) {
        forward();
        const std::vector<double> pose = gather(gradient.pose, parents() * POSE);
        const std::vector<double> activation = gather(gradient.activation, parents());
        const std::vector<double> logit = gather(gradient.logit, parents());
        std::vector<double> child_pose(pose_.size()), child_activation(activation_.size());
        std::vector<double> own_weight(weight_.size()), own_u(beta_u_.size()), own_a(beta_a_.size());
        em_backward<double>(kernels_, options_, batch_,
                            {pose.data(), activation.data(), logit.data(), statistics_.get(), child_pose.data(),
                             child_activation.data()},
                            own_weight.data(), own_u.data(), own_a.data());
        scatter(child_pose.data(), options_.children * POSE, gradient.child_pose);
        scatter(child_activation.data(), options_.children, gradient.child_activation);
        add(own_weight, weight), add(own_u, beta_u), add(own_a, beta_a);
    }

  private:
    static std::vector<int64_t> list(const std::vector<char> &chosen) {
        std::vector<int64_t> samples;
        for (size_t b = 0; b < chosen.size(); ++b)
            if (chosen[b]) samples.push_back(static_cast<int64_t>(b));
        return samples;
    }
    static std::vector<double> copy(const float *source, int64_t size) {
        return source ? std::vector<double>(source, source + size) : std::vector<double>();
    }
    static void add(const std::vector<double> &source, float *target) {
        for (size_t k = 0; k < source.size(); ++k) target[k] = static_cast<float>(target[k] + source[k]);
    }
    std::vector<double> gather(const float *source, int64_t size) const {
        std::vector<double> values;
        values.reserve(count() * size);
        for (const int64_t sample : samples_)
            values.insert(values.end(), source + sample * size, source + (sample + 1) * size);
        return values;
    }
    void scatter(const double *source, int64_t size, float *target) const {
        for (const int64_t sample : samples_)
            for (int64_t k = 0; k < size; ++k) target[sample * size + k] = static_cast<float>(*source++);
    }
    const EmOptions &resized() {
        options_.batch = count();
        return options_;
    }
    int64_t count() const { return static_cast<int64_t>(samples_.size()); }
    int64_t parents() const { return options_.positions * options_.parents; }

    const Kernels<double> &kernels_;
    EmOptions options_;
    const std::vector<int64_t> samples_;
    const std::vector<double> pose_, activation_, weight_, offset_, beta_u_, beta_a_;
    EmBatch<double> batch_;
    const int64_t outputs_;
    const Buffer<double> out_pose_, out_activation_, out_logit_, statistics_;
};

// em_forward and em_backward for float32 tensors.
inline void em_forward(const InstructionSet &set, const EmOptions &options, const EmBatch<float> &batch,
                       const EmOutput<float> &output) {
    const std::vector<char> few = few_children_of_each(options, batch);
    em_forward<float>(set.single_precision, options, batch, output, few.data());
    if (std::find(few.begin(), few.end(), 1) == few.end()) return;
    Widened widened(set.double_precision, options, batch, few);
    widened.forward();
    widened.write(output);
}

inline void em_backward(const InstructionSet &set, const EmOptions &options, const EmBatch<float> &batch,
                        const EmGradient<float> &gradient, float *weight, float *beta_u, float *beta_a) {
    const std::vector<char> few = few_children_of_each(options, batch);
    em_backward<float>(set.single_precision, options, batch, gradient, weight, beta_u, beta_a, few.data());
    if (std::find(few.begin(), few.end(), 1) == few.end()) return;
    Widened(set.double_precision, options, batch, few).backward(gradient, weight, beta_u, beta_a);
}

// For float64 tensors nothing is wider.
inline void em_forward(const InstructionSet &set, const EmOptions &options, const EmBatch<double> &batch,
                       const EmOutput<double> &output) {
    em_forward<double>(set.double_precision, options, batch, output);
}

inline void em_backward(const InstructionSet &set, const EmOptions &options, const EmBatch<double> &batch,
                        const EmGradient<double> &gradient, double *weight, double *beta_u, double *beta_a) {
    em_backward<double>(set.double_precision, options, batch, gradient, weight, beta_u, beta_a);
}

}  // namespace torchcaps
