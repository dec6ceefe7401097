"""The figures of docs/concepts.md that move: `python docs/figures/concepts.py` writes them beside this file.

Each is an animation, and a still for readers who asked their system for less motion. stills.py has others.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
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
    ax.set(xlim=(-4.6, 4.6), ylim=(-4.6, 4.6), aspect="equal")
    ax.axis("off")
    return coupling


def picture(figure: Figure, dpi: int) -> Image.Image:
    """A figure as a frame of an animation."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    plt.close(figure)
    return Image.open(buffer).convert("RGB")


def save_frames(frames: list[Image.Image], name: str, durations: list[int]) -> None:
    """Write an animation that repeats."""
    path = HERE / name
    options = {"save_all": True, "append_images": frames[1:], "duration": durations, "loop": 0}
    frames[0].save(path, quality=70, method=4, **options)
    print(name, path.stat().st_size // 1024, "kB")
    assert path.stat().st_size < 300_000


def votes_figure() -> None:
    """A scene that turns: all votes turn with it, and the couplings stay."""
    poses, weights = scene()
    frames, first = [], None
    for angle in range(0, 360, 12):
        turn = matrix(similarity(angle, 1, 0, 0))
        turned = torch.stack([pose_of(turn @ matrix(pose)) for pose in poses])
        figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
        coupling = draw_scene(ax, turned, weights)
        first = coupling if first is None else first
        torch.testing.assert_close(first, coupling, atol=1e-4, rtol=0)
        frames.append(picture(figure, 80))
    assert first is not None
    assert (first.argmax(1) == torch.tensor([0, 0, 0, 1, 1, 1])).all()
    assert first.amax(1).min() > 0.9
    frames[0].save(HERE / "votes.png", optimize=True)
    save_frames(frames, "votes.webp", [120] * len(frames))


def clustering_figure() -> None:
    """EM routing of votes in the plane, where all children vote alike for both parents."""
    torch.manual_seed(0)
    centers = torch.tensor([[-1.2, 0.0], [1.2, 0.4]])
    points = torch.cat([centers[k] + 0.45 * torch.randn(30, 2) for k in range(2)])
    votes = SharedVotes(points[None], torch.eye(2).expand(2, 2, 2))
    start = torch.rand(1, 1, 60, 1)
    routing = EMRouting(2, iterations=20, activation="mixing")
    history = routing.history(votes, torch.ones(1, 60), torch.cat([start, 1 - start], -1))

    def draw(ax: Axes, iteration: int) -> None:
        routed = history[iteration - 1]
        ax.scatter(*points.T, c=routed.coupling[0, 0, :, 0], cmap="coolwarm", vmin=0, vmax=1, s=24)
        ax.scatter(*routed.pose[0, 0].T, marker="X", s=150, c=["#7f0000", "#00007f"], edgecolor="white")
        ax.set(title=f"iteration {iteration}", xticks=[], yticks=[], aspect="equal")

    assert (history[0].pose[0, 0] - points.mean(0)).norm(dim=-1).max() < 0.3  # both start in the middle
    for group, mean in zip((points[:30], points[30:]), history[-1].pose[0, 0].flip(0)):
        assert (group.mean(0) - mean).norm() < 0.1
    frames = []
    for iteration in range(1, 21):
        figure, ax = plt.subplots(figsize=(5.4, 3), layout="constrained")
        draw(ax, iteration)
        frames.append(picture(figure, 90))
    save_frames(frames, "clustering.webp", [900] + [300] * 18 + [2500])
    figure, axes = plt.subplots(1, 4, figsize=(9, 1.8), sharex=True, sharey=True, layout="constrained")
    for ax, iteration in zip(axes, (1, 8, 13, 20)):
        draw(ax, iteration)
    figure.savefig(HERE / "clustering.png", dpi=100)


if __name__ == "__main__":
    votes_figure()
    clustering_figure()
