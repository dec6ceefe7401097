"""Figures of the viewpoints: the toys from several angles, errors by epoch, and errors by angle."""

from __future__ import annotations

from typing import Any

from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.data.worlds.toys.table import azimuth_degrees, elevation_degrees
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    LIGHT,
    ORANGE,
    add_axes,
    image_grid,
    new_figure,
)
from torchcaps.experiments.framework.statistics import EpochErrors, epoch_at_error
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.viewpoints.networks import (
    CNN,
    DENSE,
    EM,
    HEINSEN,
    PAPER,
    POOLED,
    QUATERNION,
    ROWS,
    SELF,
)

# Networks of the paper have thick lines; without capsules orange and gray, with capsules blue and green.
STYLES: dict[str, dict[str, Any]] = {
    CNN: {"color": ORANGE, "linewidth": 2.4},
    POOLED: {"color": ORANGE, "linestyle": "--"},
    DENSE: {"color": GRAY, "linestyle": "--"},
    PAPER: {"color": BLUE, "linewidth": 2.4},
    EM: {"color": BLUE, "linestyle": "--"},
    ROWS: {"color": BLUE, "linestyle": ":"},
    HEINSEN: {"color": DARK, "linestyle": "-."},
    SELF: {"color": GREEN, "linestyle": "--"},
    QUATERNION: {"color": GREEN, "linestyle": "-"},
}


def draw_views(study: Study, categories: tuple[str, ...] = ("animal", "plane", "car")) -> None:
    """Draw a few toys from familiar and from novel angles."""
    from torchcaps.data.worlds.toys import render

    azimuths = [(azimuth, 35) for azimuth in (300, 340, 20, 100, 180, 260)]
    elevations = [(20, elevation) for elevation in (30, 35, 40, 50, 60, 70)]
    for index, (viewpoint, views) in enumerate({"azimuth": azimuths, "elevation": elevations}.items()):
        images = [
            [
                render(toy, 0, azimuth, elevation, 2, eye="left")[0].numpy() / 255
                for azimuth, elevation in views
            ]
            for toy in categories
        ]
        angles = [f"{view[index]}°" for view in views]
        study.add_figure(
            f"{viewpoint}s",
            image_grid(images, rows=categories, columns=angles, colors="gray", cell=0.8),
            caption=f"Test toys by {viewpoint}: the first three columns are familiar views, the last three "
            "are novel views.",
        )


def draw_epochs(
    study: Study, runs: dict[str, dict[str, list[EpochErrors]]], common: dict[str, float]
) -> None:
    """Draw the novel error against the familiar error, epoch by epoch.

    Args:
        study: gets the figure.
        runs: errors after each epoch, by viewpoint and network.
        common: the familiar error at which networks are compared, by viewpoint.
    """
    figure = new_figure(6.4, 8.6)
    for ax, (viewpoint, networks) in zip(add_axes(figure, 2, 1), runs.items()):
        for name, epochs in networks.items():
            points = [errors.familiar for errors in epochs], [errors.novel for errors in epochs]
            ax.plot(*points, marker="o", markersize=3, label=name, **STYLES[name])
            _, *chosen = epoch_at_error(epochs, common[viewpoint])
            color = STYLES[name]["color"]
            ax.plot(*chosen, "o", markersize=10, markerfacecolor="none", markeredgecolor=color)
        ax.axvline(common[viewpoint], color=GRAY, linewidth=0.8, linestyle=":")
        ax.set(
            title=f"novel {viewpoint}s",
            xlabel="error on familiar views (%)",
            ylabel="error on novel views (%)",
        )
        ax.invert_xaxis()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    study.add_figure(
        "epochs",
        figure,
        caption="Errors on validation toys; each point is one epoch, and training goes from left to right. "
        "The dotted line is the familiar error of the paper's CNN at the end. The circles are the models "
        "that are compared: a lower circle is better on novel views.",
    )


def draw_by_view(study: Study, by_view: dict[str, dict[str, dict[int, float]]]) -> None:
    """Draw the error against the angle, with familiar angles shaded."""
    figure = new_figure(6.4, 7.6)
    for ax, (viewpoint, networks) in zip(add_axes(figure, 2, 1), by_view.items()):
        for name, errors in networks.items():
            points = sorted((angle(viewpoint, view), error) for view, error in errors.items())
            ax.plot(*zip(*points), marker="o", markersize=3, label=name, **STYLES[name])
        edges = sorted(angle(viewpoint, view) for view in FAMILIAR[viewpoint])
        ax.axvspan(edges[0], edges[-1], color=LIGHT, alpha=0.6, linewidth=0)
        ax.set(xlabel=f"{viewpoint} (degrees)", ylabel="error (%)")
        ax.set_ylim(bottom=0)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    study.add_figure(
        "by_view",
        figure,
        caption="Error of the models that are compared, by the angle of the test toys; the angles of "
        "training are shaded. Azimuth 0° is the front of a toy, and 180° is its back.",
    )


def angle(viewpoint: str, code: int) -> float:
    """The angle of a view in degrees; azimuths start at −180, so that the familiar ones are contiguous.

    >>> angle("azimuth", 34), angle("elevation", 2)
    (-20.0, 40.0)
    """
    if viewpoint == "elevation":
        return elevation_degrees(code)
    degrees = azimuth_degrees(code)
    return degrees - 360 if degrees >= 180 else degrees
