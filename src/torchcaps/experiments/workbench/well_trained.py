from __future__ import annotations

from torchcaps.experiments.workbench.study import Study
from torchcaps.models import Model, list_pretrained
from torchcaps.training import Recipe


def well_trained(study: Study, name: str, recipe: Recipe) -> Model:
    """The network that a recipe describes: the one that comes with torchcaps if there is one, else trained.

    Args:
        study: who asks.
        name: of the training inside the study, if there must be one.
        recipe: names model and data, and says how to train.
    """
    wanted = (recipe.model.name, recipe.data.name)
    # The weights of the package had the recipe's own seed; whoever asks for another wants to see it vary.
    if not study.seed and wanted in {(each["model"], each["data"]) for each in list_pretrained()}:
        return study.pretrained(*wanted)
    return study.train(name, recipe)
