import pytest
import torch

from torchcaps import Instances
from torchcaps.data.worlds.flat import SceneOptions, SceneStream, draw_world
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.wholes import training
from torchcaps.experiments.wholes.parsing import true_parts
from torchcaps.experiments.wholes.parts import measure_parts, part_loss, train_parts
from torchcaps.experiments.wholes.training import find_all_parts, measure_wholes, train_wholes, whole_loss
from torchcaps.layers import ConstellationCaps
from torchcaps.models import PartsCapsNet
from torchcaps.models.part_detector import PartDetector, PartMap, place_coordinates

SIZE = 32


def truth_map(scenes, confidence: float = 9.0) -> PartMap:
    """What a detector without errors says, written place by place."""
    place = place_coordinates(SIZE, SIZE, like=torch.zeros(1))
    count, kinds = len(scenes), len(SHAPES.parts)
    logits = torch.full((count, kinds, *place.shape[:2]), -confidence)
    pose = torch.zeros(count, kinds, *place.shape[:2], 4)
    nearest = torch.full(logits.shape, torch.inf)
    for b in range(count):
        for kind, true, mask in zip(scenes.part_type[b], scenes.part_pose[b].float(), scenes.part_mask[b]):
            if mask:
                distance = (place - true[2:]).norm(dim=-1)
                closer = distance < nearest[b, kind]
                nearest[b, kind][closer] = distance[closer]
                pose[b, kind][closer] = true
                logits[b, kind].flatten()[distance.argmin()] = confidence
    return PartMap(logits, pose)


class Perfect(PartDetector):
    """Says the truth."""

    def __init__(self, scenes) -> None:
        super().__init__(1, 3, channels=1)
        self.scenes = scenes

    def forward(self, images):
        return truth_map(self.scenes)


@pytest.fixture
def scenes():
    return draw_world(SHAPES, "parts", 6, options=SceneOptions(size=SIZE, parts=2))


def test_the_truth_has_no_loss_and_errors_have(scenes) -> None:
    exact = truth_map(scenes)
    assert float(part_loss(exact, scenes)) < 0.01
    assert float(part_loss(PartMap(-exact.logits, exact.pose), scenes)) > 5
    assert float(part_loss(PartMap(exact.logits, exact.pose + 0.2), scenes)) > 1
    absent = PartMap(torch.full_like(exact.logits, -9.0), exact.pose)
    assert float(part_loss(absent, scenes)) == pytest.approx(9, abs=0.1)  # 9 per part


def test_padding_is_no_part() -> None:
    single = draw_world(SHAPES, "single", 12, options=SceneOptions(size=SIZE))
    assert not single.part_mask.all()
    assert float(part_loss(truth_map(single), single)) < 0.05


def test_a_detector_without_errors_has_full_marks(scenes) -> None:
    quality = measure_parts(Perfect(scenes), scenes)
    assert quality.recall == quality.precision == 1
    assert quality.place == pytest.approx(0, abs=1e-4)
    assert quality.turn == pytest.approx(0, abs=1e-4)


def test_a_detector_learns(scenes) -> None:
    torch.manual_seed(0)
    detector = PartDetector(1, 3, channels=4)
    before = float(part_loss(detector(scenes.images.float() / 255), scenes).detach())
    options = SceneOptions(size=SIZE, parts=2)
    train_parts(detector, SceneStream(SHAPES, "parts", batch_size=16, batches=60, options=options))
    after = float(part_loss(detector.eval()(scenes.images.float() / 255), scenes).detach())
    assert after < 0.8 * before


def test_wholes_learned_upright_are_known_upside_down() -> None:
    """From true parts and class labels within ±30°: the poses carry it to all angles."""

    def parts_of(seed: int, **options) -> tuple[Instances, torch.Tensor]:
        drawn = draw_world(SHAPES, "single", 300, seed=seed, options=SceneOptions(size=8, **options))
        pose = torch.where(drawn.part_mask[..., None], drawn.part_pose, torch.tensor([1.0, 0, 0, 0])).float()
        return Instances(drawn.part_type * drawn.part_mask, pose, drawn.part_mask.float()), drawn.labels

    torch.manual_seed(0)
    layer = ConstellationCaps(3, 8)
    parts, target = parts_of(0, angle=(-30, 30))
    train_wholes(layer, parts, target, steps=30, batch_size=50)
    far, labels = parts_of(1, angle=(150, 210))
    with torch.no_grad():
        assert float((layer(far).logits.argmax(1) == labels).float().mean()) > 0.98


def test_slots_of_kinds_that_a_type_does_not_have_get_emptier(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_world(SHAPES, "single", 120, seed=0, options=SceneOptions(size=8, angle=(-30, 30)))
    parts = true_parts(drawn)

    def filled(cost: float) -> torch.Tensor:
        monkeypatch.setattr(training, "SLOT_COST", cost)
        torch.manual_seed(0)
        layer = ConstellationCaps(3, 8)
        train_wholes(layer, parts, drawn.labels, steps=20, batch_size=30)
        return torch.sigmoid(layer.filled_logit.detach())

    cost = training.SLOT_COST
    free, costly = filled(0.0), filled(cost)
    ellipse, house_and_boat = 2, slice(0, 2)
    assert (costly[ellipse, house_and_boat] < free[ellipse, house_and_boat]).all()
    assert (costly[:2, house_and_boat, 0] > 0.5).all()  # wall and roof, hull and sail stay


def test_whole_loss_prefers_the_true_type_over_others_and_nothing() -> None:
    target = torch.tensor([1])
    right, nothing, wrong = (torch.tensor([values]) for values in ([0.0, 9.0], [-9.0, -9.0], [9.0, 0.0]))
    assert whole_loss(right, target) < min(whole_loss(nothing, target), whole_loss(wrong, target))


def test_measures_every_condition() -> None:
    torch.manual_seed(0)
    model = PartsCapsNet(num_classes=8, in_channels=1, image_size=64, channels=2)
    result = measure_wholes(model, SHAPES, count=10)
    assert all(0 <= share <= 1 for share in result.values())
    assert find_all_parts(model, torch.rand(5, 1, 64, 64), batch_size=2).kind.shape == (5, 24)
