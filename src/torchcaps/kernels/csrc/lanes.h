// Vectors of numbers (lanes), and the arithmetic that all kernels are written in.
//
// Each lanes_*.cpp defines INSTRUCTION_SET (a namespace) and LANE_BYTES (the size of a vector) and includes the kernels,
// so that the same source is compiled once per instruction set. It must not use the standard library: the linker keeps
// one copy of a std:: template for all files, which could be the one compiled for AVX-512.
//
// Vector types and __builtin functions are extensions of GCC and Clang; with other compilers there are no kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#define INLINE inline __attribute__((always_inline))
#define INLINED __attribute__((always_inline))

namespace torchcaps::INSTRUCTION_SET {

// may_alias: memory that was written as numbers is read as vectors.
template <class T>
struct Lanes {
    typedef T Type __attribute__((vector_size(LANE_BYTES), may_alias));
    static constexpr int count = LANE_BYTES / sizeof(T);
};

template <class T>
using Vec = typename Lanes<T>::Type;

template <class T>
INLINE Vec<T> broadcast(T value) {
    return value - Vec<T>{};
}

template <class T>
INLINE T hsum(Vec<T> values) {
#if defined(__clang__)
    T sum = 0;
    for (int i = 0; i < Lanes<T>::count; ++i) sum += values[i];
    return sum;
#else
    decltype(values < values) order = {};
    for (int half = Lanes<T>::count / 2; half > 0; half /= 2) {
        for (int i = 0; i < Lanes<T>::count; ++i) order[i] = i ^ half;
        values += __builtin_shuffle(values, order);
    }
    return values[0];
#endif
}

// The sums of COUNT vectors, a power of 2. Adding halves of two vectors into one, repeatedly, takes a third of the
// instructions of COUNT separate sums.
template <class T, int COUNT>
INLINE void hsum_each(Vec<T> *values, T *sums) {
#if !defined(__clang__)
    constexpr int LANES = Lanes<T>::count;
    if constexpr (COUNT > 1 && COUNT <= LANES) {
        decltype(*values < *values) own = {}, other = {};
        int half = LANES / 2;
        for (int count = COUNT; count > 1; count /= 2, half /= 2) {
            for (int lane = 0; lane < LANES; ++lane) {
                own[lane] = lane & half ? LANES + lane : lane;
                other[lane] = own[lane] ^ half;
            }
            for (int i = 0; i < count / 2; ++i) {
                const Vec<T> a = values[i], b = values[i + count / 2];
                values[i] = __builtin_shuffle(a, b, own) + __builtin_shuffle(a, b, other);
            }
        }
        for (; half > 0; half /= 2) {
            for (int lane = 0; lane < LANES; ++lane) own[lane] = lane ^ half;
            values[0] += __builtin_shuffle(values[0], own);
        }
        for (int i = 0; i < COUNT; ++i) sums[i] = values[0][i * (LANES / COUNT)];
        return;
    }
#endif
    for (int i = 0; i < COUNT; ++i) sums[i] = hsum<T>(values[i]);
}

template <class T>
INLINE T hmax(Vec<T> values) {
    T peak = values[0];
    for (int i = 1; i < Lanes<T>::count; ++i) peak = values[i] > peak ? values[i] : peak;
    return peak;
}

template <class V>
INLINE V max(V a, V b) {
    return a > b ? a : b;
}

INLINE float sqrt(float value) { return __builtin_sqrtf(value); }
INLINE double sqrt(double value) { return __builtin_sqrt(value); }

template <class T>
INLINE Vec<T> sqrt_lanes(Vec<T> values) {
    for (int i = 0; i < Lanes<T>::count; ++i) values[i] = sqrt(values[i]);
    return values;
}

// e^x to 1e-7 (the polynomial of the Cephes library); 0 below the smallest normal number, -inf included.
INLINE Vec<float> exp(Vec<float> x) {
    typedef int32_t Ints __attribute__((vector_size(LANE_BYTES)));
    const Vec<float> none = {};
    const Vec<float> bounded = x > 88.0f ? none + 88.0f : (x < -87.3f ? none - 87.3f : x);
    // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
    const Vec<float> shifted = bounded * 1.44269504088896341f + 12582912.0f;
    const Vec<float> whole = shifted - 12582912.0f;
    Vec<float> r = bounded - whole * 0.693359375f;
    r = r - whole * -2.12194440e-4f;
    Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const Ints scaled = (Ints)p + (((Ints)shifted) << 23);
    // NaN stays NaN.
    return x < -87.3f ? none : (x == x ? (Vec<float>)scaled : x);
}

// ln x for normal x > 0, to 1e-7 (Cephes again).
INLINE Vec<float> log(Vec<float> x) {
    typedef int32_t Ints __attribute__((vector_size(LANE_BYTES)));
    const Ints bits = (Ints)x;
    Vec<float> exponent = __builtin_convertvector((bits >> 23) - 126, Vec<float>);
    Vec<float> m = (Vec<float>)((bits & 0x007fffff) | 0x3f000000);
    const auto low = m < 0.707106781186547524f;
    exponent = low ? exponent - 1.0f : exponent;
    m = low ? m + m - 1.0f : m - 1.0f;
    const Vec<float> square = m * m;
    Vec<float> p = m * 7.0376836292e-2f + -1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m + -1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m + -1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m + -2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * square;
    p = p + exponent * -2.12194440e-4f;
    p = p - square * 0.5f;
    return m + p + exponent * 0.693359375f;
}

// Double precision is for checks, so it uses the exact functions.
INLINE Vec<double> exp(Vec<double> x) {
    for (int i = 0; i < Lanes<double>::count; ++i) x[i] = __builtin_exp(x[i]);
    return x;
}

INLINE Vec<double> log(Vec<double> x) {
    for (int i = 0; i < Lanes<double>::count; ++i) x[i] = __builtin_log(x[i]);
    return x;
}

// Takes arrays from the memory of one thread, aligned to 64 bytes. From address 0, it counts how much memory they need.
struct Scratch {
    uintptr_t next;

    template <class Item>
    Item *take(int64_t count) {
        Item *items = reinterpret_cast<Item *>(next);
        next += (count * sizeof(Item) + 63) / 64 * 64;
        return items;
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
