"""Damaged files for every parser: only errors of the library may come out, in a sentence.

Parsers run in a process of their own with limited memory, so that a crash, a hang or an allocation without
limit is found too.
"""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torture.mutations import damage, damage_json_text, damage_safetensors

SECONDS_PER_INPUT = 20
MEMORY = 6 << 30


@dataclass
class Target:
    """A parser and files that it can read.

    Attributes:
        read: reads the file at a path.
        files: name and content of good files.
        damage: how to damage a content.
    """

    read: Callable[[Path], object]
    files: dict[str, bytes]
    damage: Callable[[bytes, random.Random], bytes] = damage


def idx() -> Target:
    from torchcaps.data.formats.idx import read_idx

    plain = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (5, 8, 8)) + bytes(range(64)) * 5
    return Target(read_idx, {"images": plain, "images.gz": gzip.compress(plain, mtime=0)})


def norb() -> Target:
    import numpy as np

    from torchcaps.data.formats.matrix import read_matrix, write_matrix

    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.mat"
        write_matrix(path, np.arange(2 * 2 * 9 * 9).reshape(2, 2, 9, 9).astype(np.uint8))
        pixels = path.read_bytes()
        write_matrix(path, np.arange(40, dtype=np.int32))
        labels = path.read_bytes()
    return Target(read_matrix, {"dat.mat": pixels, "cat.mat": labels, "cat.mat.gz": gzip.compress(labels)})


def cifar() -> Target:
    from torchcaps.data.formats.cifar import parse_cifar

    def read(path: Path) -> object:
        return parse_cifar(bytearray(path.read_bytes()), path)

    return Target(read, {"batch.bin": (b"\x03" + bytes(3072)) * 2})


def affnist() -> Target:
    import numpy as np
    import scipy.io

    from torchcaps.data.formats.affnist import read_affnist

    record = {"image": np.zeros((1600, 3), np.uint8), "label_int": np.array([[1, 2, 3]], np.uint8)}
    files = {}
    for name, packed in (("plain.mat", False), ("packed.mat", True)):
        stream = io.BytesIO()
        scipy.io.savemat(stream, {"affNISTdata": record}, do_compression=packed)
        files[name] = stream.getvalue()
    return Target(read_affnist, files)


def images() -> Target:
    import numpy as np
    from PIL import Image

    from torchcaps.data.formats.images import common_form, read_image

    def read(path: Path) -> object:
        common_form([path], None)
        return read_image(path, (12, 12), gray=True), read_image(path, (9, 16), gray=False)

    pixels = np.random.default_rng(0).integers(0, 256, (20, 16, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.fromarray(pixels)
    pictures = {
        "a.png": picture, "b.jpg": picture, "c.bmp": picture, "d.gif": picture.convert("P"), "e.tif": picture,
        "f.webp": picture, "g.ppm": picture, "h.png": picture.convert("RGBA"), "i.pgm": picture.convert("L"),
        "j.tif": Image.fromarray(pixels[..., 0].astype(np.float32)),
        "k.png": Image.fromarray(pixels[..., 0].astype(np.uint16) * 200),
    }  # fmt: skip
    files = {}
    formats = {".jpg": "JPEG", ".tif": "TIFF", ".ppm": "PPM", ".pgm": "PPM"}
    for name, image in pictures.items():
        stream = io.BytesIO()
        suffix = Path(name).suffix
        options: dict[str, Any] = {"exif": exif} if suffix in (".png", ".jpg", ".webp") else {}
        image.save(stream, formats.get(suffix, suffix[1:].upper()), **options)
        files[name] = stream.getvalue()
    return Target(read, files)


def recipes() -> Target:
    from torchcaps.training.recipe import Recipe
    from torchcaps.training.recipe.files import list_recipes

    def read(path: Path) -> object:
        recipe = Recipe.from_file(path)
        return Recipe.from_toml(recipe.to_toml()), recipe.override([path.read_text().splitlines()[0]])

    return Target(read, {path.name: path.read_bytes() for path in list_recipes().values()})


def settings() -> Target:
    from support.tiny_runs import tiny_recipe

    def read(path: Path) -> object:
        return tiny_recipe(*path.read_bytes().decode("latin-1").split("\n"))

    text = 'model.options.channels=[4, 4, 2]\noptimizer.lr=0.01\ntraining.epochs=3\ndata.name="digits"'
    return Target(read, {"settings": text.encode(), "one": b"schedule.name=cosine"})


def weights() -> Target:
    from torchcaps.models.weights import ModelCard, load_weights, save_weights

    cards = {
        "cnn.safetensors": ModelCard(
            "pooled_cnn", {"stages": [[2], [2]], "hidden": 4}, 2, 1, (16, 16), ("a", "b")
        ),
        "caps.safetensors": ModelCard(
            "shared_capsnet", {"stages": [[2], [2]], "class_dim": 4}, 2, 1, (16, 16), ("a", "b")
        ),
    }
    files = {}
    with TemporaryDirectory() as folder:
        for name, card in cards.items():
            save_weights(Path(folder) / name, card.build(), card)
            files[name] = (Path(folder) / name).read_bytes()
    return Target(load_weights, files, damage_safetensors)


def states() -> Target:
    import torch
    from torch import nn

    from torchcaps.training.checkpoint import Position, load_state, new_totals, save_state
    from torchcaps.training.optim import EMA

    def parts() -> tuple[Any, ...]:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        return model, optimizer, EMA(model, 0.9), {"epoch": new_totals()}

    def read(path: Path) -> object:
        return load_state(path, *parts())

    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        save_state(path, Position(1, 2, 3), *parts())
        return Target(read, {"state.safetensors": path.read_bytes()}, damage_safetensors)


def results() -> Target:
    from torchcaps.training.publish.page import results_page

    def read(path: Path) -> object:
        return results_page(path.parent)

    folder = Path(__file__).parents[2] / "results"
    some = sorted(folder.glob("*.json"))[:4]
    return Target(read, {path.name: path.read_bytes() for path in some}, damage_json_text)


TARGETS: dict[str, Callable[[], Target]] = {
    "idx": idx,
    "norb": norb,
    "cifar": cifar,
    "affnist": affnist,
    "images": images,
    "recipes": recipes,
    "settings": settings,
    "weights": weights,
    "states": states,
    "results": results,
}


def is_own_error(error: Exception) -> bool:
    """Whether an error is one that users are meant to read."""
    from torchcaps.errors import DataError, RunError

    return type(error) in (DataError, RunError, ValueError) and len(str(error).split()) >= 3


def parse_one(name: str, target: Target, number: int, folder: Path) -> tuple[str, int]:
    """Damage one file and read it; returns what went wrong (empty if nothing did), and the bytes read."""
    choose = random.Random(f"{name} {number}")
    file = choose.choice(sorted(target.files))
    content = target.damage(target.files[file], choose)
    path = folder / file
    path.write_bytes(content)

    def too_slow(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS_PER_INPUT)
    try:
        target.read(path)
    except TimeoutError:
        return f"it takes more than {SECONDS_PER_INPUT} s", len(content)
    except Exception as error:
        if not is_own_error(error):
            return f"{type(error).__name__}: {error}"[:300], len(content)
    finally:
        signal.alarm(0)
        path.unlink()
    return "", len(content)


def work(name: str, first: int, least: int, pipe: Connection) -> None:
    """Parse damaged files until `least` bytes are parsed; sends numbers before, and results after each."""
    import warnings

    warnings.simplefilter("ignore")
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    target = TARGETS[name]()
    done, number = 0, first
    with TemporaryDirectory() as folder:
        for file, content in target.files.items():
            path = Path(folder) / file
            path.write_bytes(content)
            target.read(path)  # a good file is read, or this part tries nothing
            path.unlink()
        pipe.send(("ready",))
        while done < least:
            pipe.send(("trying", number))
            fault, size = parse_one(name, target, number, Path(folder))
            done += size
            number += 1
            pipe.send(("done", size, fault))
    pipe.send(("end",))


def run(seed: int, least: int, progress: Callable[[int], None]) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Counts, and the inputs that were not handled well."""
    total: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    for name in TARGETS:
        first, done = seed * 10**7, 0
        while done < least:
            first, done = run_worker(name, first, least, done, total, kept, progress)
    return total, kept


def run_worker(
    name: str,
    first: int,
    least: int,
    done: int,
    total: Counter[str],
    kept: list[dict[str, Any]],
    progress: Callable[[int], None],
) -> tuple[int, int]:
    """One process on one format; it ends when enough bytes are parsed, or by a crash."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, first, least - done, sender))
    process.start()
    sender.close()
    number, fault, ready = first, "", False
    try:
        while True:
            if not receiver.poll(6 * SECONDS_PER_INPUT):
                fault = "it hangs"
                break
            event = receiver.recv()
            if event[0] == "end":
                break
            if event[0] == "ready":
                ready = True
                continue
            if event[0] == "trying":
                number = event[1]
                continue
            total["cases"] += 1
            total["bytes"] += event[1]
            done += event[1]
            progress(min(event[1], least))
            if event[2]:
                total["failures"] += 1
                kept.append({"case": f"{name}:{number}", "what": event[2]})
    except EOFError:
        process.join()
        fault = f"the process ends with exit code {process.exitcode}"
    if not ready:
        process.kill()
        raise RuntimeError(f"the parser of {name} could not be prepared: {fault}")
    if fault:
        process.kill()
        total["crashes"] += 1
        kept.append({"case": f"{name}:{number}", "what": fault})
        done += max(1, least // 20)  # a format that always crashes must come to an end
    process.join()
    return number + 1, done


def run_case(case: str) -> str:
    """Repeat one input, such as `images:12`; returns what went wrong."""
    name, _, number = case.partition(":")
    with TemporaryDirectory() as folder:
        return parse_one(name, TARGETS[name](), int(number), Path(folder))[0]


if __name__ == "__main__":
    counts, found = run(0, int(sys.argv[1]), lambda _: None)
    print(dict(counts), json.dumps(found[:60], indent=1))
