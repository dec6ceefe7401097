"""Sentences of the page that state a fact about what is shown: each holds for 40 of 40 inputs."""

from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from support.lab_scenes import random_place, scene_parts
from torchcaps.capsules import Capsules
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import World
from torchcaps.data.worlds.flat.similarity import compose
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.data.worlds.toys.table import SPLIT_INSTANCES
from torchcaps.lab import schemas
from torchcaps.lab.examples import load_examples
from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import ModelStore, load_model_store
from torchcaps.lab.views import attack, clusters, draw, overlap, parts, votes
from torchcaps.layers import CapsuleLayer
from torchcaps.losses import margin_loss
from torchcaps.training.recipe.files import load_recipe

COUNT = 40


def pixels(text: str) -> np.ndarray:
    """The bytes of a response."""
    return np.frombuffer(b64decode(text), np.uint8).astype(float)


@pytest.fixture(scope="module")
def store() -> ModelStore:
    return load_model_store()


@lru_cache
def digits() -> list[schemas.ExampleDigit]:
    """Four digits of each class."""
    examples = load_examples().digits
    return [digit for digit in examples if examples.index(digit) % 8 < 4]


def count(holds: Callable[[schemas.ExampleDigit], bool]) -> int:
    """For how many digits a sentence holds."""
    assert len(digits()) == COUNT
    return sum(holds(digit) for digit in digits())


def test_capsule_lengths_are_from_0_to_1_and_couplings_start_equal(store: ModelStore) -> None:
    """ "Their length, from 0 to 1", "Iteration 1: every position sends the same share to all digits."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        first = np.array(response.couplings[0])
        equal = np.abs(first - first[:1]).max() < 1e-4
        inside = min(response.lengths) >= 0 and max(response.lengths) <= 1
        length = np.linalg.norm(response.pose)  # "16 numbers … Their length"
        return bool(equal and inside and abs(length - response.lengths[response.best]) < 1e-2)

    assert count(holds) == COUNT


def test_the_decoder_draws_from_the_numbers_alone(store: ModelStore) -> None:
    """ "the decoder draws the digit again from the numbers alone"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        request = schemas.TweakRequest(pose=response.pose, target=response.best)
        again = np.array(draw.reconstruct(store, request).reconstruction)
        return bool(np.abs(again - np.array(response.reconstruction)).max() < 5e-3)

    assert count(holds) == COUNT


@pytest.mark.parametrize("choice", votes.CHOICES.values(), ids=lambda choice: "-".join(choice.network))
def test_a_part_sends_most_to_the_digit_it_agrees_with(store: ModelStore, choice: votes.Choice) -> None:
    """ "A part sends most to the digit …", and the first iteration has equal shares."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        routed = votes.route_image(store, choice, digit.image)
        total, right = torch.zeros(()), True
        for step, after in zip(routed.steps, routed.steps[1:]):
            agreement = routed.agreement(step)
            total = total + agreement if choice.measure == "scalar product" else agreement
            coupling = votes.coupling_of(after)
            chosen = coupling.gather(1, total.argmax(1, keepdim=True)).squeeze(1)
            right &= bool((chosen >= coupling.amax(1) - 1e-6).all())
        first = votes.coupling_of(routed.steps[0])
        return right and bool((first - 0.1).abs().max() < 1e-6)

    assert count(holds) == COUNT


@pytest.mark.parametrize("routing", ["dynamic", "draw"])
def test_the_agreement_with_the_winner_rises(store: ModelStore, routing: str) -> None:
    """The picture that Votes opens with, and its second: the farther right the mean, the better the digit."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        request = schemas.VotesRequest(image=digit.image, routing=routing)  # type: ignore[arg-type]
        response = votes.route(store, request)
        first, last = response.iterations[0], response.iterations[-1]
        best = last.activation.index(max(last.activation))
        farthest = all(step.agreement[best] == max(step.agreement) for step in response.iterations)
        return (
            farthest and last.agreement[best] > first.agreement[best] and last.share[best] == max(last.share)
        )

    assert count(holds) == COUNT


@pytest.mark.parametrize("routing", ["em", "heinsen"])
def test_what_the_activation_depends_on(store: ModelStore, routing: str) -> None:
    """ "The activation also depends on how much a digit gets", "… only on what each part sends".

    That of EM is a function of the variances of the votes and of the sum of the weights; that of Heinsen
    (2019), of the weights. The mean agreement is the logarithm of the activation, and with the weighted
    variances v of the votes -Σ (v / (v + ε) + ln (v + ε) + ln 2π) / 2.
    """

    @torch.no_grad()
    def holds(digit: schemas.ExampleDigit) -> bool:
        routed = votes.route_image(store, votes.TWINS[routing], digit.image)
        step, rule = routed.steps[-1], routed.routing
        weight, vote = routed.weight(step), routed.votes.tensor()[0, 0]
        share = (weight / weight.sum(0)).unsqueeze(-1)
        alone = (share * (vote - (share * vote).sum(0)).square()).sum(0)
        variance = alone + rule.gaussian.epsilon
        expected = -(alone / variance + (2 * np.pi * variance).log()).sum(-1) / 2
        expected = expected + torch.nn.functional.logsigmoid(step.logits[0, 0])
        right = torch.allclose(votes.mean_agreement(routed, step), expected, atol=0.01)
        if routing == "em":
            code = vote.shape[-1] * rule.beta_u + variance.log().sum(-1) / 2
            mass = weight.sum(0) * (weight.shape[1] / weight.shape[0] if rule.normalize_mass else 1)
            logit = rule.inverse_temperature_at(rule.iterations - 1) * (rule.beta_a - code * mass)
        else:
            child = routed.activation[0].unsqueeze(-1)
            use, ignore = (routed.votes.expand_rows(each)[0, 0] for each in (rule.beta_use, rule.beta_ignore))
            logit = (use * weight - ignore * (child - weight)).sum(0)
        return bool(right) and torch.allclose(step.activation[0, 0], logit.sigmoid(), atol=1e-3)

    assert count(holds) == COUNT


def test_the_network_of_draw_routes_less_than_its_small_twin(store: ModelStore) -> None:
    """ "This network routes little: in the small network, the answer gets a larger share"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        gets = []
        for choice in (votes.CHOICES["draw"], votes.CHOICES["dynamic"]):
            routed = votes.route_image(store, choice, digit.image)
            weight = routed.weight(routed.steps[-1]).sum(0)
            gets.append(10 * float(weight.max() / weight.sum()))
        return gets[0] < 1.25 < gets[1]

    assert count(holds) == COUNT


def test_why_the_other_digits_stay_high_in_the_small_network(store: ModelStore) -> None:
    """ "cross-entropy, which compares the digits only with each other", "penalizes each … above 0.1"."""
    small, large = (load_recipe(name).to_table() for name in ("mnist-twin-dynamic", "mnist-capsnet-small"))
    assert (small["loss"]["name"], large["loss"]["name"]) == ("cross_entropy", "margin")
    network, loss = store[votes.CHOICES["dynamic"].network], torch.nn.functional.cross_entropy
    lengths = torch.tensor([[0.95, 0.1, 0.0]])
    assert margin_loss(lengths, torch.tensor([0])) == 0
    assert margin_loss(lengths + torch.tensor([0, 0.01, 0]), torch.tensor([0])) > 0, (
        "a length above 0.1 costs"
    )

    def holds(digit: schemas.ExampleDigit) -> bool:
        with torch.no_grad():
            logits = network.model(network.prepare(digit.image)).logits
        target = torch.tensor([digit.label])
        same = torch.allclose(loss(logits, target), loss(logits - 5, target), atol=1e-5)
        rest = []
        for name in ("dynamic", "draw"):
            routed = votes.route_image(store, votes.CHOICES[name], digit.image)
            rest.append(routed.steps[-1].activation.flatten().sort().values[:-1])
        return same and float(rest[0].mean()) > 0.5 and float(rest[1].mean()) < 0.2

    assert count(holds) == COUNT


def test_draw_and_votes_agree(store: ModelStore) -> None:
    def holds(digit: schemas.ExampleDigit) -> bool:
        lengths = draw.recognize(store, schemas.DrawRequest(image=digit.image)).lengths
        request = schemas.VotesRequest(image=digit.image, routing="draw")
        shown = votes.route(store, request).iterations[-1].activation
        return bool(np.abs(np.array(lengths) - np.array(shown)).max() < 2e-4)

    assert count(holds) == COUNT


def test_the_scores_of_the_cnn_add_up_to_1(store: ModelStore) -> None:
    """ "The scores add up to 1, so two equal scores have at most 0.5 each"."""
    images = [np.zeros((36, 36)) for _ in range(COUNT)]
    for image, one, two in zip(images, digits(), reversed(digits())):
        image[:28, :28] += one.image
        image[8:, 8:] += two.image
    sums = [
        sum(overlap.recognize(store, schemas.OverlapRequest(image=np.clip(image, 0, 1).tolist())).cnn.scores)
        for image in images
    ]
    np.testing.assert_allclose(sums, 1, atol=1e-3)


def test_the_scores_under_attack_are_sigmoids(store: ModelStore) -> None:
    """The card of the CNN says: one sigmoid per class, each from 0 to 1."""
    network = store[attack.CNN]
    output = network.model(network.prepare([[0.5] * 28] * 28))
    torch.testing.assert_close(output.scores, torch.sigmoid(output.logits))


@pytest.mark.parametrize("method", ["fgsm", pytest.param("pgd", marks=pytest.mark.slow)])
def test_an_attack_changes_no_pixel_by_more_than_epsilon(store: ModelStore, method: str) -> None:
    """ "changes each of them by at most ε", "The prediction first changes at ε = …"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        request = schemas.AttackRequest(image=digit.image, method=method)  # type: ignore[arg-type]
        response = attack.attack(store, request)
        right = response.epsilons[0] == 0
        for curve in (response.capsules, response.cnn):
            images = pixels(curve.images).reshape(-1, 28, 28) / 255
            change = np.abs(images - np.array(digit.image)).max((1, 2))
            right &= bool((change <= np.array(response.epsilons) + 1 / 255).all())  # images have 8 bits
            others = [
                epsilon
                for epsilon, after in zip(response.epsilons, curve.after, strict=True)
                if after != curve.before
            ]
            right &= curve.changes_at == (min(others) if others else None)
            right &= [int(np.argmax(row)) for row in curve.scores] == curve.after
            if method == "fgsm":  # "Blank paper cannot lose ink": nothing else stays as it was
                image = np.array(digit.image)
                still = np.abs(images[-1] - image) < 1 / 255
                right &= bool(np.isin(image[still], [0, 1]).all() and still.any())
        return right

    assert count(holds) == COUNT


def scrambles() -> list[tuple[str, list[schemas.PlacedPart]]]:
    """The 40 scrambled wholes of the page."""
    shapes = parts.list_shapes()
    found = [(whole.name, wrong) for whole in shapes.wholes for wrong in whole.scrambled]
    assert len(found) == COUNT
    return found


def test_scramble_puts_the_parts_together_in_a_wrong_way() -> None:
    """No two parts stand as they do in any whole."""
    for name, wrong in scrambles():
        kinds = np.array([part.kind for part in wrong])
        assert SHAPES.relation_error(kinds, np.array([part.pose for part in wrong])) >= SHAPES.tolerance, name


def test_a_whole_is_found_and_a_scrambled_one_is_not(store: ModelStore) -> None:
    shapes = parts.list_shapes()
    kept = gone = 0
    for seed, (name, wrong) in enumerate(scrambles()):
        right = next(whole.parts for whole in shapes.wholes if whole.name == name)
        before, after = (
            parts.read(store, schemas.PartsRequest(parts=scene_parts(each, random_place(seed)))).wholes
            for each in (right, wrong)
        )
        kept += [whole.name for whole in before] == [name]
        gone += not after
    assert (kept, gone) == (COUNT, COUNT)


@pytest.mark.parametrize("world", [SHAPES, FACES])
def test_what_the_page_draws_is_what_the_world_has(world: World) -> None:
    """The places of parts in the page's wholes are those of the data set."""
    for row, whole in enumerate(parts.list_shapes(world.name).wholes):
        filled = world.whole.filled[row]
        expected = compose(np.array([1.0, 0, 0, 0]), world.whole.place[row, filled])
        np.testing.assert_allclose([part.pose for part in whole.parts], expected, atol=1e-4)


def test_which_wholes_are_made_of_the_same_parts() -> None:
    """ "House and boat, fish and ice cream, truck and robot …", "Two eyes, a nose and a mouth make …"."""

    def used(world: World) -> dict[str, list[int]]:
        shapes = parts.list_shapes(world.name).wholes
        return {whole.name: sorted(part.kind for part in whole.parts) for whole in shapes}

    shapes, faces = used(SHAPES), used(FACES)
    for one, other in (("house", "boat"), ("fish", "ice cream"), ("truck", "robot")):
        assert shapes[one] == shapes[other]
    eyes_nose_mouth = [0, 0, 1, 2]
    assert FACES.part_names == ("eye", "nose", "mouth")
    assert faces == dict.fromkeys(("face", "bicycle", "boat", "snowman"), eyes_nose_mouth)


def test_the_scores_of_the_cnn_for_wholes_add_up_to_1(store: ModelStore) -> None:
    """ "Its scores add up to 1 (softmax), so it always names a whole"; it names intact wholes right."""
    right = 0
    for seed, (name, wrong) in enumerate(scrambles()):
        whole = next(each for each in parts.list_shapes().wholes if each.name == name)
        scores = [
            parts.read(store, schemas.PartsRequest(parts=scene_parts(each, random_place(seed)))).cnn
            for each in (whole.parts, wrong)
        ]
        np.testing.assert_allclose(np.sum(scores, 1), 1, atol=1e-3)
        right += int(np.argmax(scores[0])) == SHAPES.whole.names.index(name)
    assert right == COUNT


def test_k_means_assigns_each_point_to_the_nearest_mean() -> None:
    """ "Each point belongs to the nearest mean", in the last iteration; and "Of twelve starts"."""
    assert clusters.STARTS == 12
    random = np.random.default_rng(0)
    for seed in range(COUNT):
        points = random.uniform(-1, 1, (30, 2))
        request = schemas.ClustersRequest(
            points=points.tolist(), clusters=3, kind="kmeans", iterations=30, seed=seed
        )
        last = clusters.fit(request).iterations[-1]
        distance = np.linalg.norm(points[:, None] - np.array(last.means), axis=-1)
        chosen = np.take_along_axis(distance, np.argmax(last.assignment, 1)[:, None], axis=1)[:, 0]
        assert (chosen <= distance.min(1) + 1e-3).all()


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "fixed"])
def test_an_iteration_of_em_shares_the_votes_and_then_fits_the_ellipses(kind: str) -> None:
    """ "E step: each vote is shared by the density … times …", "M step: each ellipse takes the mean …"."""
    random = np.random.default_rng(0)
    for seed in range(COUNT):
        points = np.concatenate([random.normal(center, 0.2, (20, 2)) for center in ((-0.5, 0), (0.5, 0.3))])
        request = schemas.ClustersRequest(
            points=points.round(3).tolist(), clusters=2, kind=kind, iterations=4, seed=seed
        )  # type: ignore[arg-type]
        steps, votes_of = clusters.fit(request).iterations, torch.tensor(request.points)
        for before, after in pairwise(steps):
            gaussians = torch.distributions.MultivariateNormal(
                torch.tensor(before.means), torch.tensor(before.covariances)
            )
            density = gaussians.log_prob(votes_of[:, None]).exp() * torch.tensor(before.mass)
            shared = torch.tensor(after.assignment)
            torch.testing.assert_close(density / density.sum(1, keepdim=True), shared, atol=0.02, rtol=0)
            middle = shared.T @ votes_of / shared.sum(0)[:, None]
            torch.testing.assert_close(torch.tensor(after.means), middle, atol=0.01, rtol=0)


def test_a_face_is_found_and_a_scrambled_one_is_not(store: ModelStore) -> None:
    """ "Scrambled, they make none of them": the four wholes of faces, five scrambles each, at two places."""
    kept = gone = 0
    for number in range(COUNT):
        whole = parts.list_shapes("faces").wholes[number % 4]
        place = random_place(number)
        before, after = (
            parts.read(store, schemas.PartsRequest(world="faces", parts=scene_parts(each, place))).wholes
            for each in (whole.parts, whole.scrambled[number // 4 % 5])
        )
        kept += [found.name for found in before] == [whole.name]
        gone += not after
    assert (kept, gone) == (COUNT, COUNT)


def test_the_capsule_that_is_shown_sends_most_to_the_answer(store: ModelStore) -> None:
    """ "In iteration 3 it sends … % to …", "a softmax of the sums gives what it sends now"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        capsule, sent = response.capsule, np.array(response.couplings)
        sums = np.exp(np.sum(capsule.products[:-1], 0))
        right = np.abs(sums / sums.sum() - capsule.shares[-1]).max() < 1e-3
        totals = sent[-1].sum((1, 2))
        return bool(right and capsule.shares[-1][response.best] > 0.1 and totals.argmax() == response.best)

    assert count(holds) == COUNT


def test_the_directions_of_primary_capsules_decide_the_answer(store: ModelStore) -> None:
    """ "All primary capsules are long, also on a blank sheet", "with equal lengths, the answer is …"."""
    network = store[draw.MODEL]

    def children(image: list[list[float]]) -> tuple[CapsuleLayer, Capsules]:
        _, layer, capsules = inspect_last_layer(network.model, network.prepare(image))
        return layer, capsules

    def answer(layer: CapsuleLayer, pose: torch.Tensor) -> int:
        return int(layer.history(Capsules.from_vectors(pose))[-1].activation.argmax())

    def unit(capsules: Capsules) -> torch.Tensor:
        return capsules.pose / capsules.pose.norm(dim=-1, keepdim=True)

    _, blank = children(digits()[0].image[:1] * 28)  # the first row of an image is empty
    assert float(blank.activation.min()) > 0.5
    without = set()  # what the lengths alone give

    @torch.no_grad()
    def holds(digit: schemas.ExampleDigit) -> bool:
        layer, capsules = children(digit.image)
        lengths = capsules.activation.unsqueeze(-1)
        without.add(answer(layer, unit(blank) * lengths))
        same = answer(layer, unit(capsules) * lengths.mean()) == answer(layer, capsules.pose)
        return same and float(lengths.min()) > 0.5

    assert not np.any(digits()[0].image[0])
    assert count(holds) == COUNT == 40
    assert len(without) == 1, "with the directions of a blank sheet, all digits have one answer"


def test_a_square_is_a_weighted_mean_over_the_types(store: ModelStore) -> None:
    """What the card says: "the mean over the 8 capsules at its position, weighted …", "only the middle"."""
    image = digits()[0].image
    response = draw.recognize(store, schemas.DrawRequest(image=image))
    lengths, shares = np.array(response.primary), np.zeros((10, 8))
    place = (2, 3)
    for kind in range(8):
        request = schemas.CapsuleRequest(image=image, row=place[0], column=place[1], type=kind)
        shares[:, kind] = draw.inspect_capsule(store, request).shares[-1]
    ratio = np.array(response.couplings)[(-1, slice(None), *place)] / response.couplings[0][0][2][3]
    weight = lengths[(slice(None), *place)]
    np.testing.assert_allclose(ratio, 10 * shares @ weight / weight.sum(), atol=0.02)
    field = response.field_centers
    corner = field.first - field.step / 2 + 0.5
    assert corner > 5
    assert corner + field.step * response.grid[0] < len(image) - 5


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_dark_marks_show_which_way_up_a_part_is(world: World) -> None:
    """Every part looks different when it is turned by half a turn, also one with a symmetric outline."""
    for kind in range(len(world.parts)):
        upright, turned = (
            parts.draw_parts([schemas.ScenePart(kind=kind, x=0, y=0, angle=angle, scale=0.5)], world)
            for angle in (0, 180)
        )
        assert float((upright - turned).abs().max()) > 0.2, world.parts[kind].name


def test_the_share_of_the_answer_grows(store: ModelStore) -> None:
    """The tour: "From the first iteration to the last, they send a growing share to …"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = votes.route(store, schemas.VotesRequest(image=digit.image))
        last = response.iterations[-1].activation
        shares = [step.share[last.index(max(last))] for step in response.iterations]
        return shares == sorted(shares) and shares[-1] > shares[0]

    assert count(holds) == COUNT


def test_the_twins_differ_in_routing_and_poses_alone() -> None:
    """ "The same network, images and number of training steps; only the routing and the poses … differ"."""

    def rest(name: str) -> dict[str, object]:
        recipe = load_recipe(f"mnist-twin-{name}").to_table()
        options = recipe["model"].get("options", {})
        for key in ("routing", "pose", "pose_dim"):
            options.pop(key, None)
        return {part: recipe.get(part) for part in ("model", "data", "optimizer", "training")}

    twins = [rest(name) for name in votes.TWINS]
    assert all(twin == twins[0] for twin in twins), twins


def test_each_capsule_draws_its_own_digit(store: ModelStore) -> None:
    """ "The two longest capsules are the network's answer, and each of them draws its own reconstruction"."""
    different = 0
    for one, two in zip(digits(), reversed(digits())):
        image = np.zeros((36, 36))
        image[:28, :28] += one.image
        image[8:, 8:] += two.image
        answer = overlap.recognize(
            store, schemas.OverlapRequest(image=np.clip(image, 0, 1).tolist())
        ).capsules
        assert sorted(answer.best) == sorted(np.argsort(answer.lengths)[-2:].tolist())
        first, second = (np.array(each) for each in answer.reconstructions)
        different += np.abs(first - second).max() > 0.3
    assert different == COUNT


def test_an_attack_increases_the_loss(store: ModelStore) -> None:
    """ "in the direction that increases the network's loss", "Each network … with its own gradient"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        answer = attack.attack(store, schemas.AttackRequest(image=digit.image))
        falls = all(
            curve.scores[1][curve.before] < curve.scores[0][curve.before]
            for curve in (answer.capsules, answer.cnn)
        )
        return falls and answer.capsules.images != answer.cnn.images

    assert attack.attack(store, schemas.AttackRequest(image=digits()[0].image, method="pgd")).steps == 10
    assert count(holds) == COUNT


def test_the_scores_of_every_network_are_what_its_card_says(store: ModelStore) -> None:
    """Compare: "each from 0 to 1", "a softmax: the scores add up to 1", "lengths of capsules"."""
    random = np.random.default_rng(0)
    for info in store.info():
        network = store[info.model, info.data]
        shape = (info.in_channels, *info.image_size)
        for _ in range(COUNT // 10):  # ten images at a time
            images = torch.tensor(random.random((10, *shape)), dtype=torch.float32)
            with torch.no_grad():
                output = network.model.eval()(images)
            scores = network.shown_scores(output)
            assert scores.min() >= 0, info.id
            assert scores.max() <= 1 + 1e-5, info.id
            if info.scores == "softmax":
                torch.testing.assert_close(scores.sum(1), torch.ones(10), atol=1e-4, rtol=0)
            if info.scores == "lengths":
                assert output.capsules is not None
                lengths = output.capsules.pose.flatten(2).norm(dim=-1)
                torch.testing.assert_close(scores, lengths, atol=1e-3, rtol=0)


def test_the_wholes_that_parts_predict_agree(store: ModelStore) -> None:
    """ "it finds the parts, and each part predicts its whole", "the wholes that they predict agree"."""
    close = 0
    for seed, (name, _) in enumerate(scrambles()):
        whole = next(each for each in parts.list_shapes().wholes if each.name == name)
        answer = parts.read(store, schemas.PartsRequest(parts=scene_parts(whole.parts, random_place(seed))))
        members = [part for part in answer.parts if part.whole == 0]
        predicted = np.array([part.votes[answer.wholes[0].kind] for part in members])
        apart = np.abs(predicted - np.array(answer.wholes[0].pose)).max()
        close += len(members) >= 2 and apart < 0.25
    assert close == COUNT


def test_the_toys_of_the_curves_were_not_used_in_training() -> None:
    """ "test toys, not used in training"."""
    assert not set(SPLIT_INSTANCES["train"]) & set(SPLIT_INSTANCES["test"])


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_a_type_is_found_from_the_line_on(store: ModelStore, world: World) -> None:
    """ "From the line, 0.5, on it is found", and "a whole can have a higher presence than … its parts"."""
    wholes = parts.list_shapes(world.name).wholes
    marked = surer = 0
    for number in range(COUNT):
        whole = wholes[number % len(wholes)]
        for placed in (whole.parts, whole.scrambled[number // len(wholes) % 5]):
            scene = scene_parts(placed, random_place(number))
            answer = parts.read(store, schemas.PartsRequest(world=world.name, parts=scene))  # type: ignore[arg-type]
            found = {each.kind: each.presence for each in answer.wholes}
            above = {kind: each for kind, each in enumerate(answer.presence) if each >= answer.threshold}
            marked += above == pytest.approx(found, abs=1e-3)
            if placed is whole.parts:
                members = [part.presence for part in answer.parts if part.whole == 0]
                surer += answer.wholes[0].presence > max(members)
    assert (marked, surer) == (2 * COUNT, COUNT)


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_what_has_size_1_fits_into_the_picture(world: World) -> None:
    """ "Size 1 fits into the picture", whose coordinates go from -1 to 1: upright parts and all wholes."""
    shapes = parts.list_shapes(world.name)
    outlines = [np.array(part.outline) for part in shapes.parts]
    for outline in outlines:
        assert np.abs(outline).max() <= 1 + 1e-6
    for whole in shapes.wholes:
        for part in whole.parts:
            a, b, x, y = part.pose
            turned = outlines[part.kind] @ np.array([[a, b], [-b, a]]) + (x, y)
            assert np.abs(turned).max() <= 1 + 1e-6, whole.name


def test_a_house_and_a_boat_make_a_harbor(store: ModelStore) -> None:
    """ "a house with a boat on its right is a harbor": in the table of the world, and in the first scene."""
    table = SHAPES.group
    row = table.names.index("harbor")
    members = [SHAPES.whole.names[kind] for kind in table.member[row][table.filled[row]]]
    assert members == ["house", "boat"]
    (left, low, *_), (right, height, *_) = table.place[row][table.filled[row]][:, 2:]
    assert left < right
    assert low == pytest.approx(height)
    shapes = parts.list_shapes().wholes
    scene = scene_parts(shapes[0].parts, (-0.48, 0, 0, 0.5)) + scene_parts(shapes[1].parts, (0.42, 0, 0, 0.5))
    found = parts.read(store, schemas.PartsRequest(parts=scene))
    assert [group.name for group in found.groups] == ["harbor"]


def test_the_full_color_is_the_largest_difference(store: ModelStore) -> None:
    """ "Full color: the largest difference in this picture"; the page shows the square root."""
    largest = 0
    for one, two in zip(digits(), reversed(digits())):
        image = np.zeros((36, 36))
        image[:28, :28] += one.image
        image[8:, 8:] += two.image
        request = schemas.OverlapRequest(image=np.clip(image, 0, 1).tolist())
        lead = overlap.recognize(store, request).capsules.lead
        largest += np.abs(lead).max() == pytest.approx(1)
    assert largest == COUNT


def test_shared_weights_are_the_same_at_all_places(store: ModelStore) -> None:
    """ "all places of the image vote with the same matrices": a larger image needs no more of them."""
    shared, dense = (store[key].model for key in (attack.CAPSULES, draw.MODEL))
    places = len(shared.features(torch.zeros(1, 1, 28, 28)).flatten(2)[0, 0])
    assert places > 1
    assert all(places not in weight.shape for weight in shared.classes.parameters())
    output = shared(torch.zeros(1, 1, 40, 40))
    assert output.scores.shape == (1, 10)
    assert not dense.any_size
