"""Capsule networks as an estimator of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_count, check_number
from torchcaps._extras import require
from torchcaps.capsules import Capsules
from torchcaps.models import Model, Output, create_model
from torchcaps.models.registry import model_info
from torchcaps.training.objective import Objective
from torchcaps.training.prediction import predict
from torchcaps.training.recipe import LossPart

require("sklearn", extra="sklearn", purpose="CapsuleClassifier")

from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin  # noqa: E402 (after the check)
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

EVAL_BATCH = 256


class CapsuleClassifier(TransformerMixin, ClassifierMixin, BaseEstimator):
    """A capsule network with the interface of scikit-learn.

    `X` is one of these; all are shifted and scaled by the mean and standard deviation of the training data:

    - `[N, H, W]`: gray images.
    - `[N, C, H, W]`: images with channels.
    - `[N, D]`: flat vectors. Each is laid row by row into the smallest square that holds it, and the rest of
      the square is zero. So a flattened square image gets its form back; other vectors get neighbors that
      mean nothing, and a capsule network is not made for those.

    Images whose shorter side is below `min_size` are enlarged by repeating each pixel.

    Args:
        model: name of a network, see `torchcaps.list_models()`.
        model_options: its options, such as `{"routing": "em"}`.
        loss: `"margin"`, `"spread"` or `"cross_entropy"`; by default the loss that the network is registered
            with.
        epochs: passes over the training data.
        batch_size: images per step.
        lr: learning rate of Adam.
        min_size: pixels that the shorter side of an image has, at least.
        random_state: seed of weights, order and dropout. The same one gives the same classifier.
        device: where it is computed, such as `"cpu"` or `"cuda"`.

    Attributes:
        classes_: the labels.
        model_: the trained network.
        image_shape_: channels, height and width of the images that the network reads.
        loss_curve_: mean loss of each epoch.
        n_features_in_: size of the second dimension of `X`.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(n_class=3, return_X_y=True)
        >>> classifier = CapsuleClassifier(model_options={"stages": [[8], [16]]}, epochs=8, random_state=0)
        >>> classifier = classifier.fit(X[:400], y[:400])
        >>> bool(classifier.score(X[400:], y[400:]) > 0.9)
        True
        >>> classifier.transform(X[:5]).shape  # the poses of three class capsules of 16 numbers
        (5, 48)
    """

    def __init__(
        self,
        model: str = "shared_capsnet",
        *,
        model_options: Mapping[str, Any] | None = None,
        loss: str | None = None,
        epochs: int = 20,
        batch_size: int = 32,
        lr: float = 0.003,
        min_size: int = 16,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.model_options = model_options
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.min_size = min_size
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> CapsuleClassifier:
        """Train a new network.

        Args:
            X: images or vectors, see the class.
            y: labels `[N]` of at least two classes.
        """
        for name in ("epochs", "batch_size", "min_size"):
            check_count(name, getattr(self, name))
        check_number("lr", self.lr, above=True)
        X, y = validate_data(self, X, y, allow_nd=True, dtype="numeric")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least 2 classes, got 1 class: {self.classes_[0]!r}")
        self.input_shape_ = X.shape[1:]
        self.mean_, self.scale_ = float(X.mean(dtype=np.float64)), float(X.std(dtype=np.float64)) or 1.0
        images = self._images(X)
        self.image_shape_ = tuple(images.shape[1:])
        seed = int(check_random_state(self.random_state).randint(2**31))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.model_ = self._train(images, torch.from_numpy(labels))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label of each image, `[N]`."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Scores of the classes `[N, classes]`, scaled to add up to 1.

        The scores of a capsule network are activations, and several classes may be active at once; what is
        returned are their shares, not calibrated probabilities.
        """
        scores = self._output(X).scores.double().clamp_min(1e-12)
        return (scores / scores.sum(1, keepdim=True)).numpy()

    def transform(self, X: Any) -> np.ndarray:
        """Poses of the class capsules, `[N, classes·D]`, class by class.

        Raises:
            ValueError: the network has no capsules.
        """
        capsules = self._output(X).capsules
        if capsules is None:
            raise ValueError(f"{self.model} has no capsules, so there are no poses to return")
        return capsules.pose.flatten(1).numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: `capsuleclassifier0` and so on, as scikit-learn names them."""
        check_is_fitted(self)
        shape = (1, *self.image_shape_)
        capsules = predict(self.model_, torch.zeros(shape)).capsules
        size = 0 if capsules is None else capsules.pose.flatten(1).shape[1]
        return np.array([f"capsuleclassifier{place}" for place in range(size)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect of this estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []  # poses are float32
        return tags

    def _output(self, X: Any) -> Output:
        check_is_fitted(self)
        X = validate_data(self, X, allow_nd=True, dtype="numeric", reset=False)
        if X.shape[1:] != self.input_shape_:
            raise ValueError(
                f"X must be [N, {', '.join(map(str, self.input_shape_))}] as in fit, got {list(X.shape)}"
            )
        output = predict(self.model_, self._images(X), batch_size=EVAL_BATCH)
        capsules = None if output.capsules is None else Capsules(*(part.cpu() for part in output.capsules))
        return Output(output.scores.cpu(), output.logits.cpu(), capsules)

    def _images(self, X: np.ndarray) -> Tensor:
        """Scaled images `[N, C, H, W]`, at least `min_size` on each side."""
        if X.ndim > 4:
            raise ValueError(f"X must be [N, D], [N, H, W] or [N, C, H, W], got {list(X.shape)}")
        values = torch.from_numpy(((X - self.mean_) / self.scale_).astype(np.float32))
        if values.ndim == 2:
            side = math.isqrt(values.shape[1] - 1) + 1
            values = torch.nn.functional.pad(values, (0, side * side - values.shape[1]))
            values = values.unflatten(1, (side, side))
        images = values.unsqueeze(1) if values.ndim == 3 else values
        factor = math.ceil(self.min_size / min(images.shape[2:]))
        return images.repeat_interleave(factor, 2).repeat_interleave(factor, 3) if factor > 1 else images

    def _train(self, images: Tensor, labels: Tensor) -> Model:
        channels, height, width = images.shape[1:]
        model = create_model(
            self.model,
            num_classes=len(self.classes_),
            in_channels=channels,
            image_size=(height, width),
            **(self.model_options or {}),
        ).to(self.device)
        registered = LossPart(**model_info(self.model).recipe.get("loss", {"name": "cross_entropy"}))
        objective = Objective(
            model, replace(registered, name=self.loss or registered.name, reconstruction=0.0)
        )
        optimizer = torch.optim.Adam(model.parameters(), self.lr)
        self.loss_curve_: list[float] = []
        model.train()
        step = 0
        for _ in range(self.epochs):
            total = 0.0
            for places in torch.randperm(len(images)).split(self.batch_size):
                batch = images[places].to(self.device), labels[places].to(self.device)
                loss = objective(*batch, step).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(places)
                step += 1
            self.loss_curve_.append(total / len(images))
        return model.eval()
