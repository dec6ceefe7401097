from torchcaps.capsules import Capsules as Capsules
from torchcaps.capsules import length as length
from torchcaps.capsules import squash as squash
from torchcaps.layers import ClassCaps as ClassCaps
from torchcaps.layers import ConvCaps as ConvCaps
from torchcaps.layers import Decoder as Decoder
from torchcaps.layers import DenseCaps as DenseCaps
from torchcaps.layers import MatrixPrimaryCaps as MatrixPrimaryCaps
from torchcaps.layers import PrimaryCaps as PrimaryCaps
from torchcaps.layers import SharedCaps as SharedCaps
from torchcaps.losses import SpreadMarginSchedule as SpreadMarginSchedule
from torchcaps.losses import activation_cross_entropy as activation_cross_entropy
from torchcaps.losses import margin_loss as margin_loss
from torchcaps.losses import reconstruction_loss as reconstruction_loss
from torchcaps.losses import spread_loss as spread_loss
from torchcaps.models import Output as Output
from torchcaps.models import create_model as create_model
from torchcaps.models import list_models as list_models
from torchcaps.models import list_pretrained as list_pretrained
from torchcaps.routing import Routing as Routing
from torchcaps.routing import RoutingOutput as RoutingOutput
from torchcaps.routing import create_routing as create_routing
from torchcaps.routing import list_routings as list_routings
from torchcaps.training import fit as fit

__version__: str
