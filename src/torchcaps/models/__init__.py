"""Published networks and the baselines they are compared with, by name."""

from torchcaps.models import (
    aff_capsnet,
    baselines,
    capsnet,
    efficient_capsnet,
    heinsen_capsnet,
    inverted_capsnet,
    matrix_capsnet,
    parts_capsnet,
    self_routing_net,
    shared_capsnet,
    vb_capsnet,
)
from torchcaps.models.base import CapsuleModel, LayerHistory, Model, Output, capsule_inputs
from torchcaps.models.capsule_head import CapsuleHead
from torchcaps.models.parts_capsnet import PartsCapsNet
from torchcaps.models.pretrained import list_pretrained, pretrained_path
from torchcaps.models.registry import ModelInfo, create_model, list_models, model_info, register_model
from torchcaps.models.trunks import create_trunk, list_trunks

__all__ = [
    "CapsuleHead",
    "CapsuleModel",
    "LayerHistory",
    "Model",
    "ModelInfo",
    "Output",
    "PartsCapsNet",
    "aff_capsnet",
    "baselines",
    "capsnet",
    "capsule_inputs",
    "create_model",
    "create_trunk",
    "efficient_capsnet",
    "heinsen_capsnet",
    "inverted_capsnet",
    "list_models",
    "list_pretrained",
    "list_trunks",
    "matrix_capsnet",
    "model_info",
    "parts_capsnet",
    "pretrained_path",
    "register_model",
    "self_routing_net",
    "shared_capsnet",
    "vb_capsnet",
]
