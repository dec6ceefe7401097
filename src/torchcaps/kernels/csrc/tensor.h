// Tensors as Python passes them: an address with the sizes and the type to check it by.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace torchcaps {

// A contiguous tensor that Python keeps alive, or none.
struct TensorView {
    uintptr_t address = 0;
    std::vector<int64_t> sizes;
    std::string dtype;  // "float32", "float64" or "int64"; empty for None

    bool present() const { return !dtype.empty(); }
    int64_t size(size_t dimension) const { return sizes.at(dimension); }
};

template <class T>
constexpr const char *DTYPE = nullptr;
template <>
constexpr const char *DTYPE<float> = "float32";
template <>
constexpr const char *DTYPE<double> = "float64";
template <>
constexpr const char *DTYPE<int64_t> = "int64";

inline std::string describe(const std::vector<int64_t> &sizes, const std::string &dtype) {
    std::string text = "[";
    for (size_t k = 0; k < sizes.size(); ++k) text += (k ? ", " : "") + std::to_string(sizes[k]);
    return text + "] of " + dtype;
}

inline std::string describe(const TensorView &tensor) {
    return tensor.present() ? describe(tensor.sizes, tensor.dtype) : "None";
}

inline void check_dimensions(const char *name, const TensorView &tensor, size_t dimensions) {
    if (!tensor.present() || tensor.sizes.size() != dimensions)
        throw std::invalid_argument(std::string(name) + " must have " + std::to_string(dimensions) +
                                    " dimensions, got " + describe(tensor));
}

// The address of a tensor of these sizes and this type, or an error with the name of the argument.
template <class T>
T *pointer(const char *name, const TensorView &tensor, const std::vector<int64_t> &sizes) {
    if (tensor.dtype != DTYPE<T> || tensor.sizes != sizes)
        throw std::invalid_argument(std::string(name) + " must be " + describe(sizes, DTYPE<T>) + ", got " +
                                    describe(tensor));
    if (tensor.address % 64) throw std::invalid_argument(std::string(name) + " must be aligned to 64 bytes");
    return reinterpret_cast<T *>(tensor.address);
}

// The same, or null for None.
template <class T>
T *optional_pointer(const char *name, const TensorView &tensor, const std::vector<int64_t> &sizes) {
    return tensor.present() ? pointer<T>(name, tensor, sizes) : nullptr;
}

}  // namespace torchcaps
