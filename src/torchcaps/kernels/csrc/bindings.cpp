// The Python module torchcaps.kernels._native. Functions take tensors by keyword, check them, and write to those that
// are named as outputs. The interpreter is free while they run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "dynamic_driver.h"
#include "few_children.h"
#include "tensor.h"

namespace py = pybind11;

namespace pybind11::detail {

// From None or a tuple (address, sizes, name of the dtype).
template <>
struct type_caster<torchcaps::TensorView> {
    PYBIND11_TYPE_CASTER(torchcaps::TensorView, const_name("tuple[int, tuple[int, ...], str] | None"));

    bool load(handle source, bool) {
        if (source.is_none()) return true;
        if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != 3) return false;
        const handle sizes = PyTuple_GET_ITEM(source.ptr(), 1);
        if (!PyTuple_Check(sizes.ptr())) return false;
        value.address = PyLong_AsSize_t(PyTuple_GET_ITEM(source.ptr(), 0));
        value.sizes.resize(PyTuple_GET_SIZE(sizes.ptr()));
        for (size_t k = 0; k < value.sizes.size(); ++k)
            value.sizes[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes.ptr(), k));
        const char *dtype = PyUnicode_AsUTF8(PyTuple_GET_ITEM(source.ptr(), 2));
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
        value.dtype = dtype;
        return true;
    }
};

}  // namespace pybind11::detail

namespace torchcaps {

using View = const TensorView &;

// Calls work with a number of the type of the tensor.
template <class Work>
void for_type_of(const char *name, View tensor, const Work &work) {
    if (tensor.dtype == DTYPE<float>)
        work(float());
    else if (tensor.dtype == DTYPE<double>)
        work(double());
    else
        throw std::invalid_argument(std::string(name) + " must be float32 or float64, got " + describe(tensor));
}

void check_positive(const char *what, int64_t count) {
    if (count < 1) throw std::invalid_argument(std::string(what) + " must be at least 1, got " + std::to_string(count));
}

// Arguments that both passes of EM and Heinsen routing have in common.
struct MixtureArguments {
    View pose, activation, weight, index, offset;
    int64_t iterations;
    double epsilon;
    int threads;

    MixtureOptions options() const {
        check_dimensions("pose", pose, 3);
        check_dimensions("weight", weight, 4);
        if (index.present()) check_dimensions("index", index, 2);
        MixtureOptions options;
        options.batch = pose.size(0);
        options.children = pose.size(1);
        options.positions = index.present() ? index.size(0) : 1;
        options.places = index.present() ? index.size(1) : options.children;
        options.rows = weight.size(0);
        options.parents = weight.size(1);
        options.iterations = iterations;
        options.epsilon = epsilon;
        options.threads = threads;
        check_positive("rows of the weight", options.rows);
        check_positive("parents of the weight", options.parents);
        check_positive("number of iterations", options.iterations);
        if (options.places % options.rows)
            throw std::invalid_argument("weight must have a number of rows that divides " +
                                        std::to_string(options.places) + " places, got " +
                                        std::to_string(options.rows));
        return options;
    }

    template <class T>
    MixtureInputs<T> inputs(const MixtureOptions &options) const {
        const int64_t offsets = (options.children + options.rows - 1) / options.rows;
        return {pointer<T>("pose", pose, {options.batch, options.children, POSE}),
                pointer<T>("activation", activation, {options.batch, options.children}),
                pointer<T>("weight", weight, {options.rows, options.parents, SIDE, SIDE}),
                optional_pointer<int64_t>("index", index, {options.positions, options.places}),
                optional_pointer<T>("offset", offset, {offsets, POSE})};
    }
};

template <class T>
T *statistics_pointer(View tensor, const MixtureOptions &options, int64_t size) {
    return pointer<T>("statistics", tensor,
                      {options.batch, options.iterations, options.positions, round_up(options.parents, PADDING), size});
}

template <class T>
EmOutput<T> mixture_output(const MixtureOptions &options, View pose, View activation, View logit, View statistics,
                           int64_t size = EM_STATISTICS) {
    const int64_t batch = options.batch, positions = options.positions, parents = options.parents;
    EmOutput<T> output;
    output.pose = pointer<T>("out_pose", pose, {batch, positions, parents, POSE});
    output.activation = pointer<T>("out_activation", activation, {batch, positions, parents});
    output.logit = pointer<T>("out_logit", logit, {batch, positions, parents});
    output.statistics = statistics_pointer<T>(statistics, options, size);
    return output;
}

template <class T>
EmGradient<T> mixture_gradient(const MixtureOptions &options, View out_pose, View out_activation, View out_logit,
                               View statistics, View pose, View activation, int64_t size = EM_STATISTICS) {
    const int64_t batch = options.batch, positions = options.positions, parents = options.parents;
    EmGradient<T> gradient;
    gradient.pose = pointer<T>("grad_out_pose", out_pose, {batch, positions, parents, POSE});
    gradient.activation = pointer<T>("grad_out_activation", out_activation, {batch, positions, parents});
    gradient.logit = pointer<T>("grad_out_logit", out_logit, {batch, positions, parents});
    gradient.statistics = statistics_pointer<T>(statistics, options, size);
    gradient.child_pose = pointer<T>("grad_pose", pose, {batch, options.children, POSE});
    gradient.child_activation = pointer<T>("grad_activation", activation, {batch, options.children});
    return gradient;
}

// Arguments that the forward and the backward pass have in common.
struct EmArguments {
    MixtureArguments common;
    View beta_u, beta_a;
    const std::vector<double> &temperatures;
    double mass_scale;

    EmOptions options() const {
        if (beta_u.present() != beta_a.present())
            throw std::invalid_argument("beta_u and beta_a must both be tensors or both be None");
        return {common.options(), !beta_u.present(), mass_scale, temperatures};
    }

    template <class T>
    EmBatch<T> batch(const EmOptions &options) const {
        return EmBatch<T>(kernels<T>(), options, common.inputs<T>(options),
                          optional_pointer<T>("beta_u", beta_u, {options.parents}),
                          optional_pointer<T>("beta_a", beta_a, {options.parents}));
    }
};

void run_em_forward(View pose, View activation, View weight, View beta_u, View beta_a, View index, View offset,
                    View out_pose, View out_activation, View out_logit, View statistics,
                    const std::vector<double> &temperatures, double mass_scale, double epsilon, int threads) {
    const int64_t iterations = static_cast<int64_t>(temperatures.size());
    const EmArguments arguments{{pose, activation, weight, index, offset, iterations, epsilon, threads},
                                beta_u,
                                beta_a,
                                temperatures,
                                mass_scale};
    const EmOptions options = arguments.options();
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        route_forward<EmRoute, T>(options, arguments.batch<T>(options),
                                  mixture_output<T>(options, out_pose, out_activation, out_logit, statistics));
    });
}

void run_em_backward(View pose, View activation, View weight, View beta_u, View beta_a, View index, View offset,
                     View statistics, View grad_out_pose, View grad_out_activation, View grad_out_logit, View grad_pose,
                     View grad_activation, View grad_weight, View grad_beta_u, View grad_beta_a,
                     const std::vector<double> &temperatures, double mass_scale, double epsilon, int threads) {
    const int64_t iterations = static_cast<int64_t>(temperatures.size());
    const EmArguments arguments{{pose, activation, weight, index, offset, iterations, epsilon, threads},
                                beta_u,
                                beta_a,
                                temperatures,
                                mass_scale};
    const EmOptions options = arguments.options();
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        route_backward<EmRoute, T>(options, arguments.batch<T>(options),
                                   mixture_gradient<T>(options, grad_out_pose, grad_out_activation, grad_out_logit,
                                                       statistics, grad_pose, grad_activation),
                                   pointer<T>("grad_weight", grad_weight, {options.rows, options.parents, SIDE, SIDE}),
                                   {pointer<T>("grad_beta_u", grad_beta_u, {options.parents}),
                                    pointer<T>("grad_beta_a", grad_beta_a, {options.parents}), nullptr});
    });
}

// EM routing with a covariance of rows. Tensors are float64; `single` says that they were float32 before, whose limits
// count.
struct RowsArguments {
    EmArguments em;
    bool single;

    EmOptions options() const {
        EmOptions options = em.options();
        options.rows_covariance = true;
        return options;
    }

    void limit(EmBatch<double> &batch) const {
        if (single) batch.problem.limits = {Limits<float>().least_mass, Limits<float>().step};
    }
};

void run_em_rows_forward(View pose, View activation, View weight, View beta_u, View beta_a, View index, View offset,
                         View out_pose, View out_activation, View out_logit, View statistics,
                         const std::vector<double> &temperatures, double mass_scale, double epsilon, bool single,
                         int threads) {
    const int64_t iterations = static_cast<int64_t>(temperatures.size());
    const RowsArguments arguments{{{pose, activation, weight, index, offset, iterations, epsilon, threads},
                                   beta_u,
                                   beta_a,
                                   temperatures,
                                   mass_scale},
                                  single};
    const EmOptions options = arguments.options();
    EmBatch<double> batch = arguments.em.batch<double>(options);
    arguments.limit(batch);
    em_forward<double>(
        kernels<double>(), options, batch,
        mixture_output<double>(options, out_pose, out_activation, out_logit, statistics, ROWS_STATISTICS));
}

void run_em_rows_backward(View pose, View activation, View weight, View beta_u, View beta_a, View index, View offset,
                          View statistics, View grad_out_pose, View grad_out_activation, View grad_out_logit,
                          View grad_pose, View grad_activation, View grad_weight, View grad_beta_u, View grad_beta_a,
                          const std::vector<double> &temperatures, double mass_scale, double epsilon, bool single,
                          int threads) {
    const int64_t iterations = static_cast<int64_t>(temperatures.size());
    const RowsArguments arguments{{{pose, activation, weight, index, offset, iterations, epsilon, threads},
                                   beta_u,
                                   beta_a,
                                   temperatures,
                                   mass_scale},
                                  single};
    const EmOptions options = arguments.options();
    EmBatch<double> batch = arguments.em.batch<double>(options);
    arguments.limit(batch);
    em_backward<double>(kernels<double>(), options, batch,
                        mixture_gradient<double>(options, grad_out_pose, grad_out_activation, grad_out_logit,
                                                 statistics, grad_pose, grad_activation, ROWS_STATISTICS),
                        pointer<double>("grad_weight", grad_weight, {options.rows, options.parents, SIDE, SIDE}),
                        pointer<double>("grad_beta_u", grad_beta_u, {options.parents}),
                        pointer<double>("grad_beta_a", grad_beta_a, {options.parents}));
}

template <class T>
HeinsenBatch<T> heinsen_batch(const MixtureArguments &arguments, const MixtureOptions &options, View beta_use,
                              View beta_ignore, View bias) {
    return HeinsenBatch<T>(kernels<T>(), options, arguments.inputs<T>(options),
                           pointer<T>("beta_use", beta_use, {options.rows, options.parents}),
                           pointer<T>("beta_ignore", beta_ignore, {options.rows, options.parents}),
                           optional_pointer<T>("bias", bias, {options.rows, options.parents, POSE}));
}

void run_heinsen_forward(View pose, View activation, View weight, View beta_use, View beta_ignore, View bias,
                         View index, View offset, View out_pose, View out_activation, View out_logit, View statistics,
                         int64_t iterations, double epsilon, int threads) {
    const MixtureArguments arguments{pose, activation, weight, index, offset, iterations, epsilon, threads};
    const MixtureOptions options = arguments.options();
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        route_forward<HeinsenRoute, T>(options, heinsen_batch<T>(arguments, options, beta_use, beta_ignore, bias),
                                       mixture_output<T>(options, out_pose, out_activation, out_logit, statistics));
    });
}

void run_heinsen_backward(View pose, View activation, View weight, View beta_use, View beta_ignore, View bias,
                          View index, View offset, View statistics, View grad_out_pose, View grad_out_activation,
                          View grad_out_logit, View grad_pose, View grad_activation, View grad_weight,
                          View grad_beta_use, View grad_beta_ignore, View grad_bias, int64_t iterations, double epsilon,
                          int threads) {
    const MixtureArguments arguments{pose, activation, weight, index, offset, iterations, epsilon, threads};
    const MixtureOptions options = arguments.options();
    const int64_t rows = options.rows, parents = options.parents;
    if (bias.present() != grad_bias.present())
        throw std::invalid_argument("bias and grad_bias must both be tensors or both be None");
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        route_backward<HeinsenRoute, T>(options, heinsen_batch<T>(arguments, options, beta_use, beta_ignore, bias),
                                        mixture_gradient<T>(options, grad_out_pose, grad_out_activation, grad_out_logit,
                                                            statistics, grad_pose, grad_activation),
                                        pointer<T>("grad_weight", grad_weight, {rows, parents, SIDE, SIDE}),
                                        {pointer<T>("grad_beta_use", grad_beta_use, {rows, parents}),
                                         pointer<T>("grad_beta_ignore", grad_beta_ignore, {rows, parents}),
                                         optional_pointer<T>("grad_bias", grad_bias, {rows, parents, POSE})});
    });
}

// Arguments that the forward and the backward pass have in common.
struct DynamicArguments {
    View pose, weight, bias;
    int64_t iterations;
    bool shared, accumulate, leaky, through_all;
    int threads;

    DynamicOptions options() const {
        check_dimensions("pose", pose, 3);
        check_dimensions("weight", weight, 4);
        DynamicOptions options;
        options.batch = pose.size(0);
        options.children = pose.size(1);
        options.parents = weight.size(1);
        options.size_in = pose.size(2);
        options.size_out = weight.size(3);
        options.iterations = iterations;
        options.shared = shared;
        options.accumulate = accumulate;
        options.leaky = leaky;
        options.through_all = through_all;
        options.threads = threads;
        check_positive("parents of the weight", options.parents);
        check_positive("numbers in a vote", options.size_out);
        check_positive("iterations", iterations);
        return options;
    }

    template <class T>
    DynamicBatch<T> batch(const DynamicOptions &options) const {
        return DynamicBatch<T>(kernels<T>(), options,
                               pointer<T>("pose", pose, {options.batch, options.children, options.size_in}),
                               pointer<T>("weight", weight, weight_sizes(options)),
                               optional_pointer<T>("bias", bias, {options.parents, options.size_out}));
    }

    static std::vector<int64_t> weight_sizes(const DynamicOptions &options) {
        return {options.shared ? 1 : options.children, options.parents, options.size_in, options.size_out};
    }

    // The last dimension has room for a pose of whole vectors of any instruction set.
    template <class T>
    T *totals(View tensor, const DynamicOptions &options) const {
        return pointer<T>("totals", tensor,
                          {options.batch, iterations, options.parents, round_up(options.size_out, PADDING)});
    }
};

void run_dynamic_forward(View pose, View weight, View bias, View out_pose, View totals, int64_t iterations, bool shared,
                         bool accumulate, bool leaky, bool through_all, int threads) {
    const DynamicArguments arguments{pose, weight, bias, iterations, shared, accumulate, leaky, through_all, threads};
    const DynamicOptions options = arguments.options();
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        dynamic_forward<T>(kernels<T>(), options, arguments.batch<T>(options),
                           pointer<T>("out_pose", out_pose, {options.batch, options.parents, options.size_out}),
                           arguments.totals<T>(totals, options));
    });
}

void run_dynamic_backward(View pose, View weight, View bias, View totals, View grad_out_pose, View grad_pose,
                          View grad_weight, View grad_bias, int64_t iterations, bool shared, bool accumulate,
                          bool leaky, bool through_all, int threads) {
    const DynamicArguments arguments{pose, weight, bias, iterations, shared, accumulate, leaky, through_all, threads};
    const DynamicOptions options = arguments.options();
    const int64_t batch = options.batch, parents = options.parents, size_out = options.size_out;
    for_type_of("pose", pose, [&](auto zero) {
        using T = decltype(zero);
        dynamic_backward<T>(kernels<T>(), options, arguments.batch<T>(options),
                            pointer<T>("grad_out_pose", grad_out_pose, {batch, parents, size_out}),
                            arguments.totals<T>(totals, options),
                            pointer<T>("grad_pose", grad_pose, {batch, options.children, options.size_in}),
                            pointer<T>("grad_weight", grad_weight, arguments.weight_sizes(options)),
                            pointer<T>("grad_bias", grad_bias, {parents, size_out}));
    });
}

}  // namespace torchcaps

PYBIND11_MODULE(_native, module) {
    using namespace torchcaps;
    using py::arg;
    const auto keywords_only = py::kw_only();
    const auto release_gil = py::call_guard<py::gil_scoped_release>();

    module.doc() = "Fused routing kernels, called by torchcaps.kernels.";
    module.attr("SIDE") = SIDE;
    module.attr("PADDING") = PADDING;
    module.attr("EM_STATISTICS") = EM_STATISTICS;
    module.attr("ROWS_STATISTICS") = ROWS_STATISTICS;
#ifdef _OPENMP
    module.attr("parallel") = true;
#else
    module.attr("parallel") = false;
#endif
    module.def("available", available_sets, "Instruction sets that this processor can run, fastest first.");
    module.def("instruction_set", [] { return current_set().name; }, "The instruction set in use.");
    module.def(
        "use", [](const std::string &name) { current_set() = find_set(name); }, arg("name"), "Use one of available().");

    module.def("em_forward", run_em_forward, release_gil, keywords_only, arg("pose"), arg("activation"), arg("weight"),
               arg("beta_u"), arg("beta_a"), arg("index"), arg("offset"), arg("out_pose"), arg("out_activation"),
               arg("out_logit"), arg("statistics"), arg("temperatures"), arg("mass_scale"), arg("epsilon"),
               arg("threads"));
    module.def("em_backward", run_em_backward, release_gil, keywords_only, arg("pose"), arg("activation"),
               arg("weight"), arg("beta_u"), arg("beta_a"), arg("index"), arg("offset"), arg("statistics"),
               arg("grad_out_pose"), arg("grad_out_activation"), arg("grad_out_logit"), arg("grad_pose"),
               arg("grad_activation"), arg("grad_weight"), arg("grad_beta_u"), arg("grad_beta_a"), arg("temperatures"),
               arg("mass_scale"), arg("epsilon"), arg("threads"));
    module.def("em_rows_forward", run_em_rows_forward, release_gil, keywords_only, arg("pose"), arg("activation"),
               arg("weight"), arg("beta_u"), arg("beta_a"), arg("index"), arg("offset"), arg("out_pose"),
               arg("out_activation"), arg("out_logit"), arg("statistics"), arg("temperatures"), arg("mass_scale"),
               arg("epsilon"), arg("single"), arg("threads"));
    module.def("em_rows_backward", run_em_rows_backward, release_gil, keywords_only, arg("pose"), arg("activation"),
               arg("weight"), arg("beta_u"), arg("beta_a"), arg("index"), arg("offset"), arg("statistics"),
               arg("grad_out_pose"), arg("grad_out_activation"), arg("grad_out_logit"), arg("grad_pose"),
               arg("grad_activation"), arg("grad_weight"), arg("grad_beta_u"), arg("grad_beta_a"), arg("temperatures"),
               arg("mass_scale"), arg("epsilon"), arg("single"), arg("threads"));
    module.def("heinsen_forward", run_heinsen_forward, release_gil, keywords_only, arg("pose"), arg("activation"),
               arg("weight"), arg("beta_use"), arg("beta_ignore"), arg("bias"), arg("index"), arg("offset"),
               arg("out_pose"), arg("out_activation"), arg("out_logit"), arg("statistics"), arg("iterations"),
               arg("epsilon"), arg("threads"));
    module.def("heinsen_backward", run_heinsen_backward, release_gil, keywords_only, arg("pose"), arg("activation"),
               arg("weight"), arg("beta_use"), arg("beta_ignore"), arg("bias"), arg("index"), arg("offset"),
               arg("statistics"), arg("grad_out_pose"), arg("grad_out_activation"), arg("grad_out_logit"),
               arg("grad_pose"), arg("grad_activation"), arg("grad_weight"), arg("grad_beta_use"),
               arg("grad_beta_ignore"), arg("grad_bias"), arg("iterations"), arg("epsilon"), arg("threads"));
    module.def("dynamic_forward", run_dynamic_forward, release_gil, keywords_only, arg("pose"), arg("weight"),
               arg("bias"), arg("out_pose"), arg("totals"), arg("iterations"), arg("shared"), arg("accumulate"),
               arg("leaky"), arg("through_all"), arg("threads"));
    module.def("dynamic_backward", run_dynamic_backward, release_gil, keywords_only, arg("pose"), arg("weight"),
               arg("bias"), arg("totals"), arg("grad_out_pose"), arg("grad_pose"), arg("grad_weight"), arg("grad_bias"),
               arg("iterations"), arg("shared"), arg("accumulate"), arg("leaky"), arg("through_all"), arg("threads"));
}
