"""Functions of tiles that several kernels use: votes, their distances from a Gaussian, and assignments.

The last axis of a tile is the pose. Element d of a 4×4 pose is in row `d // 4` and column `d % 4`.
"""

from torchcaps._extras import require

triton = require("triton", extra="triton", purpose="fused routing on a GPU")
tl = require("triton.language", extra="triton", purpose="fused routing on a GPU")

# As in the plain form: a parent with less mass than this has no votes.
DEAD = tl.constexpr(1e-20)

# As in the plain form: squared distances are limited to this.
FARTHEST = tl.constexpr(1e37)

# 16 ln(2π) / 2
HALF_LOG_TWO_PI = tl.constexpr(14.703016531274763)

# Less than every logit, and finite, so that its difference from itself is 0.
LOWEST = tl.constexpr(-3.0e38)

# The distance from 1 to the next number.
ULP = tl.constexpr(1.1920928955078125e-07)


@triton.jit
def load(pointer, mask):
    """Numbers in float32, 0 where masked."""
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def cast_votes(pose, pose_mask, weight, weight_mask):
    """V = M W for 4×4 matrices.

    `pose` points to the first element of the row of d in M, `weight` to the first element of the column of d
    in W.
    """
    votes = load(pose, pose_mask) * load(weight, weight_mask)
    for k in tl.static_range(1, 4):
        votes = tl.fma(load(pose + k, pose_mask), load(weight + 4 * k, weight_mask), votes)
    return votes


@triton.jit
def cast_vectors(pose, pose_mask, weight, weight_mask, size_in, size_out):
    """V = u W for a vector u; `pose` points to its first number, `weight` to column d of the first row."""
    votes = load(pose, pose_mask) * load(weight, weight_mask)
    for k in range(1, size_in):
        votes = tl.fma(load(pose + k, pose_mask), load(weight + k * size_out, weight_mask), votes)
    return votes


@triton.jit
def load_offset(offset, place, j, d, present):
    """What is added to the votes of each lane, `[lanes, parents, 16]`."""
    # A tile of this size although all parents have the same: the compiler would make the layout of a smaller
    # tile, one number per thread, that of the votes, and spill registers.
    return load(offset + (place[:, None] + 0 * j)[:, :, None] * 16 + d, present[:, None, None])


@triton.jit
def deviation(votes, mean, scale, shift):
    """u = (V - μ) / σ, where shift is the low part of μ divided by σ."""
    # Dividing before squaring keeps votes of 1e15 within float32.
    return (votes - mean) * scale - shift


@triton.jit
def sum_pairs(terms):
    """Add neighbors along the last axis, which is halved."""
    shape: tl.constexpr = terms.shape[:-1] + [terms.shape[-1] // 2, 2]  # noqa: RUF005
    left, right = tl.split(tl.reshape(terms, shape))
    return left + right


@triton.jit
def sum_pose(terms):
    """Sum over the last axis, a power of 2, in pairs.

    The order of `tl.sum` depends on how a tile lies in the threads, which differs from kernel to kernel.
    """
    for _ in tl.static_range(10):
        if terms.shape[-1] > 1:
            terms = sum_pairs(terms)
    return terms.reshape(terms.shape[:-1])


@triton.jit
def square_of(scaled):
    """Squared distance from a deviation in units of σ, not limited."""
    return sum_pose(scaled * scaled)


@triton.jit
def log_density(log_peak, square):
    """l = ln a + ln N(V; μ, σ²)."""
    return log_peak - 0.5 * tl.where(square < FARTHEST, square, FARTHEST)


@triton.jit
def sigmoid(z):
    """1 / (1 + exp(-z)), without overflow."""
    e = tl.exp(-tl.abs(z))
    return tl.where(z > 0, 1.0, e) / (1.0 + e)


@triton.jit
def log_sigmoid(z):
    """ln sigmoid(z), without overflow."""
    return tl.minimum(z, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(z)))


@triton.jit
def least_variance(epsilon, mean):
    """What is added to a variance: ε, or the square of the rounding of the mean."""
    step = ULP * mean
    return tl.maximum(step * step, epsilon)


@triton.jit
def child_at(index, position, place, children, mask, HAS_INDEX: tl.constexpr):
    """The child at a place of the field of a position, and whether there is one."""
    if HAS_INDEX:
        child = tl.load(index + position, mask=mask, other=-1)
        mask = mask & (child >= 0) & (child < children)
    else:
        child = position * 0 + place
    return child, mask
