"""A sequence of vectors as one vector: iterated attention to its own mean, and what it is compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ITERATIONS = (0, 1, 2, 3, 5, 10)
QUERY = "one learned query"
CLASSES, DIM, WIDTH = 10, 8, 16
AGREEING, OTHERS = 5, 15
NOISE = 0.25


class Sequences(NamedTuple):
    """Sequences of vectors `[N, AGREEING + OTHERS, DIM]` and their classes `[N]`."""

    vectors: Tensor
    labels: Tensor


def make_sequences(seed: int, train: int, test: int) -> tuple[Sequences, Sequences]:
    """Sequences in which a few vectors agree: they are near the direction of a class, the others are random.

    All have about length 1 and come in random order.

    Args:
        seed: of directions and vectors.
        train: number of training sequences.
        test: number of test sequences.
    """
    generator = torch.Generator().manual_seed(seed)

    def directions(*shape: int) -> Tensor:
        return F.normalize(torch.randn(*shape, DIM, generator=generator), dim=-1)

    prototypes = directions(CLASSES)
    labels = torch.randint(CLASSES, (train + test,), generator=generator)
    noise = torch.randn(len(labels), AGREEING, DIM, generator=generator)
    agreeing = F.normalize(prototypes[labels][:, None] + NOISE * noise, dim=-1)
    vectors = torch.cat([agreeing, directions(len(labels), OTHERS)], 1)
    order = torch.rand(vectors.shape[:2], generator=generator).argsort(1)
    vectors = vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
    return Sequences(vectors[:train], labels[:train]), Sequences(vectors[train:], labels[train:])


def attention_to_mean(vectors: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    r"""Solve :math:`x = \sum_i \operatorname{softmax}_i(\langle x, x_i \rangle)\, x_i`, from the mean.

    Args:
        vectors: `[B, N, D]`.
        iterations: 0 returns the mean.

    Returns:
        x `[B, D]`, and the weights of the vectors in it `[B, N]`.

    Example:
        >>> vectors = torch.tensor([[[3.0, 0.0], [3.0, 0.0], [0.0, 3.0]]])
        >>> [round(each, 3) for each in attention_to_mean(vectors, 3)[1][0].tolist()]
        [0.5, 0.5, 0.0]
    """
    weight = vectors.new_full(vectors.shape[:2], 1 / vectors.shape[1])
    x = vectors.mean(1)
    for _ in range(iterations):
        weight = torch.softmax((vectors @ x.unsqueeze(-1)).squeeze(-1), 1)
        x = (weight.unsqueeze(-1) * vectors).sum(1)
    return x, weight


class Classifier(nn.Module):
    """Linear map of each vector → one vector for the sequence → linear layer.

    Args:
        iterations: of attention to the mean; `None` for attention with one learned query.
    """

    def __init__(self, iterations: int | None) -> None:
        super().__init__()
        self.iterations = iterations
        self.embed, self.linear = nn.Linear(DIM, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.query = nn.Parameter(0.1 * torch.randn(WIDTH)) if iterations is None else None

    def encode(self, sequences: Tensor) -> tuple[Tensor, Tensor]:
        """One vector for each sequence `[B, WIDTH]`, and the weights `[B, N]`."""
        vectors = self.embed(sequences)
        if self.query is None:
            return attention_to_mean(vectors, self.iterations or 0)
        weight = torch.softmax(vectors @ self.query, 1)
        return (weight.unsqueeze(-1) * vectors).sum(1), weight

    def forward(self, sequences: Tensor) -> Tensor:
        """Logits `[B, CLASSES]`."""
        return self.linear(self.encode(sequences)[0])


def train_encoder(
    iterations: int | None, train: Sequences, test: Sequences, *, seed: int, steps: int
) -> dict[str, Any]:
    """Train a classifier and test it.

    Returns:
        `train` and `test`, accuracies in percent; `largest`, the share of the `AGREEING` largest weights in
        the attention, in percent, mean over test sequences.
    """
    torch.manual_seed(seed)
    model = Classifier(iterations)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(train.labels), (64,))
        loss = F.cross_entropy(model(train.vectors[batch]), train.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        accuracy = {
            name: 100 * float((model(part.vectors).argmax(1) == part.labels).double().mean())
            for name, part in (("train", train), ("test", test))
        }
        weights = model.encode(test.vectors)[1].sort(1, descending=True).values
    return {**accuracy, "largest": 100 * float(weights[:, :AGREEING].sum(1).mean())}
