"""How digits are changed, what networks then see of them, and how lawfully that follows the change."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.data.datasets.affine_mnist import transform
from torchcaps.data.imageset import ImageSet
from torchcaps.data.transforms import center_crop
from torchcaps.experiments.framework.study import Study
from torchcaps.models import CapsuleModel, Model
from torchcaps.models.shared_capsnet import PooledCNN
from torchcaps.training import evaluate, predict

# What is changed, and how far: no further than the shifts that all networks were trained with; no network
# was trained with rotations or scales. Scale is measured as a logarithm, so that both ways are alike.
CHANGES = {"across": 2.0, "down": 2.0, "rotation": math.radians(20), "scale": math.log(1.2)}
DRAWS = 4


class Seen(NamedTuple):
    """What a network makes of images: the score `[N]` of the true class, and its features `[N, D]`."""

    score: Tensor
    features: Tensor


def changed(images: Tensor, values: Tensor) -> Tensor:
    """Images uint8 `[N, 1, H, W]` moved, turned and scaled about their middle as `values` `[N, 4]` say.

    Returns float images in 0..1 of the same size.
    """
    across, down, rotation, scale = values.unbind(1)
    size = scale.exp()
    moves = torch.stack([rotation, torch.zeros_like(rotation), size, size, across, down], dim=1)
    return center_crop(transform(images, moves), images.shape[-1]).float() / 255


def seen(model: Model | None, images: Tensor, labels: Tensor) -> Seen:
    """The score of the true class, and its pose; for a CNN its pooled features, for `None` the pixels."""
    place = torch.arange(len(labels))
    if model is None:
        return Seen(torch.ones(len(images)), images.flatten(1))
    output = predict(model, images)
    if isinstance(model, CapsuleModel):
        assert output.capsules is not None
        return Seen(output.scores[place, labels], output.capsules.pose[place, labels])
    assert isinstance(model, PooledCNN)
    with torch.no_grad():
        pooled = torch.cat([model.features(part).mean((2, 3)) for part in images.split(256)])
    return Seen(output.scores[place, labels], pooled)


def size_of(model: Model) -> int:
    """How many numbers `seen` gives for an image."""
    some = torch.zeros(1, model.in_channels, *model.image_size)
    return seen(model, some, torch.zeros(1, dtype=torch.int64)).features.shape[1]


def differences(before: Seen, after: Seen) -> tuple[float, float]:
    """Mean change of the score, and of the features as a share of their length, in percent."""
    score = (after.score - before.score).abs() / before.score.clamp(min=1e-12)
    moved = (after.features - before.features).norm(dim=1) / before.features.norm(dim=1).clamp(min=1e-12)
    return 100 * float(score.mean()), 100 * float(moved.mean())


def change_curves(model: Model, test: ImageSet, steps: int = 9) -> dict[str, list[float]]:
    """How score and features change with each change alone, from one end of its range to the other."""
    some = test.select(torch.arange(min(len(test), 355)))
    still = seen(model, changed(some.images, torch.zeros(len(some), 4)), some.labels)
    curves: dict[str, list[float]] = {}
    for place, (name, most) in enumerate(CHANGES.items()):
        pairs = []
        for step in torch.linspace(-most, most, steps):
            values = torch.zeros(len(some), 4)
            values[:, place] = step
            pairs.append(differences(still, seen(model, changed(some.images, values), some.labels)))
        curves[f"{name}.score"], curves[f"{name}.features"] = map(list, zip(*pairs))
    return curves


def measure(
    study: Study, model: Model | None, train: ImageSet, test: ImageSet, components: int | None = None
) -> dict[str, Any]:
    """Test error, mean changes in percent, and R² of each change; `None` for what pixels do not have."""
    generator = torch.Generator().manual_seed(study.seed)
    told, shares = [], []
    for part in (train, test):
        repeated = part.select(torch.arange(len(part)).repeat_interleave(DRAWS))
        values = (2 * torch.rand(len(repeated), 4, generator=generator) - 1) * torch.tensor(
            [*CHANGES.values()]
        )
        before = seen(model, changed(part.images, torch.zeros(len(part), 4)), part.labels)
        before = Seen(*(each.repeat_interleave(DRAWS, 0) for each in before))
        after = seen(model, changed(repeated.images, values), repeated.labels)
        told.append((after.features - before.features, values, repeated.labels))
        shares.append(differences(before, after))
    fitted, held_out = told
    explained = predictability(fitted, held_out, components)
    return {
        "error": None if model is None else 100 * evaluate(model, test).error,
        "score": None if model is None else shares[1][0],
        "features": shares[1][1],
        **dict(zip(CHANGES, explained)),
        "mean": sum(explained) / len(explained),
    }


def predictability(
    fitted: tuple[Tensor, Tensor, Tensor], held_out: tuple[Tensor, Tensor, Tensor], components: int | None
) -> list[float]:
    """R² of each value, told from changes of features by ridge regression, one for each class.

    Args:
        fitted: changes of features `[N, D]`, values `[N, K]` and labels `[N]` to fit to.
        held_out: the same, to test on.
        components: how many principal components to look at; `None` for the features as they are.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    told = torch.zeros_like(held_out[1])
    for label in held_out[2].unique():
        first = [] if components is None else [PCA(components, svd_solver="full")]
        regression = make_pipeline(*first, StandardScaler(), RidgeCV(alphas=[0.01, 0.1, 1, 10, 100]))
        mine, theirs = fitted[2] == label, held_out[2] == label
        regression.fit(fitted[0][mine].numpy(), fitted[1][mine].numpy())
        told[theirs] = torch.from_numpy(regression.predict(held_out[0][theirs].numpy())).to(told.dtype)
    missed = (told - held_out[1]).square().sum(0)
    return (1 - missed / (held_out[1] - held_out[1].mean(0)).square().sum(0)).tolist()
