"""timm with a torchvision that was built for another PyTorch.

timm imports torchvision for its transforms. The wheel of torchvision is built for CUDA: with a CPU build of
PyTorch its compiled operators are missing, and a part of it that describes them to the compiler fails on
import. No network of timm calls these operators, so the tests define them by name.
"""

from __future__ import annotations

import importlib
import re
import sys

import torch

_MISSING = re.compile(r"operator torchvision::(\w+) does not exist")
# Libraries live as long as their operators should.
_LIBRARIES: list[torch.library.Library] = []


def import_timm() -> bool:
    """Import timm; returns whether it is installed."""
    for _ in range(20):
        try:
            importlib.import_module("timm")
        except ModuleNotFoundError:
            return False
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if missing is None:
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{missing[1]}(Tensor values) -> Tensor")
            _LIBRARIES.append(library)
            for name in [each for each in sys.modules if each.partition(".")[0] in ("timm", "torchvision")]:
                del sys.modules[name]
        else:
            return True
    raise AssertionError("torchvision still lacks operators")
