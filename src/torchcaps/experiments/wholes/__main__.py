"""Train a `parts_capsnet` on a world of parts and wholes: `python -m torchcaps.experiments.wholes shapes`.

With `--cnn`, train its twin with average pooling instead, which starts from the same convolutions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import World
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.wholes.cnn import CNN_STEPS, cnn_card, measure_cnn, train_cnn
from torchcaps.experiments.wholes.cnn import TEST as CNN_TEST
from torchcaps.experiments.wholes.network import (
    COMMAND,
    STEPS,
    measure_network,
    network_card,
    ship_network,
    train_network,
)
from torchcaps.models import Model
from torchcaps.models.weights import save_weights

WORLDS: dict[str, World] = {"shapes": SHAPES, "faces": FACES}


def main(arguments: list[str] | None = None) -> None:
    """Train, measure on the test split, and write the weights."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Train parts, wholes and groups, measure them, and write the weights."
    )
    parser.add_argument("world", choices=WORLDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cnn", action="store_true", help="train parts_cnn, from the shipped parts_capsnet")
    parser.add_argument(
        "--steps", type=int, help=f"of the training, by default {STEPS}; {CNN_STEPS} of a CNN"
    )
    parser.add_argument("--count", type=int, default=500, help="scenes for each measurement")
    parser.add_argument("--out", type=Path, help="weights, by default runs/MODEL-WORLD.safetensors")
    parser.add_argument("--ship", action="store_true", help="copy the weights into this checkout as well")
    chosen = parser.parse_args(arguments)
    world = WORLDS[chosen.world]
    # A second thread helps little here, and one gives the same weights on every machine of a kind.
    torch.set_num_threads(1)
    start = time.process_time()

    def log(line: str) -> None:
        print(f"{line}, {time.process_time() - start:.0f} s", flush=True)

    command = f"{COMMAND} {world.name}" + " --cnn" * chosen.cnn + f" --seed {chosen.seed}"
    model: Model
    if chosen.cnn:
        steps, options = chosen.steps or CNN_STEPS, CNN_TEST
        model = train_cnn(world, seed=chosen.seed, steps=steps, log=log)
        card = cnn_card(model, world, f"{command} --steps {steps}")
        numbers = measure_cnn(model, world, count=chosen.count, seed=chosen.seed)
    else:
        steps, options = chosen.steps or STEPS, {}
        capsules = model = train_network(world, seed=chosen.seed, steps=steps, log=log)
        card = network_card(capsules, world, f"{command} --steps {steps}")
        numbers = measure_network(capsules, world, count=chosen.count, seed=chosen.seed)
    seconds = time.process_time() - start
    print(json.dumps(numbers, indent=2))
    out = chosen.out or Path("runs") / f"{card.model}-{world.name}.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    save_weights(out, model, card)
    print(f"{seconds / 60:.1f} minutes of processor time; wrote {out}")
    if chosen.ship:
        entry = ship_network(model, card, steps=steps, seconds=seconds, options=options)
        print(f"{entry['file']}: {entry['bytes'] / 1e6:.1f} MB in the package")


if __name__ == "__main__":
    main()
