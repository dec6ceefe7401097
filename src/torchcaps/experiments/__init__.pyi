from torchcaps.experiments.framework.run import reproduce as reproduce
from torchcaps.experiments.framework.study import Claim as Claim
from torchcaps.experiments.framework.study import Study as Study
from torchcaps.experiments.listing import find_claim as find_claim
from torchcaps.experiments.listing import list_claims as list_claims
