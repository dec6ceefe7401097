"""EM routing, backward: kernels in the order in which an iteration runs them, the last iteration first.

G is the gradient of the loss by what follows. docs/triton.md has the derivation.
"""

from torchcaps._extras import require
from torchcaps.kernels.triton.em_forward import store_gaussian
from torchcaps.kernels.triton.tiles import (
    DEAD,
    FARTHEST,
    cast_votes,
    child_at,
    deviation,
    least_variance,
    load,
    load_offset,
    log_density,
    log_sigmoid,
    sigmoid,
    square_of,
    sum_pose,
)

triton = require("triton", extra="triton", purpose="fused routing on a GPU")
tl = require("triton.language", extra="triton", purpose="fused routing on a GPU")


@triton.jit
def em_gaussian(
    fitted, gaussian, log_peak, count, per_sample, fitted_stride, MIXING: tl.constexpr, BLOCK: tl.constexpr
):
    """The Gaussians by which the votes were assigned in the forward pass."""
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, 16)
    mask = q < count
    own = fitted + q // per_sample * fitted_stride
    vector = own[:, None] + (q % per_sample)[:, None] * 16 + d
    mean = load(vector, mask[:, None])
    low = load(vector + 16 * per_sample, mask[:, None])
    variance = tl.load(vector + 32 * per_sample, mask=mask[:, None], other=1.0)
    logit = load(own + 49 * per_sample + q % per_sample, mask)
    log_activation = logit if MIXING else log_sigmoid(logit)
    store_gaussian(gaussian, log_peak, q, d, mask, mean, low, variance, log_activation)


@triton.jit
def em_slopes(
    fitted, grad_pose, grad_activation, grad_logit, masses, sums, gaussian, field, beta_u, slopes, terms,
    shared,
    count, per_sample, parents, splits, fitted_stride, temperature, mass_scale, epsilon,
    LAST: tl.constexpr, MIXING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From G of the output or of the next E-step to what G_r and G_V of the votes of a parent are made of.

    Adds to `shared` `[3, parents]`: G of β_u, of β_a, and of the activation of the field.
    """
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, 16)
    mask = q < count
    vector = mask[:, None]
    own = fitted + q // per_sample * fitted_stride
    at = own[:, None] + (q % per_sample)[:, None] * 16 + d
    mean = load(at, vector)
    low = load(at + 16 * per_sample, vector)
    variance = tl.load(at + 32 * per_sample, mask=vector, other=1.0)
    mass = load(own + 48 * per_sample + q % per_sample, mask)
    z = load(own + 49 * per_sample + q % per_sample, mask)
    alive = mass > DEAD
    if LAST:
        # G_z = G_logit + G_a a (1 - a),  G_μ from the pose,  G_v = 0
        grad_mean = load(grad_pose + q[:, None] * 16 + d, vector)
        grad_presence = load(grad_activation + q, mask)
        grad_z = load(grad_logit + q, mask)
        grad_variance = tl.zeros([BLOCK, 16], tl.float32)
        if not MIXING:
            grad_z += grad_presence * sigmoid(z) * sigmoid(-z)
    else:
        # G_z = A₀ (1 - a),  G_μ = A₁,  G_v = (A₂ - A₀) / (2 v)
        grad_z = tl.zeros([BLOCK], tl.float32)
        grad_mean, grad_square = tl.zeros([BLOCK, 16], tl.float32), tl.zeros([BLOCK, 16], tl.float32)
        for _ in range(0, splits):
            grad_z += load(masses + q, mask)
            grad_mean += load(sums + q[:, None] * 16 + d, vector)
            grad_square += load(sums + (count + q[:, None]) * 16 + d, vector)
            masses += count
            sums += count * 32
        scale = load(gaussian + q[:, None] * 48 + 16 + d, vector)
        # The difference first: where children are one σ off, as two children always are, it nearly cancels.
        grad_variance = 0.5 * (grad_square - grad_z[:, None]) * scale * scale
        grad_presence = tl.zeros([BLOCK], tl.float32)
        if not MIXING:
            grad_z *= sigmoid(-z)
    if MIXING:
        # a = m/F:  G_m = G_a/F,  G_F -= G_a a/F
        activation = load(field + q // parents, mask)
        total = tl.maximum(activation, DEAD)
        proportion = mass / total
        counts = proportion > DEAD
        grad_presence += tl.where(counts, grad_z / tl.where(counts, proportion, 1.0), 0.0)
        grad_mass = grad_presence / total
        grad_field = tl.where(activation > DEAD, -grad_presence * proportion / total, 0.0)
        grad_volume = tl.zeros([BLOCK], tl.float32)
        to = shared + 2 * count + q
        tl.store(to, load(to, mask) + grad_field, mask=mask)
    else:
        # G_cost = -λ G_z:  G_βa -= G_cost,  G_βu += 16 m k G_cost,  G_m = k c G_cost,
        # G_v += m k G_cost / (2 v)
        grad_cost = -temperature * grad_z
        scaled_mass = mass * mass_scale
        code = 16 * load(beta_u + q % parents, mask) + 0.5 * tl.sum(tl.log(variance), axis=1)
        grad_mass = mass_scale * code * grad_cost
        grad_volume = 0.5 * scaled_mass * grad_cost
        tl.store(shared + q, load(shared + q, mask) + 16 * scaled_mass * grad_cost, mask=mask)
        to = shared + count + q
        tl.store(to, load(to, mask) - grad_cost, mask=mask)
    # A dead parent has no mean and no variance that votes could move; 0 times an infinity would be NaN.
    grad_mean = tl.where(alive[:, None], grad_mean, 0.0)
    grad_variance = tl.where(alive[:, None], grad_variance + grad_volume[:, None] / variance, 0.0)
    # With δ = x - low and x = V - rounded mean, low is moved out of the sums over x.
    observed = variance - least_variance(epsilon, mean)
    center = tl.sum(grad_variance * (observed - low * low) + low * grad_mean, axis=1)
    to = slopes + q[:, None] * 48 + d
    tl.store(to, mean, mask=vector)
    tl.store(to + 16, grad_mean - 2 * grad_variance * low, mask=vector)
    tl.store(to + 32, grad_variance, mask=vector)
    tl.store(terms + q * 3, center, mask=mask)
    tl.store(terms + q * 3 + 1, tl.where(alive, 1.0, 0.0) / tl.where(alive, mass, 1.0), mask=mask)
    tl.store(terms + q * 3 + 2, grad_mass, mask=mask)


@triton.jit
def load_gaussian(gaussian, log_peak, parent, d, mask, vector):
    """Mean, 1/σ, low part / σ and log peak of the iteration before."""
    at = gaussian + tl.expand_dims(parent, -1) * 48 + d
    highest = tl.load(log_peak + parent, mask=mask, other=float("-inf"))
    return load(at, vector), load(at + 16, vector), load(at + 32, vector), highest


@triton.jit
def load_slopes(slopes, terms, parent, d, mask, vector):
    """Mean, G_μ and G_v of this iteration, and the three terms of G_r."""
    at = slopes + tl.expand_dims(parent, -1) * 48 + d
    from_terms = terms + parent * 3
    mean, grad_mean, grad_variance = load(at, vector), load(at + 16, vector), load(at + 32, vector)
    center, inverse_mass = load(from_terms, mask), load(from_terms + 1, mask)
    return mean, grad_mean, grad_variance, center, inverse_mass, load(from_terms + 2, mask)


@triton.jit
def grad_of_assignment(centered, grad_mean, grad_variance, center, inverse_mass, grad_mass):
    """G_r = (Σ x (G_μ + G_v x) - center) / m + G_m,  x = V - rounded mean."""
    agreement = sum_pose(centered * tl.fma(grad_variance, centered, grad_mean))
    return (agreement - center) * inverse_mass + grad_mass


@triton.jit
def grad_of_fit(centered, grad_mean, grad_variance, share):
    """G_V = s (G_μ + 2 G_v x): a vote through the mean and the variance of its parent."""
    return tl.expand_dims(share, -1) * tl.fma(2.0 * grad_variance, centered, grad_mean)


@triton.jit
def grad_of_distance(grad_logit, square):
    """G of the distance, up to a factor; one that was limited does not change with the vote."""
    return tl.expand_dims(tl.where(square < FARTHEST, grad_logit, 0.0), -1)


@triton.jit
def em_children_backward(
    pose, activation, weight, offset, start, vote, choice, gaussian, log_peak, slopes, terms, grad_field,
    expected, grad_pose, grad_activation,
    batch, children, positions, places, parents, rows, choice_stride,
    FIRST: tl.constexpr, MIXING: tl.constexpr, HAS_INDEX: tl.constexpr, HAS_OFFSET: tl.constexpr,
    SAMPLES: tl.constexpr, CHILDREN: tl.constexpr, PARENTS: tl.constexpr,
):  # fmt: skip
    """G of the activation of each child, E = Σ R G_r over all its parents, and then G of its pose.

    The votes are cast twice, since G of a vote needs E.
    """
    n = tl.program_id(0) * CHILDREN + tl.arange(0, CHILDREN)
    b = (tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)).to(tl.int64)
    d = tl.arange(0, 16)
    in_layer, in_batch = n < children, b < batch
    if HAS_INDEX:
        first = tl.load(start + n, mask=in_layer, other=0)
        count = tl.load(start + n + 1, mask=in_layer, other=0) - first
    else:
        first = n
        count = in_layer.to(tl.int32)
    child_mask = in_layer[:, None] & in_batch[None, :]
    at = b[None, :] * children + n[:, None]
    from_pose = pose + at[:, :, None, None] * 16 + d // 4 * 4
    if HAS_OFFSET:
        moved = load(offset + (n // rows)[:, None, None, None] * 16 + d, in_layer[:, None, None, None])
    chosen = choice + b[None, :] * choice_stride + n[:, None] * 2
    peak, inverse = load(chosen, child_mask)[:, :, None], load(chosen + 1, child_mask)[:, :, None]
    alive = load(activation + at, child_mask)[:, :, None]
    total = tl.zeros([CHILDREN, SAMPLES], tl.float32)
    through_field = tl.zeros([CHILDREN, SAMPLES], tl.float32)
    to_pose_0 = tl.zeros([CHILDREN, SAMPLES, PARENTS, 16], tl.float32)
    to_pose_1 = tl.zeros([CHILDREN, SAMPLES, PARENTS, 16], tl.float32)
    to_pose_2 = tl.zeros([CHILDREN, SAMPLES, PARENTS, 16], tl.float32)
    to_pose_3 = tl.zeros([CHILDREN, SAMPLES, PARENTS, 16], tl.float32)
    for second_pass in tl.static_range(2):
        for k in range(0, tl.max(count, axis=0)):
            present = k < count
            position = n * 0
            place = n
            if HAS_INDEX:
                found = tl.load(vote + first + k, mask=present, other=0)
                position = found // places
                place = found % places
            lane = b[None, :] * positions + position[:, None]
            present = present[:, None] & child_mask
            if MIXING and FIRST and not second_pass:
                through_field += load(grad_field + lane, present)
            for j_first in range(0, parents, PARENTS):
                j = j_first + tl.arange(0, PARENTS)
                mask = present[:, :, None] & (j < parents)
                vector = mask[:, :, :, None]
                from_weight = weight + ((place % rows)[:, None] * parents + j)[:, None, :, None] * 16 + d % 4
                weight_mask = (in_layer[:, None] & (j < parents))[:, None, :, None]
                votes = cast_votes(from_pose, child_mask[:, :, None, None], from_weight, weight_mask)
                if HAS_OFFSET:
                    votes += moved
                parent = lane[:, :, None] * parents + j
                mean, grad_mean, grad_variance, center, inverse_mass, grad_mass = load_slopes(
                    slopes, terms, parent, d, mask, vector
                )
                centered = votes - mean
                grad_r = grad_of_assignment(
                    centered, grad_mean, grad_variance, center, inverse_mass, grad_mass
                )
                if FIRST:
                    assigned = tl.where(mask, inverse, 0.0)
                else:
                    before, scale, shift, highest = load_gaussian(gaussian, log_peak, parent, d, mask, vector)
                    scaled = deviation(votes, before, scale, shift)
                    square = square_of(scaled)
                    assigned = tl.exp(log_density(highest, square) - peak) * inverse
                    assigned = tl.where(mask, assigned, 0.0)
                if second_pass:
                    r = assigned * alive
                    grad = grad_of_fit(centered, grad_mean, grad_variance, r * inverse_mass)
                    if not FIRST:
                        grad_logit = r * (grad_r - total[:, :, None])
                        grad -= grad_of_distance(grad_logit, square) * scaled * scale
                    to_pose_0 = tl.fma(grad, load(from_weight, weight_mask), to_pose_0)
                    to_pose_1 = tl.fma(grad, load(from_weight + 4, weight_mask), to_pose_1)
                    to_pose_2 = tl.fma(grad, load(from_weight + 8, weight_mask), to_pose_2)
                    to_pose_3 = tl.fma(grad, load(from_weight + 12, weight_mask), to_pose_3)
                else:
                    total += tl.sum(assigned * grad_r, axis=2)
    tl.store(expected + at, total, mask=child_mask)
    grad = load(grad_activation + at, child_mask) + total + through_field
    tl.store(grad_activation + at, grad, mask=child_mask)
    to = grad_pose + at[:, :, None] * 16 + tl.arange(0, 4) * 4
    row_mask = child_mask[:, :, None]
    add_rows(to, to_pose_0, row_mask)
    add_rows(to + 1, to_pose_1, row_mask)
    add_rows(to + 2, to_pose_2, row_mask)
    add_rows(to + 3, to_pose_3, row_mask)


@triton.jit
def add_rows(to, terms, mask):
    """Add the sums over parents and columns of a tile, one number per row of the pose."""
    sums = tl.sum(terms, axis=2)
    sums = tl.sum(tl.reshape(sums, [sums.shape[0], sums.shape[1], 4, 4]), axis=3)
    tl.store(to, load(to, mask) + sums, mask=mask)


@triton.jit
def em_parents_backward(
    pose, activation, weight, offset, index, choice, gaussian, log_peak, slopes, terms, expected,
    masses, sums,
    lanes, children, positions, places, parents, rows, share, choice_stride,
    HAS_INDEX: tl.constexpr, HAS_OFFSET: tl.constexpr, LANES: tl.constexpr, PARENTS: tl.constexpr,
):  # fmt: skip
    """A₀ = Σ G_l, A₁ = Σ G_l u/σ and A₂ = Σ G_l u² of each parent of the iteration before, for one split."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    part = split.to(tl.int64)
    d = tl.arange(0, 16)
    inside = lane < lanes
    b = (lane // positions).to(tl.int64)
    p = lane % positions
    mask = inside[:, None] & (j < parents)
    vector = mask[:, :, None]
    weight_mask = (j < parents)[None, :, None]
    parent = lane.to(tl.int64)[:, None] * parents + j
    before, scale, shift, highest = load_gaussian(gaussian, log_peak, parent, d, mask, vector)
    mean, grad_mean, grad_variance, center, inverse_mass, grad_mass = load_slopes(
        slopes, terms, parent, d, mask, vector
    )
    zeroth = tl.zeros([LANES, PARENTS], tl.float32)
    moment = tl.zeros([LANES, PARENTS, 16], tl.float32)
    second = tl.zeros([LANES, PARENTS, 16], tl.float32)
    for i in range(split * share, tl.minimum(split * share + share, places)):
        child, present = child_at(index, p * places + i, i, children, inside, HAS_INDEX)
        at = b * children + child
        from_weight = weight + ((i % rows) * parents + j)[None, :, None] * 16 + d % 4
        votes = cast_votes(
            pose + at[:, None, None] * 16 + d // 4 * 4, present[:, None, None], from_weight, weight_mask
        )
        if HAS_OFFSET:
            votes += load_offset(offset, child // rows, j, d, present)
        chosen = choice + b * choice_stride + child * 2
        r = (load(activation + at, present) * load(chosen + 1, present))[:, None]
        scaled = deviation(votes, before, scale, shift)
        square = square_of(scaled)
        r = r * tl.exp(log_density(highest, square) - load(chosen, present)[:, None])
        r = tl.where(mask & present[:, None], r, 0.0)
        grad_r = grad_of_assignment(votes - mean, grad_mean, grad_variance, center, inverse_mass, grad_mass)
        grad_logit = r * (grad_r - load(expected + at, present)[:, None])
        weighted = grad_of_distance(grad_logit, square) * scaled
        zeroth += grad_logit
        moment = tl.fma(weighted, scale, moment)
        second = tl.fma(weighted, scaled, second)
    count = lanes * parents
    tl.store(masses + part * count + parent, zeroth, mask=mask)
    sums += part * count * 32
    tl.store(sums + parent[:, :, None] * 16 + d, moment, mask=vector)
    tl.store(sums + (count + parent[:, :, None]) * 16 + d, second, mask=vector)


@triton.jit
def em_weight_backward(
    pose, activation, weight, offset, index, choice, gaussian, log_peak, slopes, terms, expected, grad_weight,
    lanes, children, positions, places, parents, rows, share, choice_stride,
    FIRST: tl.constexpr, HAS_INDEX: tl.constexpr, HAS_OFFSET: tl.constexpr,
    LANES: tl.constexpr, PARENTS: tl.constexpr,
):  # fmt: skip
    """Add Mᵀ G_V over all samples and places with the same row of the weight, for one split of them."""
    row = tl.program_id(0)
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    part = split.to(tl.int64)
    d = tl.arange(0, 16)
    weight_mask = (j < parents)[None, :, None]
    from_weight = weight + (row * parents + j)[None, :, None] * 16 + d % 4
    blocks = (lanes + LANES - 1) // LANES
    items = blocks * (places // rows)
    to_weight_0 = tl.zeros([LANES, PARENTS, 16], tl.float32)
    to_weight_1 = tl.zeros([LANES, PARENTS, 16], tl.float32)
    to_weight_2 = tl.zeros([LANES, PARENTS, 16], tl.float32)
    to_weight_3 = tl.zeros([LANES, PARENTS, 16], tl.float32)
    for item in range(split * share, tl.minimum(split * share + share, items)):
        i = item // blocks * rows + row
        lane = item % blocks * LANES + tl.arange(0, LANES)
        b = (lane // positions).to(tl.int64)
        child, present = child_at(index, lane % positions * places + i, i, children, lane < lanes, HAS_INDEX)
        at = b * children + child
        mask = present[:, None] & (j < parents)
        vector = mask[:, :, None]
        from_pose = pose + at[:, None, None] * 16 + d // 4 * 4
        votes = cast_votes(from_pose, present[:, None, None], from_weight, weight_mask)
        if HAS_OFFSET:
            votes += load_offset(offset, child // rows, j, d, present)
        parent = lane.to(tl.int64)[:, None] * parents + j
        mean, grad_mean, grad_variance, center, inverse_mass, grad_mass = load_slopes(
            slopes, terms, parent, d, mask, vector
        )
        centered = votes - mean
        chosen = choice + b * choice_stride + child * 2
        r = (load(activation + at, present) * load(chosen + 1, present))[:, None]
        if FIRST:
            grad = grad_of_fit(centered, grad_mean, grad_variance, r * inverse_mass)
        else:
            before, scale, shift, highest = load_gaussian(gaussian, log_peak, parent, d, mask, vector)
            scaled = deviation(votes, before, scale, shift)
            square = square_of(scaled)
            r = r * tl.exp(log_density(highest, square) - load(chosen, present)[:, None])
            r = tl.where(mask, r, 0.0)
            grad_r = grad_of_assignment(centered, grad_mean, grad_variance, center, inverse_mass, grad_mass)
            grad_logit = r * (grad_r - load(expected + at, present)[:, None])
            grad = grad_of_fit(centered, grad_mean, grad_variance, r * inverse_mass)
            grad -= grad_of_distance(grad_logit, square) * scaled * scale
        to_weight_0 = tl.fma(grad, load(from_pose, present[:, None, None]), to_weight_0)
        to_weight_1 = tl.fma(grad, load(from_pose + 1, present[:, None, None]), to_weight_1)
        to_weight_2 = tl.fma(grad, load(from_pose + 2, present[:, None, None]), to_weight_2)
        to_weight_3 = tl.fma(grad, load(from_pose + 3, present[:, None, None]), to_weight_3)
    to = grad_weight + part * rows * parents * 16
    to += (row * parents + j)[:, None] * 16 + tl.arange(0, 4)
    column_mask = (j < parents)[:, None]
    add_columns(to, to_weight_0, column_mask)
    add_columns(to + 4, to_weight_1, column_mask)
    add_columns(to + 8, to_weight_2, column_mask)
    add_columns(to + 12, to_weight_3, column_mask)


@triton.jit
def add_columns(to, terms, mask):
    """Add the sums over lanes and rows of a tile, one number per parent and column."""
    sums = tl.sum(terms, axis=0)
    sums = tl.sum(tl.reshape(sums, [sums.shape[0], 4, 4]), axis=1)
    tl.store(to, load(to, mask) + sums, mask=mask)
