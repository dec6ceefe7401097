// What both drivers use: memory, threads, and sums over the batch in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "problem.h"

namespace torchcaps {

inline int64_t round_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Memory for whole vectors of any instruction set.
template <class T>
class Buffer {
  public:
    explicit Buffer(int64_t size, bool zeroed = false) {
        const size_t bytes = round_up(std::max<int64_t>(size, 1) * sizeof(T), 64);
        data_ = static_cast<T *>(std::aligned_alloc(64, bytes));
        if (!data_) throw std::bad_alloc();
        if (zeroed) std::fill_n(data_, size, T(0));
    }
    ~Buffer() { std::free(data_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    T *get() const { return data_; }

  private:
    T *data_;
};

// While it lives, results of this thread that are below the smallest normal number are 0. Processors take many times
// longer for them. Kernels are called by pointers, so the compiler cannot move their arithmetic across it.
class FlushToZero {
  public:
    FlushToZero() : before_(read()) { write(before_ | FLUSH); }
    ~FlushToZero() { write(before_); }
    FlushToZero(const FlushToZero &) = delete;
    FlushToZero &operator=(const FlushToZero &) = delete;

  private:
#if defined(__SSE__)
    using Control = unsigned int;
    static constexpr Control FLUSH = 1u << 15;
    static Control read() { return __builtin_ia32_stmxcsr(); }
    static void write(Control control) { __builtin_ia32_ldmxcsr(control); }
#elif defined(__aarch64__)
    using Control = uint64_t;
    static constexpr Control FLUSH = Control(1) << 24;
    static Control read() {
        Control control;
        __asm__ volatile("mrs %0, fpcr" : "=r"(control));
        return control;
    }
    static void write(Control control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
#else
    using Control = int;
    static constexpr Control FLUSH = 0;
    static Control read() { return 0; }
    static void write(Control) {}
#endif
    Control before_;
};

// Samples (or children) are handled in blocks that depend on sizes alone, never on the number of threads. Where blocks
// add to the same numbers, each has its own sum, and the sums are added in order. So the result has the same bits with
// any number of threads.
struct Blocks {
    int64_t count, size, total;

    Blocks(int64_t total, int64_t bytes_per_block) : total(total) {
        constexpr int64_t FEWEST = 4, MOST = 32, MEMORY = int64_t(128) << 20;
        const int64_t wanted = std::min(MOST, std::max(FEWEST, MEMORY / std::max<int64_t>(bytes_per_block, 1)));
        size = std::max<int64_t>(1, (total + wanted - 1) / wanted);
        count = (total + size - 1) / size;
    }
    static Blocks of_size(int64_t total, int64_t size) {
        Blocks blocks(total, 1);
        blocks.size = std::max<int64_t>(1, size), blocks.count = (total + blocks.size - 1) / blocks.size;
        return blocks;
    }
    Range range(int64_t block, int64_t from = 0) const { return {from + first(block), from + last(block)}; }
    int64_t first(int64_t block) const { return block * size; }
    int64_t last(int64_t block) const { return std::min(total, (block + 1) * size); }
};

// The inverse of the index, which lists the child at each place of each field (see Wiring).
struct OwnedWiring {
    std::vector<int64_t> start, field_start;
    std::vector<int32_t> position, row, field_vote, child;
    int64_t most_votes = 0;

    // index: [positions, places], `children` where there is no child; null for one position with child n at place n.
    OwnedWiring(const int64_t *index, int64_t children, int64_t positions, int64_t places, int64_t rows)
        : start(children + 1), field_start(positions + 1) {
        for (int64_t k = 0; k < positions * places; ++k) {
            const int64_t n = index ? index[k] : k;
            if (n < 0 || n > children)
                throw std::invalid_argument("index must be from 0 to " + std::to_string(children) +
                                            " (no child), got " + std::to_string(n));
            if (n < children) ++start[n + 1];
        }
        for (int64_t n = 0; n < children; ++n) {
            most_votes = std::max(most_votes, start[n + 1]);
            start[n + 1] += start[n];
        }
        const int64_t votes = start[children];
        position.resize(votes), row.resize(votes), field_vote.resize(votes), child.resize(votes);
        std::vector<int64_t> next(start.begin(), start.end() - 1);
        int64_t filled = 0;
        for (int64_t p = 0; p < positions; ++p) {
            for (int64_t i = 0; i < places; ++i) {
                const int64_t n = index ? index[p * places + i] : i;
                if (n == children) continue;
                const int64_t vote = next[n]++;
                position[vote] = static_cast<int32_t>(p);
                row[vote] = static_cast<int32_t>(i % rows);
                child[vote] = static_cast<int32_t>(n);
                field_vote[filled++] = static_cast<int32_t>(vote);
            }
            field_start[p + 1] = filled;
        }
    }

    Wiring view() const {
        return {static_cast<int64_t>(start.size()) - 1,
                static_cast<int64_t>(field_start.size()) - 1,
                static_cast<int64_t>(row.size()),
                most_votes,
                start.data(),
                position.data(),
                row.data(),
                field_start.data(),
                field_vote.data(),
                child.data()};
    }
};

// The wiring of a geometry, from a cache of the last few: a network uses the same ones in every step, forward and
// backward. The key is the whole index and not its address, as a layer makes a new tensor for each batch.
inline std::shared_ptr<const OwnedWiring> wiring_for(const int64_t *index, int64_t children, int64_t positions,
                                                     int64_t places, int64_t rows) {
    struct Entry {
        std::vector<int64_t> sizes, index;
        std::shared_ptr<const OwnedWiring> wiring;
    };
    constexpr size_t MOST_ENTRIES = 16;
    static std::mutex mutex;
    static std::vector<Entry> entries;  // the most recently used is first
    const std::vector<int64_t> sizes{index != nullptr, children, positions, places, rows};
    const int64_t length = index ? positions * places : 0;
    const std::lock_guard<std::mutex> guard(mutex);
    for (size_t k = 0; k < entries.size(); ++k)
        if (entries[k].sizes == sizes && std::equal(entries[k].index.begin(), entries[k].index.end(), index)) {
            std::rotate(entries.begin(), entries.begin() + k, entries.begin() + k + 1);
            return entries.front().wiring;
        }
    auto wiring = std::make_shared<const OwnedWiring>(index, children, positions, places, rows);
    if (entries.size() == MOST_ENTRIES) entries.pop_back();
    entries.insert(entries.begin(), {sizes, std::vector<int64_t>(index, index + length), wiring});
    return wiring;
}

// Runs work(k, scratch) for k = 0 .. count - 1, each thread with memory of its own. The work must not throw; all memory
// is allocated before the threads start.
template <class T, class Work>
void for_each(int64_t count, int threads, int64_t scratch, const Work &work) {
    threads = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, count)));
#ifndef _OPENMP
    threads = 1;
#endif
    const int64_t own = round_up(scratch, PADDING);
    Buffer<T> all(own * threads);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t k = 0; k < count; ++k) work(k, all.get() + own * omp_get_thread_num());
#else
    for (int64_t k = 0; k < count; ++k) work(k, all.get());
#endif
}

// Sums `count` arrays in order and leaves out the padding of their rows.
template <class T>
void add_rows(const T *arrays, int64_t length, int64_t count, int64_t padded, int64_t size, int threads, T *out) {
    constexpr int64_t TOGETHER = 64;
    const int64_t rows = length / padded;
    for_each<T>((rows + TOGETHER - 1) / TOGETHER, threads, 0, [&](int64_t part, T *) {
        for (int64_t row = part * TOGETHER; row < std::min(rows, (part + 1) * TOGETHER); ++row)
            for (int64_t d = 0; d < size; ++d) {
                T sum = 0;
                for (int64_t k = 0; k < count; ++k) sum += arrays[k * length + row * padded + d];
                out[row * size + d] = sum;
            }
    });
}

}  // namespace torchcaps
