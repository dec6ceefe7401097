"""Adversarial attacks: small changes to an image, along the gradient, that change the prediction."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps._checks import check_choice, check_count, check_number, check_target, check_tensor
from torchcaps.models import Model

Bounds = tuple[float, float]
LOSSES = ("cross_entropy", "margin")
"""What attacks climb: the cross-entropy, or the lead of the strongest wrong logit over the true one."""


def fgsm(
    model: Model,
    images: Tensor,
    labels: Tensor,
    epsilon: float | Tensor,
    *,
    targeted: bool = False,
    loss: str = "cross_entropy",
    bounds: Bounds = (0.0, 1.0),
) -> Tensor:
    r"""The fast gradient sign method (Goodfellow et al. 2015): one step of ε up the loss.

    .. math:: x' = \operatorname{clip}\big(x + \epsilon \operatorname{sign} \nabla_x L(x, y)\big)

    where L is the cross-entropy on `Output.logits`. A targeted attack goes down the loss of its target class.
    The loss `"margin"` is the lead of the strongest other class, :math:`\max_{k \ne y} z_k - z_y` of logits z
    (Carlini and Wagner 2017), whose gradient does not vanish for confident networks.

    Args:
        model: any network of `torchcaps.models`.
        images: `[B, C, H, W]`, as the model expects them.
        labels: the true classes `[B]`, or the target classes if `targeted`.
        epsilon: the largest change of a pixel, or one number for each image `[B]`.
        targeted: move towards `labels` rather than away from them.
        loss: `"cross_entropy"` or `"margin"`.
        bounds: the smallest and the largest value of a pixel.

    Returns:
        The changed images `[B, C, H, W]`.

    Example:
        >>> from torchcaps.models import create_model
        >>> images = torch.rand(2, 1, 28, 28)
        >>> changed = fgsm(create_model("pooled_cnn"), images, torch.tensor([3, 7]), 0.1)
        >>> bool((changed - images).abs().max() <= 0.1 + 1e-6)
        True
    """
    return bim(model, images, labels, epsilon, steps=1, targeted=targeted, loss=loss, bounds=bounds)


def bim(
    model: Model,
    images: Tensor,
    labels: Tensor,
    epsilon: float | Tensor,
    *,
    steps: int = 10,
    step_size: float | None = None,
    targeted: bool = False,
    loss: str = "cross_entropy",
    bounds: Bounds = (0.0, 1.0),
) -> Tensor:
    r"""The basic iterative method (Kurakin et al. 2017): FGSM in small steps, within ε of the image.

    .. math:: x_{t+1} = \operatorname{clip}_{x, \epsilon}
        \big(x_t + \alpha \operatorname{sign} \nabla_x L(x_t, y)\big)

    Args:
        model: see `fgsm`.
        images: see `fgsm`.
        labels: see `fgsm`.
        epsilon: see `fgsm`.
        steps: number of steps.
        step_size: α; by default ε / steps, which just reaches ε.
        targeted: see `fgsm`.
        loss: see `fgsm`.
        bounds: see `fgsm`.

    Example:
        >>> from torchcaps.models import create_model
        >>> bim(create_model("pooled_cnn"), torch.rand(2, 1, 28, 28), torch.tensor([3, 7]), 0.1).shape
        torch.Size([2, 1, 28, 28])
    """
    step = None if step_size is None else check_number("step_size", step_size)
    return _climb(model, images, images, labels, epsilon, steps, step, targeted, loss, bounds)


def pgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    epsilon: float | Tensor,
    *,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    targeted: bool = False,
    loss: str = "cross_entropy",
    bounds: Bounds = (0.0, 1.0),
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Projected gradient descent (Madry et al. 2018): BIM from random points within ε.

    Args:
        model: see `fgsm`.
        images: see `fgsm`.
        labels: see `fgsm`.
        epsilon: see `fgsm`.
        steps: number of steps.
        step_size: α; by default 2.5 ε / steps, enough to cross the ε-ball from any start.
        restarts: number of random starting points; each image keeps the most successful result.
        targeted: see `fgsm`.
        loss: see `fgsm`.
        bounds: see `fgsm`.
        generator: for the random starting points.

    Example:
        >>> from torchcaps.models import create_model
        >>> images, labels = torch.rand(2, 1, 28, 28), torch.tensor([3, 7])
        >>> changed = pgd(create_model("pooled_cnn"), images, labels, 0.1, steps=3, restarts=2)
        >>> bool((changed - images).abs().max() <= 0.1 + 1e-6)
        True
    """
    check_count("steps", steps)
    epsilon = _per_image(epsilon, images)
    step = 2.5 * epsilon / steps if step_size is None else check_number("step_size", step_size)
    best, lowest = images, images.new_full((len(images),), torch.inf)
    for _ in range(check_count("restarts", restarts)):
        # Drawn on the generator's device, so that a seed gives the same points for every model device.
        device = images.device if generator is None else generator.device
        noise = torch.rand(images.shape, generator=generator, dtype=images.dtype, device=device)
        start = (images + epsilon * (2 * noise.to(images.device) - 1)).clamp(*bounds)
        end = _climb(model, images, start, labels, epsilon, steps, step, targeted, loss, bounds)
        with torch.no_grad():
            gained = _losses(_logits(model, end), labels, loss)
        cost = gained if targeted else -gained
        better = cost < lowest
        best = torch.where(better[:, None, None, None], end, best)
        lowest = torch.where(better, cost, lowest)
    return best


def input_gradient(model: Model, images: Tensor, labels: Tensor, *, loss: str = "cross_entropy") -> Tensor:
    r"""The gradient of each image's loss, up to a positive factor per image.

    For a confident network, :math:`\partial L / \partial z = \operatorname{softmax}(z) - y` is so near 0 that
    its gradient underflows in float32, and an attack would see a zero gradient. Attacks use only the sign, so
    this computes the same vector in float64 and scales its largest entry to 1 in each image.

    Args:
        model: see `fgsm`.
        images: see `fgsm`.
        labels: the true classes `[B]`.
        loss: see `fgsm`.

    Returns:
        Gradient with respect to the images `[B, C, H, W]`.

    Example:
        >>> from torchcaps.models import create_model
        >>> input_gradient(create_model("pooled_cnn"), torch.rand(2, 1, 28, 28), torch.tensor([3, 7])).shape
        torch.Size([2, 1, 28, 28])
    """
    return _scaled_gradient(model, images, labels, loss)[0]


def gradient_size(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The mean absolute gradient of the cross-entropy by a pixel, without scaling, float64 `[B]`.

    A network whose gradients are tiny is hard to attack without being robust. It is computed as a scaled
    gradient times its factor, so that it does not underflow.

    Args:
        model: see `fgsm`.
        images: see `fgsm`.
        labels: the true classes `[B]`.

    Example:
        >>> from torchcaps.models import create_model
        >>> gradient_size(create_model("pooled_cnn"), torch.rand(2, 1, 28, 28), torch.tensor([3, 7])).shape
        torch.Size([2])
    """
    gradient, factor = _scaled_gradient(model, images, labels, "cross_entropy")
    return gradient.double().abs().mean((1, 2, 3)) * factor


def _scaled_gradient(model: Model, images: Tensor, labels: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """The gradient for slopes of the logits whose largest is 1, and what they were divided by, `[B]`."""
    check_choice("loss", loss, LOSSES)
    with torch.enable_grad():
        images = images.detach().requires_grad_()
        logits = _logits(model, images)
        check_target(labels, logits)
        true = labels.long()[:, None]
        wide = logits.detach().double()
        if loss == "cross_entropy":
            others = torch.softmax(wide, 1).scatter(1, true, 0.0)
        else:
            others = F.one_hot(wide.scatter(1, true, -torch.inf).argmax(1), wide.shape[1]).double()
        # For the cross-entropy p − 1 without rounding.
        slope = others.scatter(1, true, -others.sum(1, keepdim=True))
        factor = slope.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        gradient = torch.autograd.grad(logits, images, (slope / factor).to(logits.dtype))[0]
        return gradient, factor[:, 0]


def zero_gradient_share(gradient: Tensor) -> float:
    """The share of images whose gradient is 0 everywhere, where an attack fails without showing robustness.

    Args:
        gradient: `[B, C, H, W]`, as `input_gradient` returns it.

    Example:
        >>> zero_gradient_share(torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)]))
        0.5
    """
    check_tensor("gradient", gradient, "B C H W")
    return float((gradient == 0).flatten(1).all(1).double().mean()) if len(gradient) else 0.0


def _climb(
    model: Model,
    images: Tensor,
    start: Tensor,
    labels: Tensor,
    epsilon: float | Tensor,
    steps: int,
    step_size: float | Tensor | None,
    targeted: bool,
    loss: str,
    bounds: Bounds,
) -> Tensor:
    """Follow the sign of the gradient from `start`, within ε of `images` and within the bounds."""
    check_tensor("images", images, "B C H W")
    epsilon = _per_image(epsilon, images)
    check_count("steps", steps)
    if not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be the smallest and the largest value of a pixel, got {bounds}")
    step = epsilon / steps if step_size is None else step_size
    low, high = (images - epsilon).clamp(*bounds), (images + epsilon).clamp(*bounds)
    changed = start
    for _ in range(steps):
        slope = input_gradient(model, changed, labels, loss=loss).sign()
        changed = (changed + (-step if targeted else step) * slope).clamp(low, high)
    return changed.detach()


def _per_image(epsilon: float | Tensor, images: Tensor) -> float | Tensor:
    """One number, or one for each image in a shape that broadcasts with them, `[B, 1, 1, 1]`."""
    if not isinstance(epsilon, Tensor):
        return check_number("epsilon", epsilon)
    if epsilon.ndim == images.ndim == 4:
        return epsilon  # checked already
    check_tensor("epsilon", epsilon, "B", B=len(images))
    if not bool((epsilon.isfinite() & (epsilon >= 0)).all()):
        raise ValueError(f"epsilon must be finite numbers of at least 0, got {epsilon.tolist()}")
    return epsilon.to(images)[:, None, None, None]


def _losses(logits: Tensor, labels: Tensor, loss: str) -> Tensor:
    """The loss of each image, `[B]`."""
    if check_choice("loss", loss, LOSSES) == "cross_entropy":
        return F.cross_entropy(logits, labels.long(), reduction="none")
    true = labels.long()[:, None]
    return logits.scatter(1, true, -torch.inf).amax(1) - logits.gather(1, true)[:, 0]


def _logits(model: Model, images: Tensor) -> Tensor:
    """Logits in evaluation mode: dropout would give the gradient of another network."""
    training = model.training
    model.eval()
    try:
        return model(images).logits
    finally:
        model.train(training)
