from torchcaps.experiments.listing import find_claim as find_claim
from torchcaps.experiments.listing import list_claims as list_claims
from torchcaps.experiments.workbench.claim import Claim as Claim
from torchcaps.experiments.workbench.running import reproduce as reproduce
from torchcaps.experiments.workbench.study import Study as Study
