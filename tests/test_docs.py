"""The pages in docs/ agree with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, DenseCaps, list_pose_spaces, list_routings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "torchcaps"
DESIGN = ROOT / "docs" / "design.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])


def section(heading: str) -> str:
    """The text of one section of the design page."""
    _, _, rest = DESIGN.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    assert rest, f"docs/design.md has no section {heading!r}"
    return re.split(r"\n#{1,3} ", rest)[0]


def first_column(heading: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", section(heading), flags=re.MULTILINE))


def test_design_lists_every_package_and_module() -> None:
    public = [path for path in PACKAGE.iterdir() if not path.name.startswith(("_", "."))]
    folders = {f"{path.name}/" for path in public if path.is_dir() and any(path.iterdir())}
    modules = {path.name for path in public if path.suffix == ".py"}
    assert first_column("## Packages") == folders | modules


def test_design_lists_every_environment_variable() -> None:
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r"TORCHCAPS_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8")))
    assert used
    assert used <= first_column("## Environment variables")


def test_design_lists_every_pose_space_and_routing() -> None:
    assert first_column("### Pose spaces") == set(list_pose_spaces())
    assert first_column("### Routing") == set(list_routings())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_are_valid(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def em(covariance: str, activation: str = "mixing") -> dict[str, Any]:
    # A small epsilon, since what is added to every variance is not multiplied by the viewpoint.
    options = {"covariance": covariance, "activation": activation}
    return {"routing": "em", "inverse_temperature": 0.1, "epsilon": 1e-12, **options}


# Options, and what stays under a rotation and under any invertible matrix.
VIEWPOINTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "uniform": ({"routing": "uniform"}, "all", "couplings"),
    "dynamic": ({"routing": "dynamic"}, "all", "none"),
    "kmeans-cosine": ({"routing": "kmeans"}, "all", "none"),
    "kmeans-euclidean": ({"routing": "kmeans", "metric": "euclidean"}, "all", "none"),
    "em-spherical": (em("spherical"), "all", "none"),
    "em-spherical-mdl": (em("spherical", "mdl"), "all", "none"),
    "em-fixed": (em("fixed"), "all", "none"),
    "em-full": (em("full"), "all", "all"),
    "em-full-mdl": (em("full", "mdl"), "all", "none"),
    "em-diagonal": (em("diagonal"), "none", "none"),
    "em-diagonal-mdl": (em("diagonal", "mdl"), "none", "none"),
    "heinsen": ({"routing": "heinsen"}, "none", "none"),
    "self_routing": ({"routing": "self_routing"}, "none", "none"),
    "inverted-attention": ({"routing": "inverted_attention"}, "none", "none"),
    "sinkhorn": ({"routing": "sinkhorn"}, "all", "none"),
    "variational": ({"routing": "variational"}, "none", "none"),
    "variational-full": ({"routing": "variational", "covariance": "full"}, "all", "none"),
}


@pytest.mark.parametrize("name", VIEWPOINTS)
def test_viewpoint_table_of_the_design(name: str) -> None:
    options, under_rotation, under_any = VIEWPOINTS[name]
    layer = DenseCaps(40, 16, 3, 16, pose="matrix", **options).double()
    for parameter in layer.routing.parameters():  # at 0, learned couplings are even, and so invariant
        torch.nn.init.normal_(parameter)
    children = Capsules(torch.randn(2, 40, 16).double() / 2, torch.rand(2, 40).double())
    rotation = torch.linalg.qr(torch.randn(4, 4).double())[0]
    assert preserved(layer, children, rotation) == under_rotation
    assert preserved(layer, children, torch.eye(4).double() + torch.randn(4, 4).double() / 2) == under_any


@torch.no_grad()
def preserved(layer: DenseCaps, children: Capsules, viewpoint: Tensor) -> str:
    def moved(pose: Tensor) -> Tensor:
        return (viewpoint @ pose.unflatten(-1, (4, 4))).flatten(-2)

    def close(first: Tensor | None, second: Tensor | None) -> bool:
        assert first is not None
        assert second is not None
        return torch.allclose(first, second, rtol=0, atol=1e-7)

    before = layer(children, coupling=True)
    after = layer(Capsules(moved(children.pose), children.activation), coupling=True)
    if not close(after.coupling, before.coupling):
        return "none"
    rest = close(after.activation, before.activation) and close(after.pose, moved(before.pose))
    return "all" if rest else "couplings"
