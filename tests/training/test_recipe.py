import dataclasses
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchcaps import list_routings
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import create_model
from torchcaps.routing import DynamicRouting
from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.recipe.files import list_recipes, load_recipe
from torchcaps.training.recipe.toml import format_toml, parse_toml, parse_value

SHAPES = {
    "mnist": (10, 1, (28, 28)),
    "fashion_mnist": (10, 1, (28, 28)),
    "cifar10": (10, 3, (32, 32)),
    "digits": (10, 1, (16, 16)),
    "multimnist": (10, 1, (36, 36)),
    "smallnorb": (5, 2, (48, 48)),
    "toys": (5, 2, (48, 48)),
}
names = st.text(min_size=1, max_size=4)
plain = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), names
)
values = st.one_of(plain, st.lists(plain, max_size=2), st.dictionaries(names, plain, min_size=1, max_size=2))
tables = st.dictionaries(names, values, min_size=1, max_size=3)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, tables, max_size=2), st.dictionaries(names, plain, max_size=2))
def test_toml_reads_what_it_wrote(sections: dict, top: dict) -> None:
    table = {**top, **sections}
    assert parse_toml(format_toml(table), "x") == table


@given(plain.filter(lambda value: not isinstance(value, str)))
def test_a_setting_is_read_as_its_type(value: object) -> None:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@pytest.mark.parametrize("name", sorted(list_recipes()))
def test_shipped_recipe_is_complete_and_builds_its_model(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.description
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    classes, channels, size = SHAPES[recipe.data.name]
    size = Preprocess.from_options(recipe.data.preprocess).output_size(size)
    create_model(
        recipe.model.name, num_classes=classes, in_channels=channels, image_size=size, **recipe.model.options
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.epoch=3", "did you mean 'training.epochs'"),
        ("trainng.epochs=3", "did you mean 'training.epochs'"),
        ("epochs=3", "did you mean 'training.epochs'"),
        ("optimiser.name=sgd", "did you mean 'optimizer.name'"),
        ("training.epochs=many", "training.epochs must be a whole number"),
        ("training.epochs=0", "training.epochs must be a whole number of at least 1"),
        ("training.compile=1", "true or false"),
        ("loss.name=spred", "did you mean 'spread'"),
        ("optimizer.lr=nan", "finite"),
        ("data.val_fraction=1.0", "below 1"),
        ("data.resample_each_epoch=true", "not random"),
        ("data={name='multimnist', resample_each_epoch=true, val_fraction=0.1}", "exclude each other"),
        ("seed", "key=value"),
        ("seed.x=1", "unknown recipe key"),
        (
            "routing.k=2",
            r"'routing\.k': an option of the model or of its routing is written model\.options\.k,",
        ),
        ("model.k=2", r"is written model\.options\.k, one of the data set data\.options\.k"),
        ("k=2", r"is written model\.options\.k,"),
        ("routing.lr=2", r"'routing\.lr': did you mean 'optimizer\.lr'\? Nearest: "),
        ("optimizer.lrr=2", r"'optimizer\.lrr': did you mean 'optimizer\.lr'\? Nearest: "),
        ("model=capsnet", "model must be a table"),
    ],
)
def test_a_wrong_setting_gives_a_helpful_error(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        default_recipe("capsnet", "mnist").override([setting])


def test_the_file_is_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[model]\nname = 'capsnet'\n")
    with pytest.raises(ValueError, match=r"mine\.toml: the recipe has no data"):
        Recipe.from_file(path)


@pytest.mark.parametrize("content", [b"name = '\xff'", b"\x80\x81", "name = 'é'".encode("latin-1")])
def test_a_file_that_is_not_text_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"mine\.toml is not TOML: it is not UTF-8 text") as fault:
        Recipe.from_file(path)
    assert fault.type is ValueError


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "{b = " * 20_000])
def test_deep_nesting_is_an_error_of_the_recipe(text: str) -> None:
    with pytest.raises(ValueError, match="the recipe is not TOML"):
        Recipe.from_toml(text)


def test_an_object_among_the_options_is_refused_with_both_ways_out() -> None:
    options = {"routing": DynamicRouting()}
    with pytest.raises(ValueError, match=r"options\.routing is a DynamicRouting, .*register_routing.*fit"):
        Recipe.from_table({"model": {"name": "capsnet", "options": options}, "data": {"name": "mnist"}})


def test_every_key_can_be_set() -> None:
    recipe = default_recipe("capsnet", "mnist")
    for part in dataclasses.fields(recipe):
        section = getattr(recipe, part.name)
        if dataclasses.is_dataclass(section):
            for key in dataclasses.fields(section):
                value = getattr(section, key.name)
                if isinstance(value, (int, float)):
                    assert recipe.override([f"{part.name}.{key.name}={str(value).lower()}"]) == recipe


def test_defaults_follow_the_papers() -> None:
    shared, capsnet = default_recipe("shared_capsnet", "mnist"), default_recipe("capsnet", "mnist")
    assert (shared.loss.name, shared.loss.absent_weight, shared.evaluation.extra_datasets) == (
        "margin",
        0.25,
        ["two_digits"],
    )
    assert (capsnet.loss.absent_weight, capsnet.loss.reconstruction) == (0.5, 0.0005)
    assert capsnet.data.preprocess == {"translate": 2}
    norb = default_recipe("capsnet_small", "smallnorb")
    assert norb.loss.reconstruction == 0, "standardized pixels cannot be drawn by a sigmoid"
    with pytest.raises(ValueError, match="did you mean 'capsnet'"):
        default_recipe("capsnett", "mnist")


@pytest.mark.parametrize("routing", list_routings())
def test_the_default_loss_fits_the_routing(routing: str) -> None:
    """The margin loss is about lengths: with EM, whose activations are none, capsnet hardly learns."""
    lengths = routing in ("uniform", "dynamic", "kmeans", "self_attention")
    expected = "margin" if lengths else "cross_entropy"
    assert default_recipe("capsnet_small", "mnist", routings=[routing]).loss.name == expected
    assert default_recipe("shared_capsnet", "mnist", routings=["dynamic", routing]).loss.name == expected
    assert default_recipe("matrix_capsnet", "mnist", routings=[routing]).loss.name == "cross_entropy"


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ([], "margin"),
        (["model.options.routing=em"], "cross_entropy"),
        (["model.options.routing = 'em'"], "cross_entropy"),
        (["model.options.routing=dynamic,em"], "cross_entropy"),
        (["model.options.routing=kmeans"], "margin"),
    ],
)
def test_the_command_line_gives_a_model_without_a_recipe_a_fitting_loss(settings: list, loss: str) -> None:
    from torchcaps.cli.train import choose_recipe

    recipe, _ = choose_recipe(None, "capsnet_small", "mnist", settings)
    assert recipe.loss.name == loss
    assert recipe.override(["loss.name=spread"]).loss.name == "spread"
    named, _ = choose_recipe("mnist-capsnet", None, None, settings)
    assert named.loss.name == "margin", "a recipe is taken at its word"
