"""Solids: what the detector's numbers mean, its loss, and wholes that do not depend on the viewpoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps.data.worlds.solids import PARTS, SolidOptions, SolidScenes, draw_solids
from torchcaps.experiments.wholes.solids.networks import solid_resnet
from torchcaps.experiments.wholes.solids.parts import (
    find_solids,
    match_parts,
    measure_solid_parts,
    solid_loss,
    train_reader,
    train_solid_parts,
    turn_error,
)
from torchcaps.experiments.wholes.solids.wholes import SolidMLP, SolidWholes
from torchcaps.models.solid_detector import (
    SolidDetector,
    SolidMap,
    line_of_sight,
    map_places,
    orthonormal,
    positions,
    read_parts,
    views,
)
from torchcaps.models.solid_reader import WINDOW, SolidReader, cut_windows


def rotations(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return orthonormal(torch.randn(count, 6, generator=generator, dtype=torch.float64))


def perfect_map(scenes: SolidScenes) -> SolidMap:
    """What a detector without error would say about scenes with at most one part of each kind."""
    pose, there = match_parts(scenes)
    position, scale = pose[..., :3, 3], pose[..., :3, 0].norm(dim=-1)
    size = scenes.images.shape[-1]
    place = map_places(size, size, like=pose)
    view = views(position)
    near = (view[:, :, None, None, :2] - place).norm(dim=-1)  # [N, T, H', W']
    logits = torch.where(near == near.amin((-1, -2), keepdim=True), 12.0, -12.0)
    logits = torch.where(there[:, :, None, None], logits, -12.0)
    rotation = line_of_sight(position).mT @ pose[..., :3, :3] / scale[..., None, None]
    axes = torch.cat([rotation[..., 2], rotation[..., 0]], -1)
    shape = logits.shape

    def everywhere(values: Tensor) -> Tensor:
        return values[:, :, None, None].expand(*shape, *values.shape[2:])

    return SolidMap(logits, everywhere(axes), everywhere(view), everywhere(scale.log()))


def test_views_and_positions_are_inverse() -> None:
    points = torch.randn(50, 3, dtype=torch.float64)
    assert torch.allclose(positions(views(points)), points)


def test_the_line_of_sight_points_to_the_camera() -> None:
    points = 0.8 * torch.randn(50, 3, dtype=torch.float64)
    turned = line_of_sight(points)
    towards = torch.tensor([6.0, 0.0, 0.0]).double() - points
    assert torch.allclose(turned[..., 0], towards / towards.norm(dim=-1, keepdim=True))
    assert torch.allclose(turned.mT @ turned, torch.eye(3).double().expand(50, 3, 3), atol=1e-12)
    assert torch.allclose(torch.linalg.det(turned), torch.ones(50).double())


def test_two_axes_give_the_rotation_back() -> None:
    true = rotations(30)
    assert torch.allclose(orthonormal(torch.cat([true[..., 2], true[..., 0]], -1)), true)
    assert torch.allclose(torch.linalg.det(true), torch.ones(30).double())


def test_a_perfect_map_is_read_as_the_truth_and_has_no_loss() -> None:
    scenes = draw_solids("single", 30)
    found = perfect_map(scenes)
    parts = read_parts(found)
    true, there = match_parts(scenes)
    assert torch.allclose(parts.pose.unflatten(-1, (4, 4))[there], true[there], atol=1e-4)
    assert torch.equal(parts.activation > 0.5, there)
    assert float(solid_loss(found, scenes)) < 1e-3
    quality = measure_solid_parts(parts, scenes)
    assert float(quality.turn.max()) < 0.2
    wrong = found._replace(axes=found.axes.roll(3, -1))
    assert float(solid_loss(wrong, scenes)) > 1


class _Given(nn.Module):
    """A network that says what it is told, whatever it is shown."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, *inputs: Tensor) -> Any:
        return self.answer


def test_the_reader_turns_parts_and_an_uncertain_axis_lowers_the_activation() -> None:
    scenes = draw_solids("single", 10)
    found = perfect_map(scenes)
    true, there = match_parts(scenes)
    axes = found.axes[:, :, 0, 0].flatten(0, 1)  # the same at all places
    wrong = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 0.0]).expand_as(found.axes)
    unknown = found._replace(axes=wrong)
    parts = find_solids(_Given(unknown), _Given(axes), scenes.images)  # type: ignore[arg-type]
    assert torch.allclose(parts.pose.unflatten(-1, (4, 4))[there], true[there], atol=1e-4)
    short = axes * torch.tensor([1.0] * 3 + [0.25] * 3)
    doubtful = find_solids(_Given(unknown), _Given(short), scenes.images)  # type: ignore[arg-type]
    assert torch.allclose(doubtful.pose, parts.pose, atol=1e-4)
    assert torch.allclose(doubtful.activation, 0.25 * parts.activation, atol=1e-4)


def test_windows_show_the_part_in_the_middle_of_both() -> None:
    scenes = draw_solids("parts", 40, options=SolidOptions(parts=1))
    windows = cut_windows(scenes.images.float(), torch.arange(40), scenes.part_pose[:, 0, :3, 3].float())
    assert windows.shape == (40, 2, WINDOW, WINDOW)
    lit = (windows > 5).float()
    places = torch.arange(WINDOW) + 0.5 - WINDOW / 2
    for axis in (2, 3):
        profile = lit.amax(5 - axis)
        low = places[profile.argmax(-1)]
        high = places[WINDOW - 1 - profile.flip(-1).argmax(-1)]
        assert ((low + high) / 2).abs().max() < 4  # the middle of a cone's outline is not its center
        assert ((low + high) / 2).mean().abs() < 0.5


def test_windows_beyond_the_image_are_black() -> None:
    images = torch.full((1, 2, 48, 48), 9.0)
    far = cut_windows(images, torch.zeros(2, dtype=torch.int64), torch.tensor([[0.0, 9, 9], [0, -0.9, 0]]))
    assert float(far[0].max()) == 0
    assert 0 < float((far[1] > 0).float().mean()) < 1


def test_the_reader_learns() -> None:
    torch.manual_seed(0)
    scenes = draw_solids("single", 30)
    detector, reader = _Given(perfect_map(scenes)), SolidReader(len(PARTS), 8)
    train_reader(reader, scenes, steps=60, batch_size=32)
    parts = find_solids(detector, reader, scenes.images)  # type: ignore[arg-type]
    quality = measure_solid_parts(parts, scenes)
    assert float(quality.turn.mean()) < 45  # guessing has 126


def test_the_detector_learns_and_moves_with_the_image() -> None:
    torch.manual_seed(0)
    scenes = draw_solids("parts", 16, options=SolidOptions(parts=2))
    detector = SolidDetector(2, len(PARTS), 4)
    images = scenes.images.float() / 255
    before = float(solid_loss(detector(images), scenes).detach())
    train_solid_parts(detector, scenes, steps=20, batch_size=16)
    assert float(solid_loss(detector(images), scenes).detach()) < 0.8 * before
    # Black images and a shift by 4 pixels: in the middle, everything but the border stays the same.
    blank = torch.zeros(1, 2, 96, 96)
    blank[..., 40:52, 40:52] = torch.rand(2, 12, 12)
    first, second = detector(blank), detector(blank.roll((4, 8), (2, 3)))
    middle = slice(8, 14)
    assert torch.allclose(first.axes[:, :, middle, middle], second.axes[:, :, 9:15, 10:16], atol=1e-4)


def test_the_resnet_has_about_as_many_weights() -> None:
    sizes = [
        sum(weight.numel() for weight in network.parameters())
        for network in (SolidDetector(2, len(PARTS), 24), solid_resnet(24))
    ]
    assert 0.8 < sizes[0] / sizes[1] < 1.25


def test_wholes_from_poses_do_not_depend_on_the_viewpoint() -> None:
    torch.manual_seed(0)
    pose, there = match_parts(draw_solids("single", 20))
    pose, there = pose.double(), there.double()
    move = torch.eye(4).double().repeat(20, 1, 1, 1)
    move[:, 0, :3, :3] = rotations(20)
    capsules, mlp = SolidWholes().double(), SolidMLP().double()
    both = [capsules(each.flatten(-2), there) for each in (pose, move @ pose)]
    assert torch.allclose(*both, atol=1e-6)
    others = [mlp(each.flatten(-2), there) for each in (pose, move @ pose)]
    assert not torch.allclose(*others, atol=1e-2)


def test_turn_errors_are_angles() -> None:
    true = torch.eye(4).expand(3, 4, 4)
    found = true.clone()
    angle = torch.deg2rad(torch.tensor([0.0, 35.0, 120.0]))
    found[:, 0, 0] = found[:, 1, 1] = angle.cos()
    found[:, 1, 0], found[:, 0, 1] = angle.sin(), -angle.sin()
    assert torch.allclose(turn_error(0.4 * found, true), torch.tensor([0.0, 35.0, 120.0]), atol=0.1)


def test_parts_are_found_in_batches() -> None:
    detector, reader = SolidDetector(2, len(PARTS), 4).eval(), SolidReader(len(PARTS), 4).eval()
    images = draw_solids("single", 7).images
    together = find_solids(detector, reader, images)
    apart = find_solids(detector, reader, images, batch_size=3)
    assert torch.allclose(together.pose, apart.pose, atol=1e-3)
    assert together.pose.shape == (7, len(PARTS), 16)


def test_networks_and_world_have_the_same_camera() -> None:
    from torchcaps.data.worlds.toys import cameras
    from torchcaps.models import solid_detector

    assert (solid_detector.DISTANCE, solid_detector.HALF_FIELD) == (cameras.DISTANCE, cameras.HALF_FIELD)
