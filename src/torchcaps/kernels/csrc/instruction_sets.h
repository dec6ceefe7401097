// The kernels of every instruction set, and which of them are in use.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "problem.h"

namespace torchcaps {

#define DECLARE(set)                    \
    namespace set {                     \
    Kernels<float> single_precision();  \
    Kernels<double> double_precision(); \
    }

DECLARE(baseline)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
#endif
#undef DECLARE

struct InstructionSet {
    std::string name = "baseline";
    Kernels<float> single_precision = baseline::single_precision();
    Kernels<double> double_precision = baseline::double_precision();
};

// Names of those that this processor can run, fastest first.
inline std::vector<std::string> available_sets() {
    std::vector<std::string> names;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        names.push_back("avx512");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) names.push_back("avx2");
#endif
    names.push_back("baseline");
    return names;
}

inline InstructionSet find_set(const std::string &name) {
    std::string names;
    for (const std::string &known : available_sets()) {
        names += (names.empty() ? "" : ", ") + known;
        if (known != name) continue;
#if defined(__x86_64__)
        if (name == "avx512") return {name, avx512::single_precision(), avx512::double_precision()};
        if (name == "avx2") return {name, avx2::single_precision(), avx2::double_precision()};
#endif
        return {};
    }
    throw std::invalid_argument("instruction set must be one of " + names + " on this processor, got " + name);
}

inline InstructionSet &current_set() {
    static InstructionSet set = find_set(available_sets().front());
    return set;
}

template <class T>
const Kernels<T> &kernels() {
    if constexpr (sizeof(T) == sizeof(float))
        return current_set().single_precision;
    else
        return current_set().double_precision;
}

}  // namespace torchcaps
