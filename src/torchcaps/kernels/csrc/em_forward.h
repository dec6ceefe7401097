// EM routing of one sample, forward. docs/kernels.md has the derivation and the order of the loops.
#pragma once

#include "em_common.h"

namespace torchcaps::INSTRUCTION_SET {

// One position and one vector of parent types: the Gaussian of the iteration before, by which votes are assigned,
// and sums over the votes around its mean, from which the next Gaussian is fitted.
template <class T, class Rule, class Spread>
struct ForwardParent : Rule::Sums {
    Vec<T> mass;                    // sum of r
    Vec<T> first[POSE];             // sum of r (vote - mean)
    Vec<T> second[Spread::SECOND];  // sum of r (vote - mean)^2, or of products of rows
    typename Spread::Gaussian gaussian;

    INLINE void clear() {
        Rule::Sums::clear();
        mass = Vec<T>{};
        for (int d = 0; d < POSE; ++d) first[d] = Vec<T>{};
        for (int d = 0; d < Spread::SECOND; ++d) second[d] = Vec<T>{};
    }

    INLINE void add(Vec<T> r, const Vec<T> *centered) {
        mass += r;
        Spread::accumulate(r, centered, first, second);
    }
};

template <class T, class Rule, class Spread>
struct EmForward : EmSample<T, Rule, Spread> {
    using Sample = EmSample<T, Rule, Spread>;
    using Parent = ForwardParent<T, Rule, Spread>;
    using Sample::LANES, Sample::problem, Sample::wiring, Sample::activation, Sample::groups, Sample::rule;
    using typename Sample::Statistics;
    using typename Sample::V;

    Parent *parents;  // [positions, groups]
    V *assigned;      // [votes, groups] r = R a
    V *centered;      // [votes of a child, groups, POSE] vote - mean

    EmForward(const typename Rule::Problem &problem, int64_t sample, Scratch &scratch)
        : Sample(problem, sample, scratch),
          parents(scratch.take<Parent>(wiring.positions * groups)),
          assigned(scratch.take<V>(wiring.votes * groups)),
          centered(scratch.take<V>(wiring.most_votes * groups * POSE)) {}

    void run(const EmOutput<T> &output, int64_t sample) {
        rule.start(activation);
        const int64_t count = wiring.positions * groups;
        Statistics *fitted = reinterpret_cast<Statistics *>(output.statistics);
        fitted += sample * problem.iterations * count;
        for (int64_t t = 0; t < problem.iterations; ++t, fitted += count) {
            for (int64_t k = 0; k < count; ++k) parents[k].clear();
            if (t == 0) {
                set_first_centers();
                add_uniformly();
            } else {
                add_by_density();
            }
            for (int64_t p = 0; p < wiring.positions; ++p)
                for (int64_t group = 0; group < groups; ++group) fit(t, p, group, fitted[p * groups + group]);
        }
        write(output, sample, fitted - count);
    }

    // The first sums are taken around the vote of an active child, so that the variance is not lost in the square
    // of the mean; the vote of a dead child might be of quite another scale.
    void set_first_centers() {
        for (int64_t p = 0; p < wiring.positions; ++p) {
            const bool empty = wiring.field_start[p] == wiring.field_start[p + 1];
            const int64_t vote = empty ? 0 : most_active(p);
            for (int64_t group = 0; group < groups; ++group) {
                auto &gaussian = parents[p * groups + group].gaussian;
                gaussian.clear_mean();
                if (!empty) this->cast(wiring.child[vote], vote, group, gaussian.mean);
            }
        }
    }

    // The first vote of a child with an activation of at least 0.5, or else the one of the most active child.
    int64_t most_active(int64_t p) const {
        int64_t best = wiring.field_vote[wiring.field_start[p]];
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k) {
            if (activation[wiring.child[best]] >= T(0.5)) return best;
            const int64_t vote = wiring.field_vote[k];
            if (activation[wiring.child[vote]] > activation[wiring.child[best]]) best = vote;
        }
        return best;
    }

    void add_uniformly() {
        for (int64_t n = 0; n < wiring.children; ++n) {
            const V r = broadcast<T>(activation[n] * this->uniform_assignment(n));
            for (int64_t vote = wiring.start[n]; vote < wiring.start[n + 1]; ++vote)
                for (int64_t group = 0; group < groups; ++group) {
                    Parent &parent = parents[this->parent_of(vote, group)];
                    V votes[POSE];
                    this->cast(n, vote, group, votes);
                    parent.gaussian.center(votes);
                    assigned[vote * groups + group] = r;
                    parent.add(r, votes);
                    rule.add_vote(this->row_at(vote, group), r, activation[n], parent);
                }
        }
    }

    // E-step and the sums of the M-step in one: the votes of a child are cast once and stay in the first-level cache
    // while the child is assigned to all its parents, and are then added to the sums of these.
    void add_by_density() {
        for (int64_t n = 0; n < wiring.children; ++n) {
            const int64_t first = wiring.start[n], last = wiring.start[n + 1];
            if (first == last) continue;
            V *weights = assigned + first * groups;
            const auto assignment = this->template assign<true>(n, parents, weights, centered);
            const T share = activation[n] / assignment.total;
            for (int64_t vote = first; vote < last; ++vote)
                for (int64_t group = 0; group < groups; ++group) {
                    const int64_t k = (vote - first) * groups + group;
                    const V r = weights[k] *= share;
                    Parent &parent = parents[this->parent_of(vote, group)];
                    parent.add(r, centered + k * POSE);
                    rule.add_vote(this->row_at(vote, group), r, activation[n], parent);
                }
        }
    }

    // M-step of one vector of parent types.
    void fit(int64_t t, int64_t p, int64_t group, Statistics &fitted) {
        Parent &parent = parents[p * groups + group];
        const V one = broadcast<T>(1);
        const auto alive = parent.mass > problem.limits.least_mass;
        const V inverse = one / (alive ? parent.mass : one);
        fitted.mass = parent.mass;
        // Where the mean moved by several sigma, the variance is a small difference of large numbers. The vote that
        // the first sums are taken around is several sigma off more often. Fields of few votes are cheap to fit again.
        const bool few = wiring.field_start[p + 1] - wiring.field_start[p] < 64;
        const bool accurate = Spread::fit(problem, t == 0 ? T(16) : T(4), alive, inverse, parent.gaussian, parent.first,
                                          parent.second, fitted);
        if (few || !accurate) fit_again(p, group, fitted);
        Spread::add_least_variance(problem, fitted);
        const V volume = parent.gaussian.set(problem, fitted);
        fitted.logit = rule.logit(t, p, group, volume, fitted.mass, parent);
        this->activate(parent.gaussian, fitted, volume, group);
    }

    // The same sums around the new mean, the votes cast again. A mean that moved by 10^k sigma is wrong by
    // 10^(k - 7) sigma in float32, and each pass improves it as much: one pass is enough, except among votes of
    // very different scales.
    INLINE void fit_again(int64_t p, int64_t group, Statistics &fitted) const {
        constexpr int MOST_PASSES = 5;
        const V one = broadcast<T>(1);
        const auto alive = fitted.mass > problem.limits.least_mass;
        const V inverse = one / (alive ? fitted.mass : one);
        bool again = true;
        for (int pass = 0; pass < MOST_PASSES && again; ++pass) {
            V first[POSE] = {}, second[Spread::SECOND] = {};
            sum_around(p, group, fitted.mean, first, second);
            again = Spread::refine(alive, inverse, first, second, fitted);
        }
    }

    void sum_around(int64_t p, int64_t group, const V *mean, V *first, V *second) const {
        for (int64_t k = wiring.field_start[p]; k < wiring.field_start[p + 1]; ++k) {
            const int64_t vote = wiring.field_vote[k];
            const V r = assigned[vote * groups + group];
            V votes[POSE];
            this->cast(wiring.child[vote], vote, group, votes);
            for (int d = 0; d < POSE; ++d) votes[d] -= mean[d];
            Spread::accumulate(r, votes, first, second);
        }
    }

    void write(const EmOutput<T> &output, int64_t sample, const Statistics *fitted) const {
        for (int64_t p = 0; p < wiring.positions; ++p)
            for (int64_t group = 0; group < groups; ++group, ++fitted) {
                const V activation = rule.activation(p, *fitted);
                for (int lane = 0; lane < LANES && group * LANES + lane < problem.parents; ++lane) {
                    const int64_t to = (sample * wiring.positions + p) * problem.parents + group * LANES + lane;
                    output.activation[to] = activation[lane];
                    output.logit[to] = fitted->logit[lane];
                    for (int d = 0; d < POSE; ++d) output.pose[to * POSE + d] = fitted->mean[d][lane];
                }
            }
    }
};

}  // namespace torchcaps::INSTRUCTION_SET
