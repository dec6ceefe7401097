from __future__ import annotations

from typing import TypeVar

from torch.utils import _pytree

Tuple = TypeVar("Tuple", bound=type)


def serializable(kind: Tuple) -> Tuple:
    """Class decorator: let `torch.export.save` write a program that returns this named tuple.

    PyTorch flattens named tuples by itself, but writes only those that have a name for files. Import
    torchcaps before you load such a program. Files of `torchcaps.export` return dictionaries and do not need
    it.

    Example:
        >>> from torchcaps import Capsules
        >>> values, spec = _pytree.tree_flatten(Capsules(1, 2))
        >>> values, "torchcaps.capsules.Capsules" in _pytree.treespec_dumps(spec)
        ([1, 2], True)
    """
    _pytree._register_namedtuple(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")
    return kind
