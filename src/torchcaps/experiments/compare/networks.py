"""The networks of a comparison: every routing with its options and poses, and the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchcaps._checks import check_choice
from torchcaps.models import list_trunks

# Numbers in a pose. Vectors of 8 and 4×4 matrices give heads with about the same number of parameters: a vector
# needs 8·8 for each pair of child and class but 8 channels of the trunk, a matrix 4·4 and 16 channels.
POSE_DIMS = {"vector": 8, "matrix": 16}


@dataclass(frozen=True)
class Head:
    """How a routing takes part.

    Attributes:
        routing: its name in `list_routings()`.
        poses: names of the pose spaces it works with, that of its paper first.
        options: where they differ from the defaults of `capsule_head`.
        source: the paper.
    """

    routing: str
    poses: tuple[str, ...]
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)


HEADS = {
    "uniform": Head("uniform", ("vector", "matrix"), "no routing"),
    "dynamic": Head("dynamic", ("vector", "matrix"), "Sabour et al. 2017"),
    "em": Head("em", ("matrix", "vector"), "Hinton et al. 2018"),
    "kmeans": Head("kmeans", ("vector", "matrix"), "Su 2018"),
    "heinsen": Head("heinsen", ("matrix", "vector"), "Heinsen 2019"),
    "self_routing": Head("self_routing", ("vector", "matrix"), "Hahn et al. 2019"),
    "inverted_attention": Head("inverted_attention", ("matrix", "vector"), "Tsai et al. 2020"),
    # The squash of its paper, 1 − exp(−|s|), is flat for the long sums of a grid with hundreds of children.
    "self_attention": Head(
        "self_attention", ("vector", "matrix"), "Mazzia et al. 2021", {"squash": "hinton"}
    ),
}
# Same trunk without capsules: name of each baseline, and its model.
BASELINES = {"pooled": "pooled_trunk", "dense": "dense_trunk"}
UNIFORM = "uniform"


class Network(NamedTuple):
    """A trunk and what is on top of it.

    Attributes:
        head: one of `HEADS` or `BASELINES`.
        pose: pose space; `None` without capsules.
        trunk: one of `list_trunks()`.
    """

    head: str
    pose: str | None
    trunk: str

    @property
    def is_baseline(self) -> bool:
        """Whether this is a network without routing by agreement."""
        return self.head in BASELINES or self.head == UNIFORM

    def title(self, *, with_trunk: bool = True) -> str:
        """The name in tables.

        >>> Network("em", "matrix", "preact").title(), Network("pooled", None, "preact").title(with_trunk=False)
        ('em, matrix, preact', 'average pooling')
        """
        name = {"pooled": "average pooling", "dense": "dense layer"}.get(self.head, self.head)
        return ", ".join([name, *([self.pose] if self.pose else []), *([self.trunk] if with_trunk else [])])


def choose_networks(
    routings: Sequence[str] = (), poses: Sequence[str] = (), trunks: Sequence[str] = ("preact",)
) -> list[Network]:
    """The networks of a comparison, baselines first.

    Args:
        routings: names in `HEADS`; by default all.
        poses: names of pose spaces; by default the pose of each routing's paper. A routing is left out for a
            pose that it does not work with.
        trunks: names of trunks.

    Raises:
        ValueError: a name is unknown, or no routing works with any of the poses.

    Example:
        >>> [network.title(with_trunk=False) for network in choose_networks(["em"])]
        ['average pooling', 'dense layer', 'uniform, matrix', 'em, matrix']
    """
    for name in routings:
        check_choice("routing", name, list(HEADS))
    for name in poses:
        check_choice("pose", name, list(POSE_DIMS))
    for name in trunks:
        check_choice("trunk", name, list_trunks())
    routed: list[tuple[str, str]] = []
    for name in routings or HEADS:
        head = HEADS[name]
        routed += [(name, pose) for pose in poses or head.poses[:1] if pose in head.poses]
    if not routed:
        known = "; ".join(f"{name}: {', '.join(HEADS[name].poses)}" for name in routings)
        raise ValueError(f"no routing works with pose {', '.join(poses)}; {known}")
    # Uniform routing with every pose that occurs, so that each routing has a baseline with its own poses.
    used = list(dict.fromkeys(pose for _, pose in routed))
    heads = [(UNIFORM, pose) for pose in used] + [pair for pair in routed if pair[0] != UNIFORM]
    return [
        Network(head, pose, trunk)
        for trunk in dict.fromkeys(trunks)
        for head, pose in [*((name, None) for name in BASELINES), *dict.fromkeys(heads)]
    ]


def model_options(network: Network, types: int) -> dict[str, Any]:
    """Name and options of `create_model` for a network, apart from the sizes of images.

    Args:
        network: the network.
        types: capsule types of a capsule head.

    Example:
        >>> model_options(Network("pooled", None, "preact"), 16)
        {'name': 'pooled_trunk', 'backbone': 'preact'}
    """
    if network.head in BASELINES:
        return {"name": BASELINES[network.head], "backbone": network.trunk}
    head = HEADS[network.head]
    assert network.pose is not None
    return {
        "name": "capsule_head",
        "backbone": network.trunk,
        "routing": head.routing,
        "pose": network.pose,
        "pose_dim": POSE_DIMS[network.pose],
        "types": types,
        # Weights shared over positions, for vectors too: so all capsule heads read images of any size.
        "class_layer": "grid",
        **head.options,
    }
