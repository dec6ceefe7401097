"""How digits are changed, and how score and features of a network respond."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.data.datasets.affine_mnist import transform
from torchcaps.data.imageset import ImageSet
from torchcaps.data.transforms import center_crop
from torchcaps.experiments.framework.study import Study
from torchcaps.models import CapsuleModel, Model
from torchcaps.models.base import evaluating
from torchcaps.models.baselines import CapsNetCNN
from torchcaps.models.shared_capsnet import PooledCNN
from torchcaps.training import evaluate, predict

# The largest change of each kind. Shifts are no larger than those that all networks were trained with; no
# network was trained with rotations or scales. The scale is a logarithm, so that both directions are equal.
CHANGES = {"x shift": 2.0, "y shift": 2.0, "rotation": math.radians(20), "scale": math.log(1.2)}
CHANGES_PER_IMAGE = 4


class Response(NamedTuple):
    """Score of the true class `[N]`, and features of it `[N, D]`."""

    score: Tensor
    features: Tensor


def change_images(images: Tensor, values: Tensor) -> Tensor:
    """Shift, rotate and scale images around their center.

    Args:
        images: uint8, `[N, 1, H, W]`.
        values: `[N, 4]` in the order of `CHANGES`.

    Returns:
        Images of the same size in 0..1.
    """
    x_shift, y_shift, rotation, log_scale = values.unbind(1)
    scale = log_scale.exp()
    parameters = torch.stack([rotation, torch.zeros_like(rotation), scale, scale, x_shift, y_shift], dim=1)
    return center_crop(transform(images, parameters), images.shape[-1]).float() / 255


def respond(model: Model | None, images: Tensor, labels: Tensor) -> Response:
    """The score of the true class and its pose; the features of a CNN; the pixels for `None`.

    The features of a CNN are its pooled maps, or without pooling its last hidden layer.
    """
    rows = torch.arange(len(labels))
    if model is None:
        return Response(torch.ones(len(images)), images.flatten(1))
    output = predict(model, images)
    if isinstance(model, CapsuleModel):
        assert output.capsules is not None
        return Response(output.scores[rows, labels], output.capsules.pose[rows, labels])
    below: Callable[[Tensor], Tensor]
    if isinstance(model, CapsNetCNN):
        below = model.layers[:-1]
    else:
        assert isinstance(model, PooledCNN)
        below = lambda batch: model.features(batch).mean((2, 3))  # noqa: E731
    with torch.no_grad(), evaluating(model):
        features = torch.cat([below(batch) for batch in images.split(256)])
    return Response(output.scores[rows, labels], features)


def count_features(model: Model) -> int:
    """How many features `respond` gives for an image."""
    image = torch.zeros(1, model.in_channels, *model.image_size)
    return respond(model, image, torch.zeros(1, dtype=torch.int64)).features.shape[1]


def mean_differences(before: Response, after: Response) -> tuple[float, float]:
    """Mean change of the score, and of the features relative to their length, in percent."""
    score = (after.score - before.score).abs() / before.score.clamp(min=1e-12)
    features = (after.features - before.features).norm(dim=1) / before.features.norm(dim=1).clamp(min=1e-12)
    return 100 * float(score.mean()), 100 * float(features.mean())


def response_curves(model: Model, test: ImageSet, steps: int = 9) -> dict[str, list[float]]:
    """How score and features change with each kind of change alone, over its whole range."""
    some = test.select(torch.arange(min(len(test), 355)))
    unchanged = respond(model, change_images(some.images, torch.zeros(len(some), 4)), some.labels)
    curves: dict[str, list[float]] = {}
    for index, (name, largest) in enumerate(CHANGES.items()):
        differences = []
        for step in torch.linspace(-largest, largest, steps):
            values = torch.zeros(len(some), 4)
            values[:, index] = step
            response = respond(model, change_images(some.images, values), some.labels)
            differences.append(mean_differences(unchanged, response))
        curves[f"{name}.score"], curves[f"{name}.features"] = map(list, zip(*differences))
    return curves


def measure(
    study: Study, model: Model | None, train: ImageSet, test: ImageSet, components: int | None = None
) -> dict[str, Any]:
    """Test error, mean differences in percent, and R² of each kind of change.

    Args:
        study: gives the seed of the random changes.
        model: the network; `None` for the pixels, which have no error and no score.
        train: images to fit the regression to.
        test: images to test it on.
        components: of `predict_changes`.
    """
    generator = torch.Generator().manual_seed(study.seed)
    samples, differences = [], []
    for part in (train, test):
        repeated = part.select(torch.arange(len(part)).repeat_interleave(CHANGES_PER_IMAGE))
        largest = torch.tensor([*CHANGES.values()])
        values = (2 * torch.rand(len(repeated), 4, generator=generator) - 1) * largest
        before = respond(model, change_images(part.images, torch.zeros(len(part), 4)), part.labels)
        before = Response(*(each.repeat_interleave(CHANGES_PER_IMAGE, 0) for each in before))
        after = respond(model, change_images(repeated.images, values), repeated.labels)
        samples.append((after.features - before.features, values, repeated.labels))
        differences.append(mean_differences(before, after))
    r_squared = predict_changes(samples[0], samples[1], components)
    score, features = differences[1]
    return {
        "error": None if model is None else 100 * evaluate(model, test).error,
        "score": None if model is None else score,
        "features": features,
        **dict(zip(CHANGES, r_squared)),
        "mean": sum(r_squared) / len(r_squared),
    }


def predict_changes(
    train: tuple[Tensor, Tensor, Tensor], test: tuple[Tensor, Tensor, Tensor], components: int | None
) -> list[float]:
    """R² of each kind of change, predicted from the change of the features by ridge regression per class.

    Args:
        train: changes of features `[N, D]`, true values `[N, K]` and labels `[N]` to fit to.
        test: the same to test on.
        components: number of principal components to use; `None` for the features themselves.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, values, labels = test
    predicted = torch.zeros_like(values)
    for label in labels.unique():
        reduction = [] if components is None else [PCA(components, svd_solver="full")]
        regression = make_pipeline(*reduction, StandardScaler(), RidgeCV(alphas=[0.01, 0.1, 1, 10, 100]))
        in_train, in_test = train[2] == label, labels == label
        regression.fit(train[0][in_train].numpy(), train[1][in_train].numpy())
        result = regression.predict(features[in_test].numpy())
        predicted[in_test] = torch.from_numpy(result).to(predicted.dtype)
    residual = (predicted - values).square().sum(0)
    return (1 - residual / (values - values.mean(0)).square().sum(0)).tolist()
