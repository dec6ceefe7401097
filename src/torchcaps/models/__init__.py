"""Published networks and the baselines they are compared with, by name."""

from torchcaps.models import baselines, capsnet, matrix_capsnet, shared_capsnet
from torchcaps.models.base import CapsuleModel, LayerHistory, Model, Output
from torchcaps.models.pretrained import list_pretrained, pretrained_path
from torchcaps.models.registry import create_model, list_models, register_model

__all__ = [
    "CapsuleModel",
    "LayerHistory",
    "Model",
    "Output",
    "baselines",
    "capsnet",
    "create_model",
    "list_models",
    "list_pretrained",
    "matrix_capsnet",
    "pretrained_path",
    "register_model",
    "shared_capsnet",
]
