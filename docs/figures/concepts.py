"""The two figures of docs/concepts.md: `python docs/figures/concepts.py` writes them beside this file."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from torchcaps.routing import EMRouting
from torchcaps.votes import DenseVotes, SharedVotes

COLORS = ("#d55e00", "#0072b2")
HERE = Path(__file__).parent


def similarity(angle: float, scale: float, x: float, y: float) -> Tensor:
    """A pose (a, b, x, y): turned by `angle` degrees, `scale` large, at (x, y)."""
    turn = math.radians(angle)
    return torch.tensor([scale * math.cos(turn), scale * math.sin(turn), x, y])


def matrix(pose: Tensor) -> Tensor:
    """The 3×3 matrix of a pose."""
    a, b, x, y = pose.tolist()
    return torch.tensor([[a, -b, x], [b, a, y], [0.0, 0.0, 1.0]])


def pose_of(frame: Tensor) -> Tensor:
    """The pose of a 3×3 matrix."""
    return torch.stack([frame[0, 0], frame[1, 0], frame[0, 2], frame[1, 2]])


WHOLES = [similarity(0, 1, -2.2, 0), similarity(0, 1, 2.2, 0)]
# Where each part stands in its whole: three parts of the first, three of the second.
PARTS = [
    similarity(45, 0.7, 0, 1.1), similarity(0, 0.9, 0, -0.5), similarity(0, 0.35, 0.9, 0.6),
    similarity(0, 1.0, 0, -0.9), similarity(90, 0.8, 0.35, 0.6), similarity(20, 0.35, -0.9, 0.2),
]  # fmt: skip


def scene() -> tuple[Tensor, Tensor]:
    """Poses of all parts `[6, 4]`, and the weights `[6, 2, 4]` from each part to each whole."""
    torch.manual_seed(3)
    poses, weights = [], []
    for number, part in enumerate(PARTS):
        own = number // 3
        poses.append(pose_of(matrix(WHOLES[own]) @ matrix(part)))
        role = pose_of(torch.linalg.inv(matrix(part)))
        wrong = similarity(float(torch.rand(()) * 360), 1.5, *(2.5 * torch.randn(2)).tolist())
        weights.append(torch.stack([role, wrong] if own == 0 else [wrong, role]))
    return torch.stack(poses), torch.stack(weights)


def draw_scene(ax: Axes, poses: Tensor, weights: Tensor) -> Tensor:
    """Parts as squares, and a line from each to the place that it votes for, as wide as the coupling."""
    votes = DenseVotes(poses[None], weights, "similarity")
    routing = EMRouting(2, iterations=4, covariance="fixed", activation="mixing", sigma=0.5)
    coupling = routing.history(votes, torch.ones(1, len(poses)))[-1].coupling[0, 0]
    places = votes.tensor()[0, 0, :, :, 2:]
    corners = torch.tensor([[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1], [-1, -1, 1]]) * 0.5
    corners[:, 2] = 1
    for child, pose in enumerate(poses):
        outline = (matrix(pose) @ corners.T)[:2]
        best = int(coupling[child].argmax())
        ax.fill(*outline, color=COLORS[best], alpha=0.25, lw=0)
        ax.plot(*outline, color=COLORS[best], lw=1)
        for parent in range(2):
            x, y = places[child, parent]
            share = float(coupling[child, parent])
            style = "-" if share > 0.5 else ":"
            ax.plot([pose[2], x], [pose[3], y], style, color=COLORS[parent], lw=0.8 + 2 * share, alpha=0.8)
            ax.plot(x, y, "o", color=COLORS[parent], ms=5)
    ax.set(xlim=(-4.4, 4.4), ylim=(-3.3, 3.3), aspect="equal")
    ax.axis("off")
    return coupling


def votes_figure() -> None:
    """One scene upright and turned: all votes turn with it, and the couplings stay."""
    poses, weights = scene()
    turn = matrix(similarity(40, 1, 0, 0))
    turned = torch.stack([pose_of(turn @ matrix(pose)) for pose in poses])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    first = draw_scene(axes[0], poses, weights)
    second = draw_scene(axes[1], turned, weights)
    torch.testing.assert_close(first, second, atol=1e-4, rtol=0)
    assert (first.argmax(1) == torch.tensor([0, 0, 0, 1, 1, 1])).all()
    print("couplings with the own whole:", first.amax(1).tolist())
    figure.savefig(HERE / "votes.png", dpi=110)


def clustering_figure() -> None:
    """EM routing of votes in the plane, where all children vote alike for both parents."""
    torch.manual_seed(0)
    centers = torch.tensor([[-1.2, 0.0], [1.2, 0.4]])
    points = torch.cat([centers[k] + 0.45 * torch.randn(30, 2) for k in range(2)])
    votes = SharedVotes(points[None], torch.eye(2).expand(2, 2, 2))
    start = torch.rand(1, 1, 60, 1)
    routing = EMRouting(2, iterations=20, activation="mixing")
    history = routing.history(votes, torch.ones(1, 60), torch.cat([start, 1 - start], -1))
    figure, axes = plt.subplots(1, 4, figsize=(9, 1.8), sharex=True, sharey=True, layout="constrained")
    for ax, iteration in zip(axes, (1, 8, 13, 20)):
        routed = history[iteration - 1]
        ax.scatter(*points.T, c=routed.coupling[0, 0, :, 0], cmap="coolwarm", vmin=0, vmax=1, s=14)
        ax.scatter(*routed.pose[0, 0].T, marker="X", s=110, c=["#7f0000", "#00007f"], edgecolor="white")
        ax.set(title=f"iteration {iteration}", xticks=[], yticks=[], aspect="equal")
    for center, mean in zip(centers, history[-1].pose[0, 0].flip(0)):
        print("center", center.tolist(), "parents", mean.tolist())
    figure.savefig(HERE / "clustering.png", dpi=110)


if __name__ == "__main__":
    votes_figure()
    clustering_figure()
