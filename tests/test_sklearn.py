"""CapsuleClassifier keeps the rules of scikit-learn and passes its checks."""

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", minversion="1.6")
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from torchcaps.sklearn import CapsuleClassifier

# The name of each check that is known to fail, and why. There is none: scikit-learn itself skips those that
# need pandas or the array API where these are not installed.
KNOWN_FAILURES: dict[str, str] = {}
TINY = {"model_options": {"stages": [[16]], "class_dim": 4, "iterations": 1}, "min_size": 4}
SMALL = {"model_options": {"stages": [[8], [16]], "class_dim": 8}}


@parametrize_with_checks(
    [CapsuleClassifier(epochs=8, batch_size=64, lr=0.03, **TINY)],
    expected_failed_checks=lambda estimator: KNOWN_FAILURES,
)
def test_checks_of_scikit_learn(estimator: CapsuleClassifier, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images `[N, 8, 8]` of three digits, and their labels."""
    data = load_digits(n_class=3)
    return data.images[:240], data.target[:240]


@pytest.fixture(scope="module")
def fitted(digits: tuple[np.ndarray, np.ndarray]) -> CapsuleClassifier:
    X, y = digits
    return CapsuleClassifier(epochs=5, random_state=0, **SMALL).fit(X[:180], y[:180])


def test_it_learns_and_transform_returns_the_poses(
    fitted: CapsuleClassifier, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = digits
    assert fitted.score(X[180:], y[180:]) > 0.85
    assert fitted.loss_curve_[-1] < 0.5 * fitted.loss_curve_[0]
    poses = fitted.transform(X[180:])
    assert poses.shape == (60, 3 * 8)
    assert list(fitted.get_feature_names_out())[-1] == "capsuleclassifier23"
    # The length of a class pose is its activation, and the longest is the predicted class.
    lengths = np.linalg.norm(poses.reshape(60, 3, 8), axis=-1)
    assert (fitted.classes_[lengths.argmax(1)] == fitted.predict(X[180:])).all()


def test_shares_add_up_to_one(fitted: CapsuleClassifier, digits: tuple[np.ndarray, np.ndarray]) -> None:
    shares = fitted.predict_proba(digits[0])
    assert shares.shape == (240, 3)
    assert shares.sum(1) == pytest.approx(1)
    assert (shares.argmax(1) == fitted.predict(digits[0])).all()


def test_forms_of_an_image_give_the_same_classifier(
    fitted: CapsuleClassifier, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = digits
    for form in (X.reshape(len(X), -1), X[:, None]):
        other = clone(fitted).fit(form[:180], y[:180])
        assert other.predict_proba(form) == pytest.approx(fitted.predict_proba(X), abs=1e-6)


def test_flat_vectors_fill_the_smallest_square() -> None:
    classifier = CapsuleClassifier(min_size=1)
    classifier.mean_, classifier.scale_ = 0.0, 1.0
    vectors = np.arange(1.0, 6.0)[None]
    assert classifier._images(vectors)[0, 0].tolist() == [[1, 2, 3], [4, 5, 0], [0, 0, 0]]
    assert classifier._images(vectors[:, :4])[0, 0].tolist() == [[1, 2], [3, 4]]
    assert classifier._images(vectors[:, :1])[0, 0].tolist() == [[1]]
    classifier.min_size = 3
    assert classifier._images(vectors[:, :4])[0, 0].tolist()[1:3] == [[1, 1, 2, 2], [3, 3, 4, 4]]


def test_the_random_state_decides_everything_and_nothing_else_changes(
    digits: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = digits[0][:60], digits[1][:60]

    def shares(seed: int) -> np.ndarray:
        return CapsuleClassifier(epochs=1, random_state=seed, **SMALL).fit(X, y).predict_proba(X)

    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = shares(0)
    assert torch.equal(torch.rand(3), expected), "the numbers of the caller are not used up"
    assert (shares(0) == first).all()
    assert (shares(1) != first).any()


def test_pipelines_and_grid_search(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits[0][:90].reshape(90, -1), digits[1][:90]
    classifier = CapsuleClassifier(epochs=2, random_state=0, **SMALL)
    features = make_pipeline(StandardScaler(), classifier, LogisticRegression()).fit(X, y)
    assert features.score(X, y) > 0.8
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier), {"capsuleclassifier__lr": [1e-6, 0.01]}, cv=2
    ).fit(X, y)
    assert search.best_params_ == {"capsuleclassifier__lr": 0.01}


def test_labels_may_be_texts(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits[0][:60], np.array(["zero", "one", "two"])[digits[1][:60]]
    classifier = CapsuleClassifier(epochs=5, random_state=0, **SMALL).fit(X, y)
    assert classifier.classes_.tolist() == ["one", "two", "zero"]
    assert classifier.score(X, y) > 0.6


@pytest.mark.parametrize("model", ["capsnet_small", "pooled_cnn"])
def test_other_networks(model: str, digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits[0][:30], digits[1][:30]
    classifier = CapsuleClassifier(model, epochs=1, min_size=20, random_state=0).fit(X, y)
    assert classifier.image_shape_ == (1, 24, 24)
    assert classifier.predict_proba(X).shape == (30, 3)
    if model == "pooled_cnn":
        with pytest.raises(ValueError, match="pooled_cnn has no capsules"):
            classifier.transform(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"lr": 0}, "lr"),
        ({"min_size": 0}, "min_size"),
        ({"loss": "hinge"}, "loss"),
        ({"model": "capsnt"}, "capsnet"),
        ({"model_options": {"stagse": 1}}, "stages"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        CapsuleClassifier(**options).fit(np.random.rand(10, 64), np.arange(10) % 2)


def test_images_of_another_shape_are_refused(fitted: CapsuleClassifier) -> None:
    with pytest.raises(ValueError, match=r"X must be \[N, 8, 8\] as in fit, got \[2, 8, 9\]"):
        fitted.predict(np.zeros((2, 8, 9)))
    with pytest.raises(ValueError, match=r"\[N, D\], \[N, H, W\] or \[N, C, H, W\]"):
        clone(fitted).fit(np.zeros((4, 1, 8, 8, 2)), [0, 1, 0, 1])
