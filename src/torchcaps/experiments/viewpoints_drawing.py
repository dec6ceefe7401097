"""Pictures of the viewpoint experiment: the toys from all sides, the course of learning, error by angle."""

from __future__ import annotations

from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.data.worlds.toys.table import azimuth_degrees, elevation_degrees
from torchcaps.experiments.workbench.drawing import FAINT, QUIET, axes_of, image_grid, new_figure
from torchcaps.experiments.workbench.matching import Moment, at_level
from torchcaps.experiments.workbench.study import Study


def draw_views(study: Study, categories: tuple[str, ...] = ("animal", "plane", "car")) -> None:
    """A few toys from familiar sides and from novel ones."""
    from torchcaps.data.worlds.toys import render

    around = [(azimuth, 35) for azimuth in (300, 340, 20, 100, 180, 260)]
    above = [(20, elevation) for elevation in (30, 35, 40, 50, 60, 70)]
    for place, (viewpoint, views) in enumerate({"azimuth": around, "elevation": above}.items()):
        drawn = [
            [
                render(toy, 0, azimuth, elevation, 2, eye="left")[0].numpy() / 255
                for azimuth, elevation in views
            ]
            for toy in categories
        ]
        study.figure(
            f"{viewpoint}s",
            image_grid(
                drawn,
                rows=categories,
                columns=[f"{view[place]}°" for view in views],
                colors="gray",
                cell=0.8,
            ),
            caption=f"Test toys by {viewpoint}: the first three columns are among the familiar views, the "
            "last three among the novel ones.",
        )


def draw_courses(
    study: Study,
    courses: dict[str, dict[str, list[Moment]]],
    levels: dict[str, float],
    colors: dict[str, str],
) -> None:
    """Novel error against familiar error, epoch by epoch, marked where networks are equally good."""
    figure = new_figure(5.6, 7.6)
    for axis, (viewpoint, found) in zip(axes_of(figure, 2, 1), courses.items()):
        level = levels[viewpoint]
        for name, moments in found.items():
            color = colors[name]
            places = [moment.familiar for moment in moments], [moment.novel for moment in moments]
            axis.plot(*places, marker="o", markersize=4, color=color, label=name)
            chosen = at_level(moments, level)
            axis.plot(
                chosen.familiar,
                chosen.novel,
                "o",
                markersize=11,
                markerfacecolor="none",
                markeredgecolor=color,
            )
        axis.axvline(level, color=QUIET, linewidth=0.8, linestyle=":")
        axis.set(
            title=f"novel {viewpoint}s",
            xlabel="error on familiar views (%)",
            ylabel="error on novel views (%)",
        )
        axis.invert_xaxis()
    axis.legend(fontsize=8, loc="upper right", frameon=False)
    study.figure(
        "courses",
        figure,
        caption="Every dot is an epoch; learning goes to the right. At the dotted line the networks are "
        "equally good on familiar views, and the circles are the models compared: the lower one knows more "
        "of the views it has never seen.",
    )


def draw_by_view(
    study: Study, by_view: dict[str, dict[str, dict[int, float]]], colors: dict[str, str]
) -> None:
    """Error against the angle of view, familiar angles shaded."""
    figure = new_figure(5.6, 6.6)
    for axis, (viewpoint, found) in zip(axes_of(figure, 2, 1), by_view.items()):
        for name, errors in found.items():
            points = sorted((angle(viewpoint, view), error) for view, error in errors.items())
            axis.plot(*zip(*points), marker="o", markersize=4, color=colors[name], label=name)
        edges = sorted(angle(viewpoint, view) for view in FAMILIAR[viewpoint])
        axis.axvspan(edges[0], edges[-1], color=FAINT, alpha=0.6, linewidth=0)
        axis.set(xlabel=f"{viewpoint} (degrees)", ylabel="error (%)")
        axis.set_ylim(bottom=0)
    figure.axes[0].legend(fontsize=8, loc="best", frameon=False)
    study.figure(
        "by_view",
        figure,
        caption="Error of the models compared, by the angle from which test toys are seen; angles of "
        "training shaded. An azimuth of 0° looks the toy in the face, 180° is its back.",
    )


def angle(viewpoint: str, code: int) -> float:
    """Degrees of a view; azimuths from −180 so that the familiar ones lie together.

    >>> angle("azimuth", 34), angle("elevation", 2)
    (-20.0, 40.0)
    """
    if viewpoint == "elevation":
        return elevation_degrees(code)
    degrees = azimuth_degrees(code)
    return degrees - 360 if degrees >= 180 else degrees
