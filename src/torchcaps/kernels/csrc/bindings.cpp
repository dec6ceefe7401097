// The Python module torchcaps.kernels._native: addresses in, nothing out, the interpreter free meanwhile.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "dynamic_driver.h"
#include "em_driver.h"

namespace py = pybind11;

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

struct Chosen {
    std::string name = "baseline";
    Kernels<float> single_precision = baseline::single_precision();
    Kernels<double> double_precision = baseline::double_precision();
};

// Names of what this processor can run, best first.
std::vector<std::string> available() {
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

Chosen choose(const std::string &name) {
    for (const std::string &known : available())
        if (known == name) {
#if defined(__x86_64__)
            if (name == "avx512") return {name, avx512::single_precision(), avx512::double_precision()};
            if (name == "avx2") return {name, avx2::single_precision(), avx2::double_precision()};
#endif
            return {};
        }
    throw std::invalid_argument("this processor has no " + name);
}

Chosen &chosen() {
    static Chosen choice = choose(available().front());
    return choice;
}

template <class T>
const Kernels<T> &kernels();
template <>
const Kernels<float> &kernels<float>() {
    return chosen().single_precision;
}
template <>
const Kernels<double> &kernels<double>() {
    return chosen().double_precision;
}

using Address = uintptr_t;

template <class T>
T *at(Address address) {
    return reinterpret_cast<T *>(address);
}

struct EmInputs {
    Address pose, activation, weight, beta_u, beta_a, index, offset;
};

template <class T>
EmBatch<T> em_batch(const EmOptions &options, const EmInputs &in) {
    return EmBatch<T>(kernels<T>(), options, at<T>(in.pose), at<T>(in.activation), at<T>(in.weight), at<T>(in.beta_u),
                      at<T>(in.beta_a), at<int64_t>(in.index), at<T>(in.offset));
}

template <class T>
void run_em_forward(const EmOptions &options, const EmInputs &in, Address pose, Address activation, Address logit,
                    Address statistics) {
    em_forward<T>(kernels<T>(), options, em_batch<T>(options, in),
                  {at<T>(pose), at<T>(activation), at<T>(logit), at<T>(statistics)});
}

template <class T>
void run_em_backward(const EmOptions &options, const EmInputs &in, Address grad_pose, Address grad_activation,
                     Address grad_logit, Address statistics, Address pose, Address activation, Address weight,
                     Address beta_u, Address beta_a) {
    em_backward<T>(kernels<T>(), options, em_batch<T>(options, in),
                   {at<T>(grad_pose), at<T>(grad_activation), at<T>(grad_logit), at<T>(statistics), at<T>(pose),
                    at<T>(activation)},
                   at<T>(weight), at<T>(beta_u), at<T>(beta_a));
}

template <class T>
void run_dynamic_forward(const DynamicOptions &options, Address pose, Address weight, Address bias, Address out,
                         Address totals) {
    const DynamicBatch<T> batch(kernels<T>(), options, at<T>(pose), at<T>(weight), at<T>(bias));
    dynamic_forward<T>(kernels<T>(), options, batch, at<T>(out), at<T>(totals));
}

template <class T>
void run_dynamic_backward(const DynamicOptions &options, Address pose, Address weight, Address bias, Address grad,
                          Address totals, Address grad_pose, Address grad_weight, Address grad_bias) {
    const DynamicBatch<T> batch(kernels<T>(), options, at<T>(pose), at<T>(weight), at<T>(bias));
    dynamic_backward<T>(kernels<T>(), options, batch, at<T>(grad), at<T>(totals), at<T>(grad_pose), at<T>(grad_weight),
                        at<T>(grad_bias));
}

template <class T>
void define(py::module_ &module, const std::string &suffix) {
    const auto free = py::call_guard<py::gil_scoped_release>();
    module.def(("em_forward_" + suffix).c_str(), run_em_forward<T>, free);
    module.def(("em_backward_" + suffix).c_str(), run_em_backward<T>, free);
    module.def(("dynamic_forward_" + suffix).c_str(), run_dynamic_forward<T>, free);
    module.def(("dynamic_backward_" + suffix).c_str(), run_dynamic_backward<T>, free);
}

}  // namespace torchcaps

PYBIND11_MODULE(_native, module) {
    using namespace torchcaps;
    module.doc() = "Fused routing kernels; see torchcaps.kernels for the doors.";
    module.def("available", available, "Instruction sets that this processor can run, best first.");
    module.def("instruction_set", [] { return chosen().name; });
    module.def("use", [](const std::string &name) { chosen() = choose(name); }, "Choose one of available().");
    module.def("lanes", [](bool is_double) { return is_double ? kernels<double>().lanes : kernels<float>().lanes; });
#ifdef _OPENMP
    module.attr("parallel") = true;
#else
    module.attr("parallel") = false;
#endif
    py::class_<EmOptions>(module, "EmOptions")
        .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, double, double,
                      std::vector<double>, int>());
    py::class_<EmInputs>(module, "EmInputs")
        .def(py::init<Address, Address, Address, Address, Address, Address, Address>());
    py::class_<DynamicOptions>(module, "DynamicOptions")
        .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, bool, bool, int>());
    define<float>(module, "float32");
    define<double>(module, "float64");
}
