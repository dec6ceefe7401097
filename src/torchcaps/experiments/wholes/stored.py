"""Networks that several experiments use: trained once, then kept in the cache.

A checkout has some of them in `claims/networks`, those that take longest: an experiment that runs there takes
them as they are, on every machine with the same versions of torch and torchcaps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

import torchcaps
from torchcaps.data.fetch.cache import cache_dir, locked
from torchcaps.experiments.framework.record import CLAIMS
from torchcaps.experiments.framework.study import Study
from torchcaps.models.weights import load_file_into, read_tensors, write_tensors

Network = TypeVar("Network", bound=nn.Module)
KEPT = CLAIMS / "networks"
"""Folder of networks in a checkout, beside the records of claims."""


class Trained(NamedTuple):
    """A trained network.

    Attributes:
        model: in `eval` mode.
        facts: what its training reported.
        key: the settings and the code that it was made with, as a digest.
    """

    model: Any
    facts: dict[str, Any]
    key: str


def stored(
    study: Study,
    name: str,
    *,
    build: Callable[[], Network],
    train: Callable[[Network], Mapping[str, Any] | None],
    settings: Mapping[str, Any],
    code: Sequence[ModuleType],
) -> Trained:
    """A network from the cache or the checkout, or else trained now and put into the cache.

    The file is found by the settings, the seed of the study, the source of `code` and the versions of
    torchcaps and PyTorch: another experiment with the same settings uses the same file, and a change of the
    code trains anew.

    Args:
        study: gives the seed and the time limit; its cached results depend on the network from now on.
        name: of the network, for the log and the file.
        build: makes the network; the random seed is set before.
        train: trains it in place, and returns facts that JSON can hold.
        settings: all that the network depends on, as JSON can hold it.
        code: the modules that the network depends on.

    Returns:
        The network. A `key` among the settings of another network says that it depends on this one.
    """
    study.recipes[name] = dict(settings)
    described = {
        "name": name,
        "settings": settings,
        "seed": study.seed,
        "code": [hashlib.sha256(Path(str(each.__file__)).read_bytes()).hexdigest() for each in code],
        "versions": [torchcaps.__version__, torch.__version__],
    }
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    study.dependencies[name] = key
    folder = cache_dir() / "networks"
    file = f"{name.replace(' ', '-')}-{key}.safetensors"
    path = KEPT / file if (KEPT / file).is_file() else folder / file
    torch.manual_seed(study.seed)
    model = build()
    if not path.is_file():
        study.check_deadline(f"before training {name}")
        study.log(f"training {name}")
        facts = dict(train(model) or {})
        with locked(folder):
            write_tensors(path, model.state_dict(), {"facts": facts})
    load_file_into(model, path)
    return Trained(model.eval(), read_tensors(path)[1]["facts"], key)
