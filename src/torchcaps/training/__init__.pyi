from torchcaps.errors import RunError as RunError
from torchcaps.models.weights import ModelCard as ModelCard
from torchcaps.models.weights import load_weights as load_weights
from torchcaps.models.weights import save_weights as save_weights
from torchcaps.plots import confusion_figure as confusion_figure
from torchcaps.training.callbacks import Callback as Callback
from torchcaps.training.evaluation import evaluate as evaluate
from torchcaps.training.metrics import Evaluation as Evaluation
from torchcaps.training.prediction import Prediction as Prediction
from torchcaps.training.prediction import Predictor as Predictor
from torchcaps.training.prediction import load_into as load_into
from torchcaps.training.prediction import predict as predict
from torchcaps.training.recipe import (
    Recipe as Recipe,
)
from torchcaps.training.recipe import (
    default_recipe as default_recipe,
)
from torchcaps.training.recipe import (
    list_recipes as list_recipes,
)
from torchcaps.training.recipe import (
    load_recipe as load_recipe,
)
from torchcaps.training.trainer import fit as fit
from torchcaps.training.trainer import train as train
