"""Finding the kinds of parts that scenes are made of, by drawing the scenes: no label of any kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.experiments.wholes.unlabeled.rendering import (
    draw_sum,
    place_templates,
    template_covers,
)
from torchcaps.poses.similarity import SimilarityPose

TEMPLATE_SIZE = 24
# Half sides of templates in parts of half an image: from the smallest to the largest that is looked for.
SCALES = (0.14, 0.82)
# What a part leaves unexplained where it is drawn counts this many times as much as what it explains: while
# kinds are looked for one after another, and in each round of all together. With 2 alone, one template may
# cover two parts that touch, and learn to; with 6 alone, templates that are not sharp yet explain nothing.
MISFIT = 6.0
ROUND_MISFITS = (6.0, 2.0, 2.0, 6.0, 6.0, 4.0, 2.0)
# Smallest explained energy of a part, in pixels of full brightness of a 64×64 image.
MIN_ENERGY = 6.0


class Drawing(NamedTuple):
    """What N images are drawn from: at most K parts each.

    Attributes:
        kind: `[N, K]`.
        pose: `[N, K, 4]`.
        brightness: `[N, K]`, 0 where there is no part.
    """

    kind: Tensor
    pose: Tensor
    brightness: Tensor


class _Bank(NamedTuple):
    """Templates at all angles and scales of a search, in the middle of an image.

    Attributes:
        kind: `[F]`.
        pose: (a, b) `[F, 2]`.
        drawn: `[F, n, n]`.
        square: sum of squares `[F]`.
        spectrum: of `drawn`, `[F, n, n/2 + 1]`.
        cover_spectrum: of what is covered.
    """

    kind: Tensor
    pose: Tensor
    drawn: Tensor
    square: Tensor
    spectrum: Tensor
    cover_spectrum: Tensor


def make_bank(templates: Tensor, size: int, angles: int, scales: int) -> _Bank:
    """All templates at `angles` angles and `scales` scales."""
    kinds = len(templates)
    angle = torch.arange(angles) * (2 * math.pi / angles)
    scale = torch.logspace(math.log10(SCALES[0]), math.log10(SCALES[1]), scales)
    turn, zoom = angle.repeat_interleave(scales).repeat(kinds), scale.repeat(kinds * angles)
    kind = torch.arange(kinds).repeat_interleave(angles * scales)
    middle = torch.full_like(turn, 1 / size)  # the center of pixel n/2
    pose = SimilarityPose.from_parts(turn, zoom, middle, -middle)
    layers = torch.stack([templates, template_covers(templates)], 1)
    drawn, covers = place_templates(layers, kind[None], pose[None], size, oversample=2)[0].unbind(1)
    # Filters start at pixel 0, so that a product of spectra is a correlation around each pixel.
    spectra = (torch.fft.rfft2(each.roll((-(size // 2),) * 2, (1, 2))).conj() for each in (drawn, covers))
    return _Bank(kind, pose[:, :2], drawn, drawn.square().sum((1, 2)).clamp(min=1e-6), *spectra)


class _Match(NamedTuple):
    score: Tensor
    filter: Tensor
    row: Tensor
    column: Tensor
    brightness: Tensor


def _best_match(bank: _Bank, image: Tensor, misfit: float, groups: int = 1) -> _Match:
    """The best filter and place in one image `[n, n]`, for each of `groups` equal shares of the bank."""
    size = image.shape[-1]
    product = torch.fft.irfft2(torch.fft.rfft2(image) * bank.spectrum, s=(size, size))
    energy = torch.fft.irfft2(torch.fft.rfft2(image.square()) * bank.cover_spectrum, s=(size, size))
    explained = product.clamp(min=0).square() / bank.square[:, None, None]
    # What is left of the image where the part is drawn: the sum over its pixels of (image - drawn)².
    score = (1 + misfit) * explained - misfit * energy
    score, index = score.view(groups, -1).max(1)
    index = index + torch.arange(groups) * (len(bank.kind) // groups * size * size)
    which, place = index // (size * size), index % (size * size)
    brightness = product.flatten(1)[which, place] / bank.square[which]
    return _Match(score, which, place // size, place % size, brightness)


@torch.no_grad()
def pursue(
    images: Tensor,
    templates: Tensor,
    *,
    parts: int = 5,
    size: int = 32,
    angles: int = 16,
    scales: int = 9,
    misfit: float = MISFIT,
) -> Drawing:
    """Explain images part by part: look for the best template at all angles, scales and places.

    Of all parts, the one is taken that explains most of the squared brightness, less `misfit` times what it
    leaves where it is drawn (matching pursuit). What it explains is taken away, and so on, until the next
    part explains too little.

    Args:
        images: `[N, 1, H, W]` in 0..1.
        templates: `[T, S, S]`.
        parts: the largest number of parts in an image, K.
        size: pixels along each side during the search.
        angles: how many.
        scales: how many.
        misfit: see above.
    """
    small = F.adaptive_avg_pool2d(images, size)[:, 0]
    bank = make_bank(templates, size, angles, scales)
    least = MIN_ENERGY * (size / 64) ** 2
    count = len(images)
    kind = torch.zeros(count, parts, dtype=torch.int64)
    pose = torch.tensor([0.2, 0.0, 0.0, 0.0]).repeat(count, parts, 1)
    brightness = torch.zeros(count, parts)
    for number, rest in enumerate(small):
        for part in range(parts):
            match = _best_match(bank, rest, misfit)
            if float(match.score) < least:
                break
            which = int(match.filter)
            row, column = int(match.row), int(match.column)
            kind[number, part] = bank.kind[which]
            pose[number, part, :2] = bank.pose[which]
            pose[number, part, 2] = (2 * column + 1) / size - 1
            pose[number, part, 3] = 1 - (2 * row + 1) / size
            brightness[number, part] = match.brightness
            drawn = bank.drawn[which].roll((row - size // 2, column - size // 2), (0, 1))
            rest = (rest - match.brightness * drawn).clamp(min=0)
    return Drawing(kind, pose, brightness)


def refine(
    images: Tensor,
    templates: Tensor,
    drawing: Drawing,
    *,
    steps: int,
    learn_templates: bool = True,
    lr: float = 0.01,
) -> tuple[Tensor, Drawing, Tensor]:
    """Move poses, brightness and templates down the gradient of the squared error of the drawn images.

    Returns:
        Templates, what is drawn, and the error of each image relative to its squared brightness.
    """
    templates = templates.clone().requires_grad_(learn_templates)
    pose = drawing.pose.clone().requires_grad_()
    brightness = drawing.brightness.clone().requires_grad_()
    present = (drawing.brightness > 0).to(pose)
    size = images.shape[-1]
    rates = {pose: lr, brightness: 3 * lr, **({templates: 4 * lr} if learn_templates else {})}
    groups = [{"params": [values], "lr": rate} for values, rate in rates.items()]
    optimizer = torch.optim.Adam(groups, betas=(0.8, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, list(rates.values()), total_steps=steps + 1)
    energy = images.square().sum((1, 2, 3)).clamp(min=1.0)
    for step in range(steps + 1):
        drawn = draw_sum(templates, drawing.kind, pose, brightness * present, size)
        error = (drawn - images).square().sum((1, 2, 3))
        if step == steps:
            break
        optimizer.zero_grad()
        error.sum().div(len(images)).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            templates.clamp_(min=0)
            brightness.clamp_(min=0.05)
    found = Drawing(drawing.kind, pose.detach(), (brightness * present).detach())
    return templates.detach(), found, (error / energy).detach()


@torch.no_grad()
def center_templates(templates: Tensor, drawing: Drawing) -> tuple[Tensor, Drawing]:
    """Choose the free similarity and factor of each kind: in the middle of its square, which it fills.

    Neither changes what is drawn, except for what is lost at borders.
    """
    covers = template_covers(templates)
    side = templates.shape[-1]
    x = (2 * torch.arange(side, dtype=templates.dtype) + 1) / side - 1
    mass = covers.sum((1, 2)).clamp(min=1)
    left, up = (covers.sum(1) * x).sum(1) / mass, -(covers.sum(2) * x).sum(1) / mass
    across = x[None, None, :] - left[:, None, None]
    along = -x[None, :, None] - up[:, None, None]
    reach = ((across.square() + along.square()).sqrt() * covers).amax((1, 2)).clamp(0.3, 1.4) + 2 / side
    change = SimilarityPose.from_parts(torch.zeros_like(reach), reach, left, up)  # new to old coordinates
    kinds = torch.arange(len(templates))
    moved = place_templates(templates, kinds[:, None], SimilarityPose.inverse(change)[:, None], side)[:, 0]
    light = moved.flatten(1).quantile(0.97, dim=1).clamp(min=1e-3)
    return moved / light[:, None, None], Drawing(
        drawing.kind,
        SimilarityPose().move(change[drawing.kind], drawing.pose),
        drawing.brightness * light[drawing.kind],
    )


@torch.no_grad()
def drop_faint(templates: Tensor, drawing: Drawing) -> Drawing:
    """Leave out parts that are too small or too dim to be parts: they draw what the others left over.

    Dreams would show them as often as true parts.
    """
    area = templates.square().mean((1, 2))[drawing.kind] * (2 * SimilarityPose.scale(drawing.pose) * 32) ** 2
    faint = drawing.brightness.square() * area < MIN_ENERGY
    return drawing._replace(brightness=drawing.brightness.masked_fill(faint, 0.0))


def disc(size: int = TEMPLATE_SIZE) -> Tensor:
    """A bright disc, `[1, size, size]`: a template that fits nothing well and everything a little."""
    x = (2 * torch.arange(size) + 1) / size - 1
    radius = (x.square() + x[:, None].square()).sqrt()
    return ((0.8 - radius) * size / 2 + 0.5).clamp(0, 1).unsqueeze(0)


@torch.no_grad()
def crop(images: Tensor, pose: Tensor, size: int = TEMPLATE_SIZE) -> Tensor:
    """What the images show in the square of each pose, `[N, size, size]`; dark outside of a circle."""
    x = (2 * torch.arange(size) + 1) / size - 1
    u, v = torch.meshgrid(x, -x, indexing="xy")
    a, b, left, up = (each[:, None, None] for each in pose.unbind(-1))
    grid = torch.stack([a * u - b * v + left, -(b * u + a * v + up)], -1)
    window = (u.square() + v.square() <= 1).to(images)
    return F.grid_sample(images, grid, align_corners=False)[:, 0] * window


@torch.no_grad()
def _propose_template(images: Tensor, generator: torch.Generator, candidates: int, judges: int) -> Tensor:
    """A piece of an image that explains most of other images: `[1, S, S]`."""
    bright = images.square().sum((1, 2, 3)) > 2 * MIN_ENERGY
    order = torch.nonzero(bright)[:, 0]
    order = order[torch.randperm(len(order), generator=generator)]
    candidates = min(candidates, len(order) // 2)
    if not candidates:
        raise ValueError("there is nothing left to explain in these images; learn fewer kinds of parts")
    sources, others = order[:candidates], order[candidates : candidates + judges]
    blobs = pursue(images[sources], disc(), parts=1, angles=1, scales=14, misfit=1.0)
    found = blobs.brightness[:, 0] > 0
    # A disc inside a long part is smaller than the part: try several sizes.
    wider = 1 + torch.rand(int(found.sum()), 1, generator=generator)
    pose = blobs.pose[found, 0] * torch.cat([wider, wider, torch.ones_like(wider), torch.ones_like(wider)], 1)
    pieces = crop(images[sources][found], pose)
    pieces = pieces / pieces.flatten(1).amax(1)[:, None, None].clamp(min=1e-3)
    bank = make_bank(pieces, 32, 12, 6)
    small = F.adaptive_avg_pool2d(images[others], 32)[:, 0]
    scores = [_best_match(bank, each, MISFIT, len(pieces)).score.clamp(min=0) for each in small]
    return pieces[int(torch.stack(scores).sum(0).argmax())].unsqueeze(0)


class Discovery(NamedTuple):
    """What `discover_parts` finds.

    Attributes:
        templates: `[T, S, S]`.
        drawing: of the images that they were learned from.
        error: squared error of each image relative to its squared brightness, `[N]`.
        history: templates after each round, and the mean error.
    """

    templates: Tensor
    drawing: Drawing
    error: Tensor
    history: list[tuple[Tensor, float]]


def discover_parts(
    images: Tensor,
    kinds: int,
    *,
    seed: int = 0,
    misfits: Sequence[float] = ROUND_MISFITS,
    steps: int = 40,
    candidates: int = 32,
    judges: int = 48,
    size: int = 32,
    log: Callable[[str], None] | None = None,
) -> Discovery:
    """Learn the templates of `kinds` kinds of parts from unlabeled images, by drawing these.

    The kinds are found one after another. A disc finds bright places; what is there in some images are
    candidates. The candidate that explains most of other images, at all angles, scales and places, becomes
    the template, gradients improve it on all images, and what it explains is taken away. Then, in rounds,
    all templates together explain the images (`pursue`), and gradients improve templates and poses
    (`refine`).

    Args:
        images: `[N, 1, H, W]` in 0..1; a few hundred are enough.
        kinds: number of templates T.
        seed: of the choice of candidates.
        misfits: of the rounds of all templates together.
        steps: of Adam in each round.
        candidates: how many pieces of images are tried for each kind.
        judges: number of images that each candidate is tried on.
        size: pixels along each side of the images during a search.
        log: gets a line for each round.
    """
    generator = torch.Generator().manual_seed(seed)
    rest, templates = images, images.new_zeros(0, TEMPLATE_SIZE, TEMPLATE_SIZE)
    history = []
    for _ in range(kinds):
        template = _propose_template(rest, generator, candidates, judges)
        found = pursue(rest, template, parts=3, size=size, angles=12)
        used = found.brightness.amax(1) > 0
        if used.any():
            some = Drawing(*(each[used] for each in found))
            template, some, _ = refine(rest[used], template, some, steps=steps)
            template, _ = center_templates(template, some)
        templates = torch.cat([templates, template])
        found = pursue(images, templates, size=size, angles=12, scales=8)
        rest = (images - draw_sum(templates, *found, images.shape[-1])).clamp(min=0)
        error = float((rest.square().sum() / images.square().sum()).cpu())
        history.append((templates, error))
        if log:
            log(f"parts: {len(templates)} kinds leave {100 * error:.1f} % unexplained")
    for number, misfit in enumerate(misfits, 1):
        found = pursue(images, templates, size=size, misfit=misfit)
        templates, found, error_of = refine(images, templates, found, steps=steps)
        templates, found = center_templates(templates, found)
        found = drop_faint(templates, found)
        history.append((templates, float(error_of.mean())))
        if log:
            unexplained = 100 * float(error_of.mean())
            log(f"parts: round {number} of {len(misfits)}, {unexplained:.1f} % unexplained")
    return Discovery(templates, found, error_of, history)
