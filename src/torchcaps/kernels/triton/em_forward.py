"""EM routing, forward: kernels in the order in which an iteration runs them; see docs/triton.md."""

from torchcaps._extras import require
from torchcaps.kernels.triton.tiles import (
    DEAD,
    HALF_LOG_TWO_PI,
    LOWEST,
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
)

triton = require("triton", extra="triton", purpose="fused routing on a GPU")
tl = require("triton.language", extra="triton", purpose="fused routing on a GPU")


@triton.jit
def em_assign(
    pose, weight, offset, start, vote, gaussian, log_peak, choice,
    batch, children, positions, places, parents, rows, choice_stride,
    HAS_INDEX: tl.constexpr, HAS_OFFSET: tl.constexpr,
    SAMPLES: tl.constexpr, CHILDREN: tl.constexpr, PARENTS: tl.constexpr,
):  # fmt: skip
    """E-step: the largest logit of each child, and 1 / Σ exp(logit - largest) over all its parents.

    One tile of votes is `[CHILDREN, SAMPLES, PARENTS, 16]`.
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
    from_pose = pose + (b[None, :] * children + n[:, None])[:, :, None, None] * 16 + d // 4 * 4
    if HAS_OFFSET:
        moved = load(offset + (n // rows)[:, None, None, None] * 16 + d, in_layer[:, None, None, None])
    peak = tl.full([CHILDREN, SAMPLES], LOWEST, tl.float32)
    total = tl.zeros([CHILDREN, SAMPLES], tl.float32)
    for k in range(0, tl.max(count, axis=0)):
        present = k < count
        position = n * 0
        place = n
        if HAS_INDEX:
            found = tl.load(vote + first + k, mask=present, other=0)
            position = found // places
            place = found % places
        lane = b[None, :] * positions + position[:, None]
        for j_first in range(0, parents, PARENTS):
            j = j_first + tl.arange(0, PARENTS)
            mask = (present[:, None] & child_mask)[:, :, None] & (j < parents)
            from_weight = weight + ((place % rows)[:, None] * parents + j)[:, None, :, None] * 16 + d % 4
            weight_mask = (present[:, None] & (j < parents))[:, None, :, None]
            votes = cast_votes(from_pose, child_mask[:, :, None, None], from_weight, weight_mask)
            if HAS_OFFSET:
                votes += moved
            parent = lane[:, :, None] * parents + j
            fitted = gaussian + parent[:, :, :, None] * 48 + d
            scaled = deviation(
                votes,
                load(fitted, mask[:, :, :, None]),
                load(fitted + 16, mask[:, :, :, None]),
                load(fitted + 32, mask[:, :, :, None]),
            )
            highest = tl.load(log_peak + parent, mask=mask, other=float("-inf"))
            logit = log_density(highest, square_of(scaled))
            before = peak
            peak = tl.maximum(peak, tl.max(logit, axis=2))
            total = total * tl.exp(before - peak) + tl.sum(tl.exp(logit - peak[:, :, None]), axis=2)
    to = choice + b[None, :] * choice_stride + n[:, None] * 2
    tl.store(to, peak, mask=child_mask)
    tl.store(
        to + 1,
        tl.where(count[:, None] > 0, 1.0, 0.0) / tl.where(count[:, None] > 0, total, 1.0),
        mask=child_mask,
    )


@triton.jit
def em_field(
    activation, index, field, lanes, children, positions, places,
    HAS_INDEX: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The activation of all children in the field of each position, which mixing proportions divide by."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = lane < lanes
    b = (lane // positions).to(tl.int64)
    p = lane % positions
    total = tl.zeros([LANES], tl.float32)
    for i in range(0, places):
        child, present = child_at(index, p * places + i, i, children, inside, HAS_INDEX)
        total += load(activation + b * children + child, present)
    tl.store(field + lane, total, mask=inside)


@triton.jit
def em_moments(
    pose, activation, weight, offset, index, choice, gaussian, log_peak, center, masses, sums,
    lanes, children, positions, places, parents, rows, share, choice_stride,
    FIRST: tl.constexpr, AROUND_CENTER: tl.constexpr, HAS_INDEX: tl.constexpr, HAS_OFFSET: tl.constexpr,
    LANES: tl.constexpr, PARENTS: tl.constexpr,
):  # fmt: skip
    """M-step: S₀ = Σ r, S₁ = Σ r (V - c) and S₂ = Σ r (V - c)² of each parent, for one split of its field.

    The center c is the mean of the iteration before (0 in the first), or an array if `AROUND_CENTER`. One
    tile of votes is `[LANES, PARENTS, 16]`; a lane is a sample and a position.
    """
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    j = tl.program_id(1) * PARENTS + tl.arange(0, PARENTS)
    split = tl.program_id(2)
    part = split.to(tl.int64)
    d = tl.arange(0, 16)
    inside = lane < lanes
    b = (lane // positions).to(tl.int64)
    p = lane % positions
    mask = inside[:, None] & (j < parents)
    weight_mask = (j < parents)[None, :, None]
    parent = lane.to(tl.int64)[:, None] * parents + j
    if not FIRST:
        fitted = gaussian + parent[:, :, None] * 48 + d
        mean = load(fitted, mask[:, :, None])
        scale = load(fitted + 16, mask[:, :, None])
        shift = load(fitted + 32, mask[:, :, None])
        highest = tl.load(log_peak + parent, mask=mask, other=float("-inf"))
    if AROUND_CENTER:
        around = load(center + parent[:, :, None] * 16 + d, mask[:, :, None])
    mass = tl.zeros([LANES, PARENTS], tl.float32)
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
        if FIRST:
            r = tl.broadcast_to(r, [LANES, PARENTS])
        else:
            logit = log_density(highest, square_of(deviation(votes, mean, scale, shift)))
            r = r * tl.exp(logit - tl.load(chosen, mask=present, other=0.0)[:, None])
            # Padding and absent children have a weight of 0, also where the exponential overflows.
            r = tl.where(mask & present[:, None], r, 0.0)
        if AROUND_CENTER:
            votes -= around
        elif not FIRST:
            votes -= mean
        mass += r
        weighted = r[:, :, None] * votes
        moment += weighted
        if AROUND_CENTER:
            second = tl.fma(weighted, votes, second)
    count = lanes * parents
    tl.store(masses + part * count + parent, mass, mask=mask)
    sums += part * count * 32
    tl.store(sums + parent[:, :, None] * 16 + d, moment, mask=mask[:, :, None])
    if AROUND_CENTER:
        tl.store(sums + (count + parent[:, :, None]) * 16 + d, second, mask=mask[:, :, None])


@triton.jit
def em_center(masses, sums, gaussian, center, count, splits, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of each parent from S₀ and S₁, rounded; 0 for a dead parent."""
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, 16)
    mask = q < count
    mass, moment = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK, 16], tl.float32)
    for _ in range(0, splits):
        mass += load(masses + q, mask)
        moment += load(sums + q[:, None] * 16 + d, mask[:, None])
        masses += count
        sums += count * 32
    alive = (mass > DEAD)[:, None]
    mean = moment / tl.where(alive, mass[:, None], 1.0)
    if not FIRST:
        mean += load(gaussian + q[:, None] * 48 + d, mask[:, None])
    tl.store(center + q[:, None] * 16 + d, tl.where(alive, mean, 0.0), mask=mask[:, None])


@triton.jit
def store_gaussian(gaussian, log_peak, q, d, mask, mean, low, variance, log_activation):
    """Mean, 1/σ, low part / σ and ln of a times the density at the mean, which the E-step reads."""
    scale = 1.0 / tl.sqrt(variance)
    to = gaussian + q[:, None] * 48 + d
    tl.store(to, mean, mask=mask[:, None])
    tl.store(to + 16, scale, mask=mask[:, None])
    tl.store(to + 32, low * scale, mask=mask[:, None])
    volume = 0.5 * tl.sum(tl.log(variance), axis=1)
    tl.store(log_peak + q, log_activation - volume - HALF_LOG_TWO_PI, mask=mask)


@triton.jit
def em_fit(
    masses, sums, center, field, beta_u, beta_a, gaussian, log_peak, fitted, out_pose,
    out_activation, out_logit,
    count, per_sample, parents, splits, fitted_stride, temperature, mass_scale, epsilon,
    MIXING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The Gaussian and the activation of each parent, from the sums around a center close to its mean.

    μ = c + S₁/S₀,  σ² = S₂/S₀ - (S₁/S₀)²,  z = λ (β_a - (16 β_u + Σ ln σ) m k),  a = sigmoid(z); or a = m/F.
    """
    q = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, 16)
    mask = q < count
    vector = mask[:, None]
    mass = tl.zeros([BLOCK], tl.float32)
    moment, second = tl.zeros([BLOCK, 16], tl.float32), tl.zeros([BLOCK, 16], tl.float32)
    for _ in range(0, splits):
        mass += load(masses + q, mask)
        moment += load(sums + q[:, None] * 16 + d, vector)
        second += load(sums + (count + q[:, None]) * 16 + d, vector)
        masses += count
        sums += count * 32
    alive = (mass > DEAD)[:, None]
    moved = tl.where(alive, moment / tl.where(alive, mass[:, None], 1.0), 0.0)
    variance = second / tl.where(alive, mass[:, None], 1.0) - moved * moved
    variance = tl.where(alive, tl.maximum(variance, 0.0), 0.0)
    # mean + low = around + moved, exactly.
    around = load(center + q[:, None] * 16 + d, vector)
    mean = around + moved
    back = mean - around
    low = (around - (mean - back)) + (moved - back)
    variance += least_variance(epsilon, mean)
    if MIXING:
        presence = mass / tl.maximum(load(field + q // parents, mask), DEAD)
        logit = tl.log(tl.maximum(presence, DEAD))
        log_activation = logit
    else:
        j = q % parents
        code = 16 * load(beta_u + j, mask) + 0.5 * tl.sum(tl.log(variance), axis=1)
        logit = temperature * (load(beta_a + j, mask) - code * (mass * mass_scale))
        presence = sigmoid(logit)
        log_activation = log_sigmoid(logit)
    # Of one sample and iteration: means, low parts, variances, masses and logits of all parents.
    to = fitted + q // per_sample * fitted_stride
    own = q % per_sample
    tl.store(to[:, None] + own[:, None] * 16 + d, mean, mask=vector)
    tl.store(to[:, None] + (per_sample + own[:, None]) * 16 + d, low, mask=vector)
    tl.store(to[:, None] + (2 * per_sample + own[:, None]) * 16 + d, variance, mask=vector)
    tl.store(to + 48 * per_sample + own, mass, mask=mask)
    tl.store(to + 49 * per_sample + own, logit, mask=mask)
    tl.store(out_pose + q[:, None] * 16 + d, mean, mask=vector)
    tl.store(out_activation + q, presence, mask=mask)
    tl.store(out_logit + q, logit, mask=mask)
    store_gaussian(gaussian, log_peak, q, d, mask, mean, low, variance, log_activation)
