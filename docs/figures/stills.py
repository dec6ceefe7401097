"""The still figures of docs/concepts.md: `python docs/figures/stills.py` writes them beside this file.

What the page says of a figure is checked here; if it is not so, the figure is not written.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

import torchcaps
from torchcaps import Capsules, ConvCaps
from torchcaps.data.worlds.flat import SceneOptions, pose_numbers
from torchcaps.data.worlds.shapes import draw_scenes
from torchcaps.models import pretrained_path
from torchcaps.models.weights import load_weights
from torchcaps.parsing import Names
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.votes import DenseVotes, SharedVotes

HERE = Path(__file__).parent
ORANGE, BLUE, GRAY = "#d55e00", "#0072b2", "#6b7680"


def draw_square(ax: Axes, x: float, y: float, angle: float, scale: float, color: str) -> None:
    """The unit square of a pose in pixels, with a line from its middle to its upper side."""
    turn = math.radians(angle)
    right, up = (math.cos(turn), -math.sin(turn)), (-math.sin(turn), -math.cos(turn))
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]
    line = [[x + scale * (a * right[k] + b * up[k]) for a, b in corners] for k in range(2)]
    line[1] = [value - x + y for value in line[1]]
    ax.plot(*line, color=color, lw=1.4)
    ax.plot([x, x + scale * up[0]], [y, y + scale * up[1]], color=color, lw=1.4)


def graphics_figure() -> None:
    """A scene as poses, as pixels, and as the poses that a network reads from the pixels."""
    size = 96
    options = SceneOptions(size=size, angle=(20, 20), scale=(1, 1), offset=(0, 0))
    scene = draw_scenes("groups", 1, start=8, options=options)
    there = scene.part_mask[0]
    wholes = scene.part_whole[0, there]
    x, y, angle, scale = pose_numbers(scene.part_pose)[0, there].unbind(-1)
    # From coordinates in -1..1 with y up to pixels with y down.
    true = torch.stack([(x + 1) * size / 2, (1 - y) * size / 2, torch.rad2deg(angle), scale * size / 2], -1)
    model, card = load_weights(pretrained_path("parts_capsnet", "shapes"))
    with torch.no_grad():
        (tree,) = torchcaps.parse(model.eval(), scene.images / 255, names=Names.of_card(card))
    found = [node for node in tree.nodes() if node.level == "part"]
    read = torch.tensor([[node.reading[key] for key in ("x", "y", "angle", "scale")] for node in found])
    nearest = torch.cdist(true[:, :2].float(), read[:, :2]).min(1)
    assert len(found) == len(true) == len(set(nearest.indices.tolist()))
    turned = (read[nearest.indices, 2] - true[:, 2] + 180) % 360 - 180
    print(f"places within {nearest.values.max():.1f} px, angles within {turned.abs().max():.0f}°")
    assert nearest.values.max() < 2
    assert turned.abs().max() < 6
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.7), layout="constrained")
    colors = (BLUE, ORANGE)
    for pose, whole in zip(true.tolist(), wholes.tolist()):
        draw_square(axes[0], *pose, colors[whole])
    axes[1].imshow(scene.images[0, 0], cmap="gray", extent=(0, size, size, 0))
    for node, whole in zip(nearest.indices, wholes.tolist()):
        draw_square(axes[2], *read[node].tolist(), colors[whole])
    titles = ("poses of the scene", "pixels", "poses that the network reads")
    for ax, title in zip(axes, titles):
        ax.set(xlim=(0, size), ylim=(size, 0), xticks=[], yticks=[], aspect="equal", title=title)
    for ax, text in zip(axes[:2], ("graphics →", "inverse graphics →")):
        ax.set_xlabel(text, loc="right")
    figure.savefig(HERE / "graphics.png", dpi=100)


def frame(ax: Axes, pose: Tensor) -> None:
    """A similarity as two arrows at its place."""
    a, b, x, y = pose.tolist()
    for dx, dy, color in ((a, b, ORANGE), (-b, a, BLUE)):
        ax.annotate("", (x + dx, y + dy), (x, y), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2})
    ax.plot(0, 0, "+", color=GRAY)
    ax.set(xlim=(-1.3, 2.3), ylim=(-1.0, 2.6), aspect="equal")


def rotation(quaternion: Tensor) -> Tensor:
    """The 3×3 matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion.tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def axes_in_space(ax: Axes, quaternion: Tensor) -> None:
    """A rotation as the three axes that it turns, seen from the front and a little from above."""
    view = torch.tensor([[0.87, -0.5, 0.0], [0.25, 0.43, 0.87]])
    for column, color in zip((view @ rotation(quaternion)).T.tolist(), (ORANGE, BLUE, GRAY)):
        ax.annotate("", tuple(column), (0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2})
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")


def numbers(ax: Axes, values: Tensor) -> None:
    """A matrix as squares: orange is positive, violet is negative."""
    ax.imshow(values, cmap="PuOr_r", vmin=-1.5, vmax=1.5)
    ax.set(aspect="equal")


def poses_figure() -> None:
    """Pose, weight and vote in each of the four spaces; the votes are computed by the library."""
    torch.manual_seed(4)
    half = math.radians(50) / 2
    spaces = {
        "vector": (torch.randn(4), torch.randn(4, 3), lambda ax, v: numbers(ax, v.reshape(len(v), -1))),
        "matrix": (torch.randn(16) / 2, torch.randn(4, 4) / 2, lambda ax, v: numbers(ax, v.reshape(4, 4))),
        "similarity": (torch.tensor([0.7, 0.7, 0.5, 0.3]), torch.tensor([0.6, -0.3, 1.0, 0.6]), frame),
        "quaternion": (
            torch.tensor([math.cos(half), 0, 0, math.sin(half)]),
            torch.tensor([math.cos(half), math.sin(half), 0, 0]),
            axes_in_space,
        ),
    }
    figure, grid = plt.subplots(3, 4, figsize=(8, 5.6), layout="constrained")
    for column, (name, (pose, weight, draw)) in enumerate(spaces.items()):
        vote = DenseVotes(pose[None, None], weight[None, None], name).tensor()[0, 0, 0, 0]
        for row, value in enumerate((pose, weight, vote)):
            draw(grid[row, column], value)
            grid[row, column].set(xticks=[], yticks=[])
        grid[0, column].set_title(name)
        if name == "quaternion":
            torch.testing.assert_close(rotation(vote), rotation(pose) @ rotation(weight), atol=1e-5, rtol=0)
    for ax, text in zip(grid[:, 0], ("pose of the child", "weight", "vote")):
        ax.set_ylabel(text)
    figure.savefig(HERE / "poses.png", dpi=100)


def agreement_figure() -> None:
    """What the first parent of each routing agrees with: a direction, or a place."""
    torch.manual_seed(1)
    near = torch.tensor([1.0, 0.3]) + 0.12 * torch.randn(5, 2)
    away = torch.tensor([-0.2, 1.2]) + 0.12 * torch.randn(4, 2)
    long = torch.tensor([[2.4, 0.75]])
    points = torch.cat([near, away, long])
    votes = SharedVotes(points[None], torch.eye(2).expand(2, 2, 2))
    start = torch.full((1, 1, 10, 2), 0.5)
    start[..., :5, 0], start[..., :5, 1] = 0.7, 0.3
    start[..., 5:9, 0], start[..., 5:9, 1] = 0.3, 0.7
    side = torch.linspace(-1, 3, 160)
    place = torch.stack(torch.meshgrid(side, side - 1.0, indexing="xy"), -1)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    shown = {}
    for ax, name, routing in zip(
        axes,
        ("dynamic: the dot product with the parent", "EM: the density of the parent"),
        (
            DynamicRouting(iterations=3),
            EMRouting(2, iterations=3, covariance="spherical", activation="mixing"),
        ),
    ):
        routed = routing(votes, torch.ones(1, 10), start, coupling=True)
        pose, coupling = routed.pose[0, 0, 0], routed.coupling[0, 0, :, 0]
        if name.startswith("dynamic"):
            field = place @ pose
        else:
            variance = (coupling * (points - pose).square().sum(-1)).sum() / (2 * coupling.sum())
            field = torch.exp(-(place - pose).square().sum(-1) / (2 * variance))
        ax.contourf(side, side - 1.0, field, levels=12, cmap="Greys", alpha=0.6)
        ax.scatter(*points.T, c=coupling, cmap="coolwarm", vmin=0, vmax=1, s=50, edgecolor="white", zorder=3)
        ax.plot(*pose, "X", color="#7f0000", ms=13, mec="white", zorder=4)
        ax.plot(0, 0, "+", color=GRAY, ms=10)
        ax.set(title=name, xticks=[], yticks=[], aspect="equal", xlim=(-1, 3), ylim=(-0.9, 2.0))
        at = (
            points @ pose
            if name.startswith("dynamic")
            else torch.exp(-(points - pose).square().sum(-1) / (2 * variance))
        )
        shown[name[:2]] = at
    # The long vote agrees best of all by its dot product, and less than each of the five by its density.
    assert shown["dy"][9] > shown["dy"][:9].max()
    assert shown["EM"][9] < shown["EM"][:5].min()
    figure.savefig(HERE / "agreement.png", dpi=100)


def competition_figure() -> None:
    """The shares of one child in the nine fields that contain it."""
    torch.manual_seed(0)
    layer = ConvCaps(2, 3, kernel_size=3, in_dim=4, pose="similarity", routing="em")
    grid = Capsules(torch.randn(1, 5, 5, 2, 4), torch.ones(1, 5, 5, 2))
    with torch.no_grad():
        coupling = layer(grid, coupling=True).coupling[0]
    shares = torch.empty(3, 3)
    for row in range(3):
        for column in range(3):
            child = ((2 - row) * 3 + 2 - column) * 2  # the child in the middle, in the field of this position
            shares[row, column] = coupling[row, column, child].sum()
    torch.testing.assert_close(shares.sum(), torch.tensor(1.0), atol=1e-4, rtol=0)
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 4.3), layout="constrained")
    for ax, values, title in (
        (axes[0], torch.ones(3, 3), "each position alone"),
        (axes[1], shares, "all positions compete"),
    ):
        ax.imshow(values, cmap="Blues", vmin=0, vmax=1.2)
        for row in range(3):
            for column in range(3):
                color = "white" if values[row, column] > 0.7 else "black"
                ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", color=color)
        ax.set(title=f"{title}: {float(values.sum()):.0f} in all", xticks=[], yticks=[])
    figure.savefig(HERE / "competition.png", dpi=100)


if __name__ == "__main__":
    graphics_figure()
    poses_figure()
    agreement_figure()
    competition_figure()
