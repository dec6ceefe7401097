"""The papers' formulas in plain loops over numpy numbers: slow, short, and written apart from the library."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def squash(s: Array, kind: str = "hinton") -> Array:
    n = float(np.sqrt((s * s).sum()))
    if n == 0:
        return np.zeros_like(s)
    long = {
        "hinton": n * n / (1 + n * n),
        "half": n * n / (0.5 + n * n),
        "tanh": np.tanh(n),
        "exp": 1 - np.exp(-n),
        "ratio": n / (1 + n),
        "none": n,
    }[kind]
    return long * s / n


def dynamic_routing(u: Array, r: int, update: str = "accumulate") -> tuple[Array, Array]:
    """Procedure 1 of Sabour et al. for votes u[i, j] of one sample: parents v[j] and couplings c[i, j]."""
    N, J, D = u.shape
    b, c, v = np.zeros((N, J)), np.zeros((N, J)), np.zeros((J, D))
    for t in range(r):
        for i in range(N):
            e = np.exp(b[i] - b[i].max())
            c[i] = e / e.sum()
        for j in range(J):
            v[j] = squash(sum(c[i, j] * u[i, j] for i in range(N)))
        if t == r - 1:
            break
        for i in range(N):
            for j in range(J):
                b[i, j] = (b[i, j] if update == "accumulate" else 0) + u[i, j] @ v[j]
    return v, c


# A vote is V[parent][child]; a parent is (row, column, type) or (class,), a child (row, column, type).
VotesOf = dict[tuple[int, ...], dict[tuple[int, ...], Array]]


def conv_votes(pose: Array, weight: Array, K: int, stride: int, padding: int) -> VotesOf:
    """Votes of matrix poses pose[h, w, c] for the parents over K×K fields; weight[k·k·c, j]."""
    H, W, C, D = pose.shape
    P = int(np.sqrt(D))
    votes: VotesOf = {}
    for y in range((H + 2 * padding - K) // stride + 1):
        for x in range((W + 2 * padding - K) // stride + 1):
            for j in range(weight.shape[1]):
                field = votes.setdefault((y, x, j), {})
                for ky in range(K):
                    for kx in range(K):
                        h, w = y * stride + ky - padding, x * stride + kx - padding
                        if 0 <= h < H and 0 <= w < W:
                            for c in range(C):
                                M = pose[h, w, c].reshape(P, P)
                                field[h, w, c] = (M @ weight[(ky * K + kx) * C + c, j]).ravel()
    return votes


def class_votes(pose: Array, weight: Array) -> VotesOf:
    """Votes of matrix poses for classes, weight[c, j], with coordinates in the right-hand column."""
    H, W, C, D = pose.shape
    P = int(np.sqrt(D))
    votes: VotesOf = {}
    for j in range(weight.shape[1]):
        for h in range(H):
            for w in range(W):
                for c in range(C):
                    V = pose[h, w, c].reshape(P, P) @ weight[c, j]
                    V[0, P - 1] += (h + 0.5) / H
                    V[1, P - 1] += (w + 0.5) / W
                    votes.setdefault((j,), {})[h, w, c] = V.ravel()
    return votes


def em_routing(
    votes: VotesOf,
    a: Array,
    *,
    iterations: int,
    beta_u: Array,
    beta_a: Array,
    final_lambda: float = 0.01,
    epsilon: float = 1e-6,
) -> tuple[dict, dict, dict]:
    """Procedure 1 of Hinton et al.: means and activations by parent, assignments by (child, parent)."""
    parents_of: dict = {}
    for parent, field in votes.items():
        for child in field:
            parents_of.setdefault(child, []).append(parent)
    R = {(i, j): 1 / len(parents_of[i]) for j, field in votes.items() for i in field}
    mu, act, var = {}, {}, {}
    for t in range(iterations):
        lam = final_lambda * (1 - 0.95 ** (t + 1))
        for j, field in votes.items():
            r = {i: R[i, j] * a[i] for i in field}
            mass = sum(r.values())
            mu[j] = sum(r[i] * field[i] for i in field) / mass
            var[j] = sum(r[i] * (field[i] - mu[j]) ** 2 for i in field) / mass + epsilon
            cost = (beta_u[j[-1]] + 0.5 * np.log(var[j])) * mass
            act[j] = 1 / (1 + np.exp(-lam * (beta_a[j[-1]] - cost.sum())))
        if t == iterations - 1:
            break
        for i, parents in parents_of.items():
            log_ap = []
            for j in parents:
                d = (votes[j][i] - mu[j]) ** 2 / (2 * var[j]) + 0.5 * np.log(2 * np.pi * var[j])
                log_ap.append(np.log(act[j]) - d.sum())
            p = np.exp(np.array(log_ap) - max(log_ap))
            for j, share in zip(parents, p / p.sum()):
                R[i, j] = share
    return mu, act, R


def margin(scores: Array, target: Array) -> float:
    total = 0.0
    for row, t in zip(scores, target):
        for k, v in enumerate(row):
            total += max(0, 0.9 - v) ** 2 if k == t else 0.5 * max(0, v - 0.1) ** 2
    return total / len(scores)


def spread(scores: Array, target: Array, m: float) -> float:
    total = 0.0
    for row, t in zip(scores, target):
        total += sum(max(0, m - (row[t] - v)) ** 2 for k, v in enumerate(row) if k != t)
    return total / len(scores)
