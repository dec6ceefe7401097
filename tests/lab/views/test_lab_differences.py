"""How often the networks of a view differ: what was recorded is what the shipped weights say."""

import json
from itertools import islice

import numpy as np
import pytest
from starlette.testclient import TestClient

from torchcaps.data.worlds.toys.table import SPLIT_INSTANCES
from torchcaps.lab import differences
from torchcaps.lab.model_store import ModelStore, load_model_store
from torchcaps.lab.views import parts
from torchcaps.models import list_pretrained

MEASURED = json.loads(differences.FILE.read_text(encoding="utf-8"))
SOME = 12  # inputs that are measured again


@pytest.fixture(scope="module")
def trained() -> ModelStore:
    return load_model_store()


def test_the_record_is_of_the_shipped_weights() -> None:
    assert MEASURED["sha256"] == differences.weights_of(), "run python -m torchcaps.lab.differences again"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.endswith("pgd") else ())
        for name in differences.MEASUREMENTS
    ],
)
def test_the_outcomes_are_those_of_the_networks(trained: ModelStore, name: str) -> None:
    again = "".join(islice(differences.MEASUREMENTS[name](trained), SOME))
    # Another processor may round a score that is almost a tie in another way.
    assert sum(one != two for one, two in zip(again, MEASURED[name])) <= 1, (again, MEASURED[name][:SOME])


@pytest.mark.parametrize("method", ["fgsm", pytest.param("pgd", marks=pytest.mark.slow)])
def test_the_changed_answers_are_those_of_the_networks(
    trained: ModelStore, client: TestClient, method: str
) -> None:
    letters = MEASURED["changes"][method]
    again = list(islice(differences.attack_changes(trained, method), SOME))
    off = sum(one != two for new, old in zip(again, letters) for one, two in zip(new, old))
    assert off <= SOME // 4, "almost ties"
    shown = client.get("/api/differences").json()["changes"][method]
    assert shown["count"] == len(letters)
    for network, letter in (("capsules", "c"), ("cnn", "n")):
        for at, count in enumerate(shown[network]):
            assert count == sum(each[at] in ("b", letter) for each in letters)
    assert (
        "".join(next((one for one in each if one != "-"), "-") for each in letters)
        == MEASURED[f"attack {method}"]
    )


def test_the_page_gets_the_counts(client: TestClient) -> None:
    counts = client.get("/api/differences").json()
    shown = {
        "overlap": counts["overlap"],
        "toy": counts["toy"],
        **{f"attack {method}": outcomes for method, outcomes in counts["attack"].items()},
        **{f"compare {method}": outcomes for method, outcomes in counts["compare"].items()},
        **{
            f"{world} {name}": found[name]
            for world, found in counts["wholes"].items()
            for name in differences.WHOLES
        },
    }
    assert set(shown) == set(differences.MEASUREMENTS)
    for name, outcomes in shown.items():
        letters = MEASURED[name]
        assert outcomes["count"] == len(letters) == sum(list(outcomes.values())[1:])
        assert (outcomes["both"], outcomes["capsules"]) == (letters.count("b"), letters.count("c"))
        assert (outcomes["cnn"], outcomes["neither"]) == (letters.count("n"), letters.count("-"))


def test_random_images_of_toys_are_like_the_test_set() -> None:
    """The counts of Turn a toy and the errors on the cards: less than two standard errors apart."""
    letters = MEASURED["toy"]
    for model, right in (("matrix_capsnet_small", "bc"), ("pooled_cnn", "bn")):
        entry = next(each for each in list_pretrained() if (each["model"], each["data"]) == (model, "toys"))
        error = entry["metrics"]["test"]["error"]
        counted = sum(letter not in right for letter in letters) / len(letters)
        assert abs(counted - error) < 2 * (error * (1 - error) / len(letters)) ** 0.5, model


def test_a_turn_and_light_both_move_the_pose(trained: ModelStore, client: TestClient) -> None:
    """ "A turn moves the pose farther than the light in … So the light changes it too, but less"."""
    moves = np.array(MEASURED["poses"])
    assert moves.shape == (5 * len(SPLIT_INSTANCES["test"]), 2)
    assert moves.min() > 0.1
    shown = client.get("/api/differences").json()["poses"]
    assert [shown["turn"], shown["light"]] == pytest.approx(np.median(moves, 0).tolist(), abs=1e-4)
    assert 0.5 < shown["light"] / shown["turn"] < 1
    assert shown["more_by_turn"] == sum(moves[:, 0] > moves[:, 1]) > 0.8 * len(moves)
    again = list(islice(differences.pose_moves(trained), 3))
    np.testing.assert_allclose(again, moves[:3], atol=5e-3)


def test_strong_colors_lie_on_the_digit_more_often(
    trained: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "of the squares on ink of one digit alone, … send more to that digit, and … of those with …"."""
    places = MEASURED["places"]
    assert 0.5 < places["right"] / places["squares"] < places["clear_right"] / places["clear"]
    right = [letter in "bc" for letter in MEASURED["overlap"]]
    assert places["pairs"] == sum(right)
    monkeypatch.setattr(differences, "PAIRS", 20)
    some = differences.vote_places(trained)
    assert some["pairs"] == pytest.approx(sum(right[:20]), abs=1)
    assert some["right"] / some["squares"] == pytest.approx(places["right"] / places["squares"], abs=0.1)


@pytest.mark.parametrize("world", parts.WORLDS)
def test_both_networks_are_measured_on_the_scenes_of_the_lab(
    trained: ModelStore, client: TestClient, world: str
) -> None:
    """ "Both errors were measured on the same pictures of one whole": those of the card of the CNN."""
    shown = client.get("/api/differences").json()["wholes"][world]
    cnn = trained[parts.CNN, world].info()
    assert cnn.tested is not None
    assert (shown["scale"], shown["offset"]) == (cnn.tested.scale, cnn.tested.offset)
    assert cnn.tested.size == parts.SIZE
    named = shown["named"]
    assert named["count"] == cnn.metrics["count"]
    error = 1 - (named["both"] + named["cnn"]) / named["count"]
    assert error == pytest.approx(cnn.metrics["error"], abs=1e-3)


@pytest.mark.parametrize("world", parts.WORLDS)
def test_scenes_of_the_counts_are_scrambled_or_intact(world: str) -> None:
    """ "Of … scrambled wholes", "Of … intact ones": none of the first holds a whole, all others hold one."""
    scrambled, intact = (
        next(differences.world_scenes(world, kind, options))
        for kind, options in (("scrambled", differences.SCRAMBLED), ("single", differences.INTACT))
    )
    assert not scrambled.whole_mask.any()
    assert (intact.whole_mask.sum(1) == 1).all()
