"""The networks of a comparison: every routing with its options and poses, and the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchcaps._checks import check_choice
from torchcaps.models import list_trunks


class PoseSize(NamedTuple):
    """The numbers in a pose, and how many times the capsule types of the form."""

    dim: int
    factor: int = 1


# Sizes that give all heads about the same number of parameters. A larger pose needs more channels of the
# primary capsules; the weight of a pair of child and class has 8·8 numbers for vectors and 4·4 for matrices.
# A quaternion has 8 features beside its 4 numbers. A similarity has 4 numbers and no features, so there are
# more types.
POSES = {
    "vector": PoseSize(8),
    "matrix": PoseSize(16),
    "similarity": PoseSize(4, factor=3),
    "quaternion": PoseSize(12),
}


@dataclass(frozen=True)
class Head:
    """How a routing takes part.

    Attributes:
        routing: its name in `list_routings()`.
        poses: names of the pose spaces it works with, that of its paper first.
        options: where they differ from the defaults of `capsule_head`.
        source: the paper or essay, and what differs from it.
    """

    routing: str
    poses: tuple[str, ...]
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)


FLAT = ("vector", "matrix", "similarity")
HEADS = {
    "uniform": Head("uniform", FLAT, "no routing"),
    "dynamic": Head("dynamic", FLAT, "Sabour et al. 2017"),
    "em": Head("em", ("matrix", "vector", "similarity"), "Hinton et al. 2018"),
    "em_spherical": Head(
        "em",
        ("matrix", "vector", "similarity", "quaternion"),
        "Hinton et al. 2018, one variance per capsule",
        {"covariance": "spherical"},
    ),
    "em_rows": Head(
        "em",
        ("matrix", "similarity"),
        "Hinton et al. 2018, covariance of matrix rows",
        {"covariance": "rows"},
    ),
    "kmeans": Head("kmeans", FLAT, "Su 2018"),
    "kmeans_euclidean": Head(
        "kmeans", (*FLAT, "quaternion"), "Su 2018, squared distance", {"metric": "euclidean"}
    ),
    "heinsen": Head("heinsen", ("matrix", "vector", "similarity"), "Heinsen 2019"),
    "self_routing": Head("self_routing", (*FLAT, "quaternion"), "Hahn et al. 2019"),
    "inverted_attention": Head("inverted_attention", ("matrix", "vector", "similarity"), "Tsai et al. 2020"),
    "variational": Head("variational", ("matrix", "vector", "similarity"), "Ribeiro et al. 2020"),
    # The squash of its paper, 1 − exp(−|s|), is flat for the long sums of a grid with hundreds of children.
    "self_attention": Head("self_attention", FLAT, "Mazzia et al. 2021", {"squash": "hinton"}),
    "sinkhorn": Head("sinkhorn", (*FLAT, "quaternion"), "clusters of equal size"),
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
        """Whether this is a network without routing."""
        return self.head in BASELINES or self.head == UNIFORM

    def title(self, *, with_trunk: bool = True) -> str:
        """The name in tables.

        >>> Network("em", "matrix", "preact").title()
        'em, matrix, preact'
        >>> Network("pooled", None, "preact").title(with_trunk=False)
        'average pooling'
        """
        name = {"pooled": "average pooling", "dense": "dense layer"}.get(self.head, self.head)
        return ", ".join([name, *([self.pose] if self.pose else []), *([self.trunk] if with_trunk else [])])


def choose_networks(
    routings: Sequence[str], poses: Sequence[str] = (), trunks: Sequence[str] = ("preact",)
) -> list[Network]:
    """The networks of a comparison, baselines first.

    Args:
        routings: names in `HEADS`.
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
        check_choice("pose", name, list(POSES))
    for name in trunks:
        check_choice("trunk", name, list_trunks())
    routed: list[tuple[str, str]] = []
    for name in routings:
        head = HEADS[name]
        routed += [(name, pose) for pose in poses or head.poses[:1] if pose in head.poses]
    if not routed:
        known = "; ".join(f"{name}: {', '.join(HEADS[name].poses)}" for name in routings)
        raise ValueError(f"no routing works with pose {', '.join(poses)}; {known}")
    # Uniform routing with every pose that occurs, so that each routing has a baseline with its own poses. It
    # has no form for quaternions, which cannot be added.
    used = dict.fromkeys(pose for _, pose in routed if pose in HEADS[UNIFORM].poses)
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
        types: capsule types of a head with vectors or matrices.

    Example:
        >>> model_options(Network("pooled", None, "preact"), 16)
        {'name': 'pooled_trunk', 'backbone': 'preact'}
    """
    if network.head in BASELINES:
        return {"name": BASELINES[network.head], "backbone": network.trunk}
    head = HEADS[network.head]
    assert network.pose is not None
    size = POSES[network.pose]
    return {
        "name": "capsule_head",
        "backbone": network.trunk,
        "routing": head.routing,
        "pose": network.pose,
        "pose_dim": size.dim,
        "types": size.factor * types,
        # Weights shared over positions, for vectors too: so all capsule heads read images of any size.
        "class_layer": "grid",
        **head.options,
    }
