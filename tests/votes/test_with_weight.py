"""Another weight for the same children: what a routing learns beside the poses."""

import torch

from torchcaps.poses import VectorPose
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

POSE = torch.randn(2, 5, 5, 3, 4, generator=torch.Generator().manual_seed(0))


def every_geometry() -> dict[str, Votes]:
    return {
        "dense": DenseVotes(POSE.flatten(1, 3), torch.randn(75, 2, 4, 4)),
        "shared": SharedVotes(POSE.flatten(1, 3), torch.randn(2, 4, 4)),
        "class": ClassVotes(POSE, torch.randn(3, 2, 4, 4)),
        "conv": ConvVotes(POSE, torch.randn(27, 2, 4, 4), kernel_size=3, stride=2, padding=1),
    }


def test_the_votes_are_those_of_a_new_object_with_that_weight() -> None:
    for name, votes in every_geometry().items():
        votes.tensor()
        weight = torch.randn(*votes.weight.shape[: votes.row_dims], 7, 4, 1)
        other = votes.with_weight(weight, VectorPose(4, 1))
        fresh = {
            "dense": lambda: DenseVotes(POSE.flatten(1, 3), weight),  # noqa: B023
            "shared": lambda: SharedVotes(POSE.flatten(1, 3), weight),  # noqa: B023
            "class": lambda: ClassVotes(POSE, weight, coordinates=False),  # noqa: B023
            "conv": lambda: ConvVotes(POSE, weight, kernel_size=3, stride=2, padding=1),  # noqa: B023
        }[name]()
        assert type(other) is type(votes), name
        torch.testing.assert_close(other.tensor(), fresh.tensor())
        torch.testing.assert_close(other.reduce(lambda values: values.sum(2)), fresh.tensor().sum(2))


def test_the_first_votes_stay_as_they_are() -> None:
    for votes in every_geometry().values():
        before = votes.reduce(torch.clone)
        votes.with_weight(
            torch.zeros(*votes.weight.shape[: votes.row_dims], 1, 4, 2), VectorPose(4, 2)
        ).tensor()
        assert torch.equal(votes.reduce(torch.clone), before)
        assert votes.tensor().shape == before.shape
