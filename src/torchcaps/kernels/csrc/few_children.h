// Samples of EM and Heinsen routing that float32 is too short for, in float64: those with few active children.
//
// Two active children are one sigma from the mean of every parent, whatever their votes are. In the gradients by their
// poses and weights, terms of opposite sign cancel that are up to a million times larger than what is left, so float32
// leaves one digit. docs/kernels.md has the derivation. Few children make little work, also in float64.
#pragma once

#include <array>
#include <vector>

#include "em_driver.h"
#include "heinsen_driver.h"
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

// [batch]: which samples have few children.
template <class Problem>
std::vector<char> few_children_of_each(const MixtureOptions &options, const Problem &problem) {
    std::vector<char> few(options.batch);
    for (int64_t b = 0; b < options.batch; ++b)
        few[b] = few_children(problem.wiring, problem.activation + b * options.children);
    return few;
}

// Up to three parameters beside the weight; null where there is none.
template <class T>
using Parameters = std::array<T *, 3>;

// What differs between the two routings.
struct EmRoute {
    using Options = EmOptions;
    template <class T>
    using Batch = EmBatch<T>;

    static std::array<int64_t, 3> sizes(const Options &options) { return {options.parents, options.parents, 0}; }
    static Batch<double> batch(const Kernels<double> &kernels, const Options &options,
                               const MixtureInputs<double> &inputs, const Parameters<const double> &sources) {
        return Batch<double>(kernels, options, inputs, sources[0], sources[1]);
    }
    template <class T>
    static void forward(const Kernels<T> &kernels, const Options &options, const Batch<T> &batch,
                        const EmOutput<T> &output, const char *skipped) {
        em_forward<T>(kernels, options, batch, output, skipped);
    }
    template <class T>
    static void backward(const Kernels<T> &kernels, const Options &options, const Batch<T> &batch,
                         const EmGradient<T> &gradient, T *weight, const Parameters<T> &others, const char *skipped) {
        em_backward<T>(kernels, options, batch, gradient, weight, others[0], others[1], skipped);
    }
};

struct HeinsenRoute {
    using Options = MixtureOptions;
    template <class T>
    using Batch = HeinsenBatch<T>;

    static std::array<int64_t, 3> sizes(const Options &options) {
        const int64_t betas = options.rows * options.parents;
        return {betas, betas, betas * POSE};
    }
    static Batch<double> batch(const Kernels<double> &kernels, const Options &options,
                               const MixtureInputs<double> &inputs, const Parameters<const double> &sources) {
        return Batch<double>(kernels, options, inputs, sources[0], sources[1], sources[2]);
    }
    template <class T>
    static void forward(const Kernels<T> &kernels, const Options &options, const Batch<T> &batch,
                        const EmOutput<T> &output, const char *skipped) {
        heinsen_forward<T>(kernels, options, batch, output, skipped);
    }
    template <class T>
    static void backward(const Kernels<T> &kernels, const Options &options, const Batch<T> &batch,
                         const EmGradient<T> &gradient, T *weight, const Parameters<T> &others, const char *skipped) {
        heinsen_backward<T>(kernels, options, batch, gradient, weight, others[0], others[1], others[2], skipped);
    }
};

// Some samples of a batch in float64, with the limits of float32.
template <class Route>
class Widened {
    using Options = typename Route::Options;
    using Values = std::vector<double>;

  public:
    Widened(const Kernels<double> &kernels, const Options &all, const typename Route::template Batch<float> &narrow,
            const std::vector<char> &chosen)
        : kernels_(kernels),
          options_(all),
          samples_(list(chosen)),
          pose_(gather(narrow.inputs.pose, all.children * POSE)),
          activation_(gather(narrow.inputs.activation, all.children)),
          weight_(copy(narrow.inputs.weight, all.rows * all.parents * POSE)),
          offset_(copy(narrow.inputs.offset, (all.children + all.rows - 1) / all.rows * POSE)),
          others_{copy(narrow.sources[0], Route::sizes(all)[0]), copy(narrow.sources[1], Route::sizes(all)[1]),
                  copy(narrow.sources[2], Route::sizes(all)[2])},
          batch_(Route::batch(kernels, resized(),
                              {pose_.data(), activation_.data(), weight_.data(), narrow.inputs.index, or_null(offset_)},
                              {or_null(others_[0]), or_null(others_[1]), or_null(others_[2])})),
          out_pose_(count() * parents() * POSE),
          out_activation_(count() * parents()),
          out_logit_(count() * parents()),
          statistics_(count() * statistics_size()) {
        batch_.problem.limits = {Limits<float>().least_mass, Limits<float>().step};
    }

    void forward() {
        Route::template forward<double>(kernels_, options_, batch_,
                                        {out_pose_.get(), out_activation_.get(), out_logit_.get(), statistics_.get()},
                                        nullptr);
    }

    void write(const EmOutput<float> &output) const {
        scatter(out_pose_.get(), parents() * POSE, output.pose);
        scatter(out_activation_.get(), parents(), output.activation);
        scatter(out_logit_.get(), parents(), output.logit);
        // The backward pass does not read them: it computes them again.
        const int64_t size = statistics_size();
        for (const int64_t sample : samples_) std::fill_n(output.statistics + sample * size, size, 0.0f);
    }

    // Writes the gradients of these samples, and adds to those of the parameters.
    void backward(const EmGradient<float> &gradient, float *weight, const Parameters<float> &others) {
        forward();
        const Values pose = gather(gradient.pose, parents() * POSE);
        const Values activation = gather(gradient.activation, parents());
        const Values logit = gather(gradient.logit, parents());
        Values child_pose(pose_.size()), child_activation(activation_.size()), own_weight(weight_.size());
        std::array<Values, 3> own;
        for (int k = 0; k < 3; ++k) own[k].resize(others[k] ? Route::sizes(options_)[k] : 0);
        Route::template backward<double>(kernels_, options_, batch_,
                                         {pose.data(), activation.data(), logit.data(), statistics_.get(),
                                          child_pose.data(), child_activation.data()},
                                         own_weight.data(), {or_null(own[0]), or_null(own[1]), or_null(own[2])},
                                         nullptr);
        scatter(child_pose.data(), options_.children * POSE, gradient.child_pose);
        scatter(child_activation.data(), options_.children, gradient.child_activation);
        add(own_weight, weight);
        for (int k = 0; k < 3; ++k) add(own[k], others[k]);
    }

  private:
    static std::vector<int64_t> list(const std::vector<char> &chosen) {
        std::vector<int64_t> samples;
        for (size_t b = 0; b < chosen.size(); ++b)
            if (chosen[b]) samples.push_back(static_cast<int64_t>(b));
        return samples;
    }
    static Values copy(const float *source, int64_t size) { return source ? Values(source, source + size) : Values(); }
    static const double *or_null(const Values &values) { return values.empty() ? nullptr : values.data(); }
    static double *or_null(Values &values) { return values.empty() ? nullptr : values.data(); }
    static void add(const Values &source, float *target) {
        for (size_t k = 0; k < source.size(); ++k) target[k] = static_cast<float>(target[k] + source[k]);
    }
    Values gather(const float *source, int64_t size) const {
        Values values;
        values.reserve(count() * size);
        for (const int64_t sample : samples_)
            values.insert(values.end(), source + sample * size, source + (sample + 1) * size);
        return values;
    }
    void scatter(const double *source, int64_t size, float *target) const {
        for (const int64_t sample : samples_)
            for (int64_t k = 0; k < size; ++k) target[sample * size + k] = static_cast<float>(*source++);
    }
    const Options &resized() {
        options_.batch = count();
        return options_;
    }
    int64_t count() const { return static_cast<int64_t>(samples_.size()); }
    int64_t parents() const { return options_.positions * options_.parents; }
    int64_t statistics_size() const { return options_.iterations * options_.positions * batch_.padded * EM_STATISTICS; }

    const Kernels<double> &kernels_;
    Options options_;
    const std::vector<int64_t> samples_;
    const Values pose_, activation_, weight_, offset_;
    const std::array<Values, 3> others_;
    typename Route::template Batch<double> batch_;
    const Buffer<double> out_pose_, out_activation_, out_logit_, statistics_;
};

// Both passes; of float32 tensors, samples with few children in float64.
template <class Route, class T>
void route_forward(const typename Route::Options &options, const typename Route::template Batch<T> &batch,
                   const EmOutput<T> &output) {
    if constexpr (sizeof(T) == sizeof(double)) {
        Route::template forward<T>(kernels<T>(), options, batch, output, nullptr);
    } else {
        const std::vector<char> few = few_children_of_each(options, batch.problem);
        Route::template forward<T>(kernels<T>(), options, batch, output, few.data());
        if (std::find(few.begin(), few.end(), 1) == few.end()) return;
        Widened<Route> widened(kernels<double>(), options, batch, few);
        widened.forward();
        widened.write(output);
    }
}

template <class Route, class T>
void route_backward(const typename Route::Options &options, const typename Route::template Batch<T> &batch,
                    const EmGradient<T> &gradient, T *weight, const Parameters<T> &others) {
    if constexpr (sizeof(T) == sizeof(double)) {
        Route::template backward<T>(kernels<T>(), options, batch, gradient, weight, others, nullptr);
    } else {
        const std::vector<char> few = few_children_of_each(options, batch.problem);
        Route::template backward<T>(kernels<T>(), options, batch, gradient, weight, others, few.data());
        if (std::find(few.begin(), few.end(), 1) == few.end()) return;
        Widened<Route>(kernels<double>(), options, batch, few).backward(gradient, weight, others);
    }
}

}  // namespace torchcaps
