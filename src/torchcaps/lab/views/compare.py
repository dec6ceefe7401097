"""Compare: two networks on the same input, their reconstructions, and an attack on each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps.attacks import fgsm, pgd
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import SceneOptions, draw_world
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.data.worlds.toys import render
from torchcaps.lab.examples import load_examples
from torchcaps.lab.model_store import LoadedModel, ModelStore
from torchcaps.lab.schemas import (
    AttackedImage,
    ComparedNetwork,
    CompareRequest,
    CompareResponse,
    ExampleDigit,
    ExampleInput,
    InputsResponse,
    PackedImage,
    to_list,
)
from torchcaps.models import Output
from torchcaps.training import predict

WORLDS = {"shapes": SHAPES, "faces": FACES}
EXAMPLES = 10
PGD_STEPS = 10


def compare(store: ModelStore, request: CompareRequest) -> CompareResponse:
    """Show both networks the same image.

    Raises:
        ValueError: the networks read another number of channels than the image has.
    """
    image = read_input(request)
    networks = [store.by_id(each) for each in request.networks]
    for name, network in zip(request.networks, networks):
        if network.card.in_channels != len(image):
            raise ValueError(
                f"{name} reads images with {network.card.in_channels} channels, and this one has {len(image)}"
            )
    return CompareResponse(
        networks=[describe(name, each, image, request) for name, each in zip(request.networks, networks)]
    )


def read_input(request: CompareRequest) -> Tensor:
    """The image as uint8 `[C, H, W]`."""
    if request.toy is None:
        assert request.image is not None
        return request.image.tensor()
    toy = request.toy
    return render(toy.category, toy.instance, toy.azimuth, toy.elevation, toy.lighting)


def describe(name: str, network: LoadedModel, image: Tensor, request: CompareRequest) -> ComparedNetwork:
    """What one network says, before and after an attack on it."""
    seen = network.adapt(image).unsqueeze(0).to(torch.float32) / 255
    model = PixelModel(network)
    output = predict(model, seen)
    scores = network.shown_scores(output)[0]
    best = int(scores.argmax())
    reconstruction = None
    if output.capsules is not None and network.model.decoder is not None:
        reconstruction = network.model.reconstruct(output.capsules, torch.tensor([best]))[0]
    attacked = None
    if request.attack != "none":
        changed = attack(model, seen, best, request)
        after = network.shown_scores(predict(model, changed))[0]
        attacked = AttackedImage(
            best=int(after.argmax()), scores=to_list(after), image=PackedImage.of(changed[0])
        )
    return ComparedNetwork(
        id=name,
        best=best,
        scores=to_list(scores),
        seen=PackedImage.of(seen[0]),
        reconstruction=None if reconstruction is None else PackedImage.of(reconstruction),
        attacked=attacked,
    )


def attack(model: PixelModel, image: Tensor, label: int, request: CompareRequest) -> Tensor:
    """Change the image within ε, away from the class that the network says."""
    target = torch.tensor([label])
    if request.attack == "fgsm":
        return fgsm(model, image, target, request.epsilon)  # type: ignore[arg-type]
    return pgd(
        model,  # type: ignore[arg-type]
        image,
        target,
        request.epsilon,
        steps=PGD_STEPS,
        step_size=2.5 * request.epsilon / PGD_STEPS,
        generator=torch.Generator().manual_seed(0),
    )


class PixelModel(nn.Module):
    """A network with its preprocessing: ε means the same for pixels of every network.

    Args:
        network: the network.
    """

    def __init__(self, network: LoadedModel) -> None:
        super().__init__()
        self.network, self.preprocess = network.model, network.preprocess

    def forward(self, images: Tensor) -> Output:
        """Classify images `[B, C, H, W]` in 0..1."""
        return self.network(self.preprocess.test(images))


def inputs(store: ModelStore, name: str) -> InputsResponse:
    """Images that suit a network: of its data set, as far as they come with the package or can be drawn."""
    network = store.by_id(name)
    data = network.data
    if network.test_images is not None:
        return InputsResponse(source=f"test images of {data}", images=network.test_images())
    if data in WORLDS:
        options = SceneOptions(size=96, scale=(0.45, 0.6), offset=(0.0, 0.3))
        scenes = draw_world(WORLDS[data], "single", EXAMPLES, split="test", options=options)
        names = WORLDS[data].whole.names
        return InputsResponse(
            source=f"test scenes of {data}",
            images=[
                ExampleInput(label=names[int(label)], image=PackedImage.of(image))
                for image, label in zip(scenes.images, scenes.labels)
            ],
        )
    if network.card.in_channels != 1:
        return InputsResponse(source="", images=[])
    digits = [digit for number, digit in enumerate(load_examples().digits) if number % 8 == 1]
    if data == "multimnist":
        return InputsResponse(source="two digits of MNIST", images=[pair(*each) for each in pairs(digits)])
    return InputsResponse(
        source="test digits of MNIST",
        images=[
            ExampleInput(label=str(digit.label), image=PackedImage.of(torch.tensor([digit.image])))
            for digit in digits
        ],
    )


def pairs(digits: list[ExampleDigit]) -> list[tuple[ExampleDigit, ExampleDigit]]:
    """Each digit with the third one after it."""
    return [(digit, digits[(number + 3) % len(digits)]) for number, digit in enumerate(digits)]


def pair(first: ExampleDigit, second: ExampleDigit, shift: int = 6) -> ExampleInput:
    """Two digits over each other, as in MultiMNIST: 36 × 36 pixels."""
    canvas = torch.zeros(1, 36, 36)
    for digit, at in ((first, 1), (second, 1 + shift)):
        canvas[0, at : at + 28, at : at + 28] += torch.tensor(digit.image)
    label = f"{first.label} + {second.label}"
    return ExampleInput(label=label, image=PackedImage.of(canvas))
