"""Kernels of dynamic routing: each computes the votes again, and none stores them.

The guide y of a parent is what its logits are dot products with: b = ⟨V, y⟩. G is the gradient of the loss by
what follows. One number of `SIZE` in a tile is one number of a pose, padded to a power of 2.
docs/triton.md has the formulas.
"""

from torchcaps._extras import require
from torchcaps.kernels.triton.tiles import LOWEST, cast_vectors, child_at, load, sum_pose

triton = require("triton", extra="triton", purpose="fused routing on a GPU")
tl = require("triton.language", extra="triton", purpose="fused routing on a GPU")


@triton.jit
def dynamic_couple(
    pose, weight, start, vote, guide, choice,
    batch, children, positions, places, parents, rows, choice_stride, size_in, size_out, guide_stride,
    LEAKY: tl.constexpr, HAS_INDEX: tl.constexpr,
    SAMPLES: tl.constexpr, CHILDREN: tl.constexpr, PARENTS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """The largest logit of each child, and 1 / Σ exp(logit - largest) over all its parents.

    With `LEAKY` there is one more logit, 0, for none of the parents.
    """
    n = tl.program_id(0) * CHILDREN + tl.arange(0, CHILDREN)
    b = (tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)).to(tl.int64)
    d = tl.arange(0, SIZE)
    in_layer, in_batch = n < children, b < batch
    if HAS_INDEX:
        first = tl.load(start + n, mask=in_layer, other=0)
        count = tl.load(start + n + 1, mask=in_layer, other=0) - first
    else:
        first = n
        count = in_layer.to(tl.int32)
    child_mask = in_layer[:, None] & in_batch[None, :]
    from_pose = pose + (b[None, :] * children + n[:, None])[:, :, None, None] * size_in
    peak = tl.full([CHILDREN, SAMPLES], 0.0 if LEAKY else LOWEST, tl.float32)
    total = tl.full([CHILDREN, SAMPLES], 1.0 if LEAKY else 0.0, tl.float32)
    for k in range(0, tl.max(count, axis=0)):
        present = k < count
        position = n * 0
        place = n
        if HAS_INDEX:
            found = tl.load(vote + first + k, mask=present, other=0)
            position = found // places
            place = found % places
        for j_first in range(0, parents, PARENTS):
            j = j_first + tl.arange(0, PARENTS)
            mask = (present[:, None] & child_mask)[:, :, None] & (j < parents)
            in_pose = (j < parents)[:, None] & (d < size_out)
            from_weight = ((place % rows)[:, None] * parents + j)[:, None, :, None] * size_in * size_out + d
            weight_mask = in_layer[:, None, None, None] & in_pose
            votes = cast_vectors(
                from_pose, child_mask[:, :, None, None], weight + from_weight, weight_mask, size_in, size_out
            )
            parent = (position[:, None] * parents + j)[:, None, :, None]
            own = guide + b[None, :, None, None] * guide_stride + parent * size_out + d
            logit = sum_pose(votes * load(own, mask[:, :, :, None] & in_pose))
            logit = tl.where(mask, logit, float("-inf"))
            before = peak
            peak = tl.maximum(peak, tl.max(logit, axis=2))
            total = total * tl.exp(before - peak) + tl.sum(tl.exp(logit - peak[:, :, None]), axis=2)
    to = choice + b[None, :] * choice_stride + n[:, None] * 2
    some = (count > 0)[:, None]
    tl.store(to, tl.where(some, peak, 0.0), mask=child_mask)
    tl.store(to + 1, tl.where(some, 1.0, 0.0) / tl.where(some, total, 1.0), mask=child_mask)


@triton.jit
def dynamic_total(
    pose, weight, index, choice, guide, sums,
    lanes, children, positions, places, parents, rows, share, choice_stride, size_in, size_out, guide_stride,
    FIRST: tl.constexpr, HAS_INDEX: tl.constexpr,
    LANES: tl.constexpr, PARENTS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """s = Σ c V of each parent, for one split of its field."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    d = tl.arange(0, SIZE)
    inside = lane < lanes
    b = (lane // positions).to(tl.int64)
    p = lane % positions
    in_pose = (j < parents)[:, None] & (d < size_out)
    vector = inside[:, None, None] & in_pose
    own = b[:, None] * guide_stride + (p[:, None] * parents + j) * size_out
    if not FIRST:
        toward = load(guide + own[:, :, None] + d, vector)
    total = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    for i in range(split * share, tl.minimum(split * share + share, places)):
        child, present = child_at(index, p * places + i, i, children, inside, HAS_INDEX)
        at = b * children + child
        from_weight = weight + ((i % rows) * parents + j)[None, :, None] * size_in * size_out + d
        votes = cast_vectors(
            pose + at[:, None, None] * size_in, present[:, None, None], from_weight, in_pose[None, :, :],
            size_in, size_out,
        )  # fmt: skip
        chosen = choice + b * choice_stride + child * 2
        coupling = load(chosen + 1, present)[:, None]
        if not FIRST:
            coupling = coupling * tl.exp(sum_pose(votes * toward) - load(chosen, present)[:, None])
            coupling = tl.where(present[:, None], coupling, 0.0)
        total = tl.fma(coupling[:, :, None], votes, total)
    parent = lane.to(tl.int64)[:, None] * parents + j
    to = sums + (split.to(tl.int64) * lanes * parents + parent)[:, :, None] * size_out + d
    tl.store(to, total, mask=vector)


@triton.jit
def dynamic_squash(
    sums, bias, totals, guides, next_guides, out_pose, count, per_sample, parents, splits, size_out, stride,
    FIRST: tl.constexpr, LAST: tl.constexpr, ACCUMULATE: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Pose = s |s| / (1 + |s|²), and the guide of the next iteration: the sum of all poses, or the last."""
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, SIZE)
    vector = (q < count)[:, None] & (d < size_out)
    total = tl.zeros([BLOCK, SIZE], tl.float32)
    for _ in range(0, splits):
        total += load(sums + q[:, None] * size_out + d, vector)
        sums += count * size_out
    if HAS_BIAS:
        total += load(bias + (q % parents)[:, None] * size_out + d, vector)
    square = tl.sum(total * total, axis=1)[:, None]
    squashed = total * (tl.sqrt(square) / (1.0 + square))
    own = (q // per_sample * stride + q % per_sample * size_out)[:, None] + d
    tl.store(totals + own, total, mask=vector)
    if LAST:
        tl.store(out_pose + q[:, None] * size_out + d, squashed, mask=vector)
    else:
        if ACCUMULATE and not FIRST:
            squashed += load(guides + own, vector)
        tl.store(next_guides + own, squashed, mask=vector)


@triton.jit
def dynamic_squash_backward(
    grad_pose, sums, totals, grad_guide, grad_total, grad_bias, count, per_sample, splits, size_out, stride,
    LAST: tl.constexpr, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """G_s from G of the pose: that of the output, or of all later guides that the pose is part of."""
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, SIZE)
    vector = (q < count)[:, None] & (d < size_out)
    at = q[:, None] * size_out + d
    if LAST:
        grad = load(grad_pose + at, vector)
    else:
        grad = tl.zeros([BLOCK, SIZE], tl.float32)
        for _ in range(0, splits):
            grad += load(sums + at, vector)
            sums += count * size_out
        if ACCUMULATE:
            grad += load(grad_guide + at, vector)
        tl.store(grad_guide + at, grad, mask=vector)
    own = (q // per_sample * stride + q % per_sample * size_out)[:, None] + d
    total = load(totals + own, vector)
    # G_s = f G + f' ⟨s, G⟩ s / n,  f = n / (1 + n²),  n = |s|
    square = tl.sum(total * total, axis=1)
    n = tl.sqrt(square)
    slope = 1.0 / (1.0 + square)
    factor = n * slope
    some = square > 0
    # In this order neither 1e-15 nor 1e15 leaves the range of float32.
    along = tl.where(some, tl.sum(total * grad, axis=1) * slope * (1.0 - 2.0 * n * factor), 0.0)
    inverse = tl.where(some, 1.0, 0.0) / tl.where(some, n, 1.0)
    grad = factor[:, None] * grad + (total * inverse[:, None]) * along[:, None]
    tl.store(grad_total + at, grad, mask=vector)
    tl.store(grad_bias + at, load(grad_bias + at, vector) + grad, mask=vector)


@triton.jit
def dynamic_children_backward(
    pose, weight, start, vote, guide, choice, grad_total, expected, grad_pose,
    batch, children, positions, places, parents, rows, choice_stride, size_in, size_out, guide_stride,
    FIRST: tl.constexpr, THROUGH: tl.constexpr, HAS_INDEX: tl.constexpr,
    SAMPLES: tl.constexpr, CHILDREN: tl.constexpr, PARENTS: tl.constexpr, SIZE: tl.constexpr,
    SIZE_IN: tl.constexpr,
):  # fmt: skip
    """E = Σ c G_c of each child, with G_c = ⟨V, G_s⟩, and then G of its pose by G_V = c G_s + c (G_c - E) y.

    Without `THROUGH` the couplings are constants, and G_V = c G_s.
    """
    n = tl.program_id(0) * CHILDREN + tl.arange(0, CHILDREN)
    b = (tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)).to(tl.int64)
    d = tl.arange(0, SIZE)
    in_layer, in_batch = n < children, b < batch
    if HAS_INDEX:
        first = tl.load(start + n, mask=in_layer, other=0)
        count = tl.load(start + n + 1, mask=in_layer, other=0) - first
    else:
        first = n
        count = in_layer.to(tl.int32)
    child_mask = in_layer[:, None] & in_batch[None, :]
    at = b[None, :] * children + n[:, None]
    from_pose = pose + at[:, :, None, None] * size_in
    chosen = choice + b[None, :] * choice_stride + n[:, None] * 2
    peak, inverse = load(chosen, child_mask)[:, :, None], load(chosen + 1, child_mask)[:, :, None]
    total = tl.zeros([CHILDREN, SAMPLES], tl.float32)
    to_pose = tl.zeros([CHILDREN, SAMPLES, SIZE_IN], tl.float32)
    for second_pass in tl.static_range(2):
        if second_pass or THROUGH:
            for k in range(0, tl.max(count, axis=0)):
                present = k < count
                position = n * 0
                place = n
                if HAS_INDEX:
                    found = tl.load(vote + first + k, mask=present, other=0)
                    position = found // places
                    place = found % places
                for j_first in range(0, parents, PARENTS):
                    j = j_first + tl.arange(0, PARENTS)
                    mask = (present[:, None] & child_mask)[:, :, None] & (j < parents)
                    in_pose = (j < parents)[:, None] & (d < size_out)
                    vector = mask[:, :, :, None] & in_pose
                    row = ((place % rows)[:, None] * parents + j)[:, None, :, None]
                    from_weight = weight + row * size_in * size_out + d
                    weight_mask = in_layer[:, None, None, None] & in_pose
                    votes = cast_vectors(
                        from_pose, child_mask[:, :, None, None], from_weight, weight_mask, size_in, size_out
                    )
                    parent = (position[:, None] * parents + j)[:, None, :, None]
                    whole = b[None, :, None, None] * positions * parents + parent
                    grad_s = load(grad_total + whole * size_out + d, vector)
                    coupling = tl.where(mask, inverse, 0.0)
                    if not FIRST:
                        own = guide + b[None, :, None, None] * guide_stride + parent * size_out + d
                        toward = load(own, vector)
                        logit = sum_pose(votes * toward)
                        coupling = tl.where(mask, coupling * tl.exp(logit - peak), 0.0)
                    if second_pass:
                        grad = coupling[:, :, :, None] * grad_s
                        if THROUGH:
                            grad_logit = coupling * (sum_pose(votes * grad_s) - total[:, :, None])
                            grad = tl.fma(grad_logit[:, :, :, None], toward, grad)
                        for c in range(0, size_in):
                            products = sum_pose(grad * load(from_weight + c * size_out, weight_mask))
                            column = tl.arange(0, SIZE_IN) == c
                            to_pose += tl.where(column, tl.sum(products, axis=2)[:, :, None], 0.0)
                    else:
                        total += tl.sum(coupling * sum_pose(votes * grad_s), axis=2)
    tl.store(expected + at, total, mask=child_mask)
    c = tl.arange(0, SIZE_IN)
    to = grad_pose + at[:, :, None] * size_in + c
    mask = child_mask[:, :, None] & (c < size_in)
    tl.store(to, load(to, mask) + to_pose, mask=mask)


@triton.jit
def dynamic_parents_backward(
    pose, weight, index, choice, guide, grad_total, expected, sums,
    lanes, children, positions, places, parents, rows, share, choice_stride, size_in, size_out, guide_stride,
    HAS_INDEX: tl.constexpr, LANES: tl.constexpr, PARENTS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """G_y = Σ c (G_c - E) V of each parent, for one split of its field."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    d = tl.arange(0, SIZE)
    inside = lane < lanes
    b = (lane // positions).to(tl.int64)
    p = lane % positions
    in_pose = (j < parents)[:, None] & (d < size_out)
    vector = inside[:, None, None] & in_pose
    parent = lane.to(tl.int64)[:, None] * parents + j
    own = b[:, None] * guide_stride + (p[:, None] * parents + j) * size_out
    toward = load(guide + own[:, :, None] + d, vector)
    grad_s = load(grad_total + parent[:, :, None] * size_out + d, vector)
    total = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    for i in range(split * share, tl.minimum(split * share + share, places)):
        child, present = child_at(index, p * places + i, i, children, inside, HAS_INDEX)
        at = b * children + child
        from_weight = weight + ((i % rows) * parents + j)[None, :, None] * size_in * size_out + d
        votes = cast_vectors(
            pose + at[:, None, None] * size_in, present[:, None, None], from_weight, in_pose[None, :, :],
            size_in, size_out,
        )  # fmt: skip
        chosen = choice + b * choice_stride + child * 2
        coupling = tl.exp(sum_pose(votes * toward) - load(chosen, present)[:, None])
        coupling = tl.where(present[:, None], coupling * load(chosen + 1, present)[:, None], 0.0)
        grad_logit = coupling * (sum_pose(votes * grad_s) - load(expected + at, present)[:, None])
        total = tl.fma(grad_logit[:, :, None], votes, total)
    to = sums + (split.to(tl.int64) * lanes * parents + parent)[:, :, None] * size_out + d
    tl.store(to, total, mask=vector)


@triton.jit
def dynamic_weight_backward(
    pose, weight, index, choice, guide, grad_total, expected, grad_weight,
    lanes, children, positions, places, parents, rows, share, choice_stride, size_in, size_out, guide_stride,
    FIRST: tl.constexpr, THROUGH: tl.constexpr, HAS_INDEX: tl.constexpr,
    LANES: tl.constexpr, PARENTS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Add uᵀ G_V over all samples and places with the same row of weights, four numbers of u at a time."""
    row = tl.program_id(0) % rows
    c = tl.program_id(0) // rows * 4
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    d = tl.arange(0, SIZE)
    in_pose = (j < parents)[:, None] & (d < size_out)
    own_row = (row * parents + j)[None, :, None] * size_in * size_out + d
    blocks = (lanes + LANES - 1) // LANES
    items = blocks * (places // rows)
    to_weight_0 = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    to_weight_1 = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    to_weight_2 = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    to_weight_3 = tl.zeros([LANES, PARENTS, SIZE], tl.float32)
    for item in range(split * share, tl.minimum(split * share + share, items)):
        i = item // blocks * rows + row
        lane = item % blocks * LANES + tl.arange(0, LANES)
        b = (lane // positions).to(tl.int64)
        p = lane % positions
        child, present = child_at(index, p * places + i, i, children, lane < lanes, HAS_INDEX)
        at = b * children + child
        from_pose = pose + at[:, None, None] * size_in
        pose_mask = present[:, None, None]
        vector = pose_mask & in_pose
        parent = lane.to(tl.int64)[:, None] * parents + j
        grad_s = load(grad_total + parent[:, :, None] * size_out + d, vector)
        chosen = choice + b * choice_stride + child * 2
        coupling = load(chosen + 1, present)[:, None]
        if FIRST:
            grad = coupling[:, :, None] * grad_s
        else:
            votes = cast_vectors(
                from_pose, pose_mask, weight + own_row, in_pose[None, :, :], size_in, size_out
            )
            own = b[:, None] * guide_stride + (p[:, None] * parents + j) * size_out
            toward = load(guide + own[:, :, None] + d, vector)
            coupling = coupling * tl.exp(sum_pose(votes * toward) - load(chosen, present)[:, None])
            coupling = tl.where(present[:, None], coupling, 0.0)
            grad = coupling[:, :, None] * grad_s
            if THROUGH:
                grad_logit = coupling * (sum_pose(votes * grad_s) - load(expected + at, present)[:, None])
                grad = tl.fma(grad_logit[:, :, None], toward, grad)
        to_weight_0 = tl.fma(grad, load(from_pose + c, pose_mask), to_weight_0)
        to_weight_1 = tl.fma(grad, load(from_pose + c + 1, pose_mask & (c + 1 < size_in)), to_weight_1)
        to_weight_2 = tl.fma(grad, load(from_pose + c + 2, pose_mask & (c + 2 < size_in)), to_weight_2)
        to_weight_3 = tl.fma(grad, load(from_pose + c + 3, pose_mask & (c + 3 < size_in)), to_weight_3)
    to = grad_weight + split.to(tl.int64) * rows * parents * size_in * size_out
    to += ((row * parents + j)[:, None] * size_in + c) * size_out + d
    add_lanes(to, to_weight_0, in_pose)
    add_lanes(to + size_out, to_weight_1, in_pose & (c + 1 < size_in))
    add_lanes(to + 2 * size_out, to_weight_2, in_pose & (c + 2 < size_in))
    add_lanes(to + 3 * size_out, to_weight_3, in_pose & (c + 3 < size_in))


@triton.jit
def add_lanes(to, terms, mask):
    """Add the sums over lanes of a tile."""
    tl.store(to, load(to, mask) + tl.sum(terms, axis=0), mask=mask)
