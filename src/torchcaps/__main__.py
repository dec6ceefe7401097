"""`python -m torchcaps`, and so `torchrun -m torchcaps`."""

from torchcaps.cli import main

main()
