"""What a change of viewpoint leaves as it is, by routing and pose space: the table of docs/viewpoint.md.

To add a routing, add a line to `TABLE`. `PYTHONPATH=tests python -m support.viewpoints` measures all lines
and prints the table for the page.
"""

from __future__ import annotations

from typing import Any

import torch

from torchcaps import Capsules, DenseCaps
from torchcaps.layers import CapsuleLayer
from torchcaps.poses import POSE_SPACES, create_pose_space
from torchcaps.testing import assert_viewpoint_equivariant

Options = dict[str, Any]


def em(covariance: str, activation: str) -> Options:
    # A small epsilon, since what is added to every variance does not move with the viewpoint.
    options = {"covariance": covariance, "activation": activation}
    return {"routing": "em", "inverse_temperature": 0.1, "epsilon": 1e-12, **options}


# Pose spaces, with the size of children and parents.
SPACES = {"matrix": (16, 16), "similarity": (4, 4), "quaternion": (4 + 3, 4 + 2)}
COLUMNS = [(name, kind) for name in SPACES for kind in POSE_SPACES[name].viewpoints]

# Options, and one word per column: "yes" if the law holds, "couplings" if only couplings stay, "no", or
# "refused" if the routing cannot cluster such poses.
TABLE: dict[str, tuple[Options, str]] = {
    "`uniform`": ({"routing": "uniform"}, "yes couplings couplings  yes couplings couplings  refused"),
    "`dynamic`": ({"routing": "dynamic"}, "yes no no  yes no no  refused"),
    "`kmeans`, cosine": ({"routing": "kmeans", "metric": "cosine"}, "yes no no  yes no no  refused"),
    "`kmeans`, euclidean": ({"routing": "kmeans", "metric": "euclidean"}, "yes no no  yes couplings no  yes"),
    "`em`, diagonal, MDL (published)": (em("diagonal", "mdl"), "no no no  no no no  refused"),
    "`em`, diagonal, mixing": (em("diagonal", "mixing"), "no no no  no no no  refused"),
    "`em`, spherical, MDL": (em("spherical", "mdl"), "yes no no  yes yes no  yes"),
    "`em`, spherical, mixing": (em("spherical", "mixing"), "yes no no  yes yes yes  yes"),
    "`em`, fixed, MDL": (em("fixed", "mdl"), "yes no no  yes yes no  yes"),
    "`em`, fixed, mixing": (em("fixed", "mixing"), "yes no no  yes yes no  yes"),
    "`em`, full, MDL": (em("full", "mdl"), "yes yes no  yes yes no  refused"),
    "`em`, full, mixing": (em("full", "mixing"), "yes yes yes  yes yes yes  refused"),
    "`em`, rows, MDL": (em("rows", "mdl"), "yes yes no  yes yes no  refused"),
    "`em`, rows, mixing": (em("rows", "mixing"), "yes yes yes  yes yes yes  refused"),
    "`heinsen`": ({"routing": "heinsen"}, "no no no  no no no  refused"),
    "`self_routing`": ({"routing": "self_routing"}, "no no no  no no no  no"),
    "`sinkhorn`": ({"routing": "sinkhorn"}, "yes no no  yes yes no  yes"),
    "`self_attention`": ({"routing": "self_attention"}, "yes no no  yes no no  refused"),
    "`inverted_attention`": ({"routing": "inverted_attention"}, "no no no  no no no  refused"),
    "`variational`, diagonal (published)": ({"routing": "variational"}, "no no no  no no no  refused"),
    "`variational`, full": (
        {"routing": "variational", "covariance": "full"},
        "yes no no  yes no no  refused",
    ),
}


def example(pose: str, options: Options) -> tuple[CapsuleLayer, Capsules]:
    """A layer with such poses, and children whose votes are spread but do not cancel."""
    torch.manual_seed(0)
    in_dim, out_dim = SPACES[pose]
    space = create_pose_space(pose, in_dim, out_dim)
    layer = DenseCaps(40, in_dim, 3, out_dim, pose=space, **options).double()
    for parameter in layer.routing.parameters():  # at 0, learned couplings are even, and so invariant
        torch.nn.init.normal_(parameter)
    children = torch.randn(2, 40, in_dim, dtype=torch.float64) / 2
    if pose == "quaternion":
        children[..., 0] += 1
        children[..., :4] /= children[..., :4].norm(dim=-1, keepdim=True)
        with torch.no_grad():
            layer.weight[..., 0] += 2
    return layer, Capsules(children, torch.rand(2, 40, dtype=torch.float64))


@torch.no_grad()
def verdict(pose: str, kind: str, options: Options, atol: float) -> str:
    """One cell of the table, measured."""
    layer, children = example(pose, options)
    if not layer.routing.supports(layer.space):
        return "refused"
    try:
        assert_viewpoint_equivariant(layer, children, transform=layer.space.random_transform(kind), atol=atol)
    except AssertionError as error:
        return "no" if "couplings" in str(error) else "couplings"
    return "yes"


def markdown(rows: dict[str, list[str]]) -> str:
    """The table, with these words per routing."""
    header = [f"{name}: {kind.replace('_', ' ')}" for name, kind in COLUMNS]
    lines = [
        ["routing", *header],
        ["---"] * (1 + len(header)),
        *([name, *words] for name, words in rows.items()),
    ]
    return "\n".join(
        f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines
    )


if __name__ == "__main__":
    measured = {
        name: [verdict(*column, options, atol=1e-6) for column in COLUMNS]
        for name, (options, _) in TABLE.items()
    }
    print(markdown(measured))
