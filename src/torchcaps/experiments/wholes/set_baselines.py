"""Networks without capsules on the same found parts: an MLP and a set transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_count

# Attention to an absent part is not quite 0, so that its logarithm is finite.
_MIN_PRESENCE = 1e-6


class PartMLP(nn.Module):
    """An MLP on the most present parts of each kind.

    Args:
        kinds: number of kinds of parts.
        classes: number of types of wholes.
        slots: parts of each kind that are looked at.
        width: of the two hidden layers.

    Example:
        >>> network = PartMLP(kinds=3, classes=8)
        >>> network(torch.randint(3, (2, 16)), torch.randn(2, 16, 4), torch.rand(2, 16)).shape
        torch.Size([2, 8])
    """

    def __init__(self, kinds: int, classes: int, slots: int = 2, width: int = 256) -> None:
        super().__init__()
        self.kinds, self.slots = check_count("kinds", kinds), check_count("slots", slots)
        self.layers = nn.Sequential(
            nn.Linear(kinds * slots * 5, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, classes),
        )

    def forward(self, kind: Tensor, pose: Tensor, activation: Tensor) -> Tensor:
        """Logits `[B, classes]` from kinds `[B, K]`, poses `[B, K, 4]` and activations `[B, K]`."""
        of_kind = kind.unsqueeze(1) == torch.arange(self.kinds, device=kind.device)[:, None]
        presence, index = (activation.unsqueeze(1) * of_kind).topk(self.slots, dim=-1)  # [B, T, slots]
        chosen = pose.unsqueeze(1).expand(-1, self.kinds, -1, -1)
        chosen = chosen.gather(2, index.unsqueeze(-1).expand(-1, -1, -1, 4))
        # The pose of a part that is not there means nothing.
        numbers = torch.cat([chosen * presence.unsqueeze(-1), presence.unsqueeze(-1)], -1)
        return self.layers(numbers.flatten(1))


class SetTransformer(nn.Module):
    """Attention between parts, then attention of one learned query to all of them.

    The order of the parts does not matter, and the logarithm of a part's presence is added to all attention
    to it, so that absent parts have no influence.

    Args:
        kinds: number of kinds of parts.
        classes: number of types of wholes.
        width: features of a part.
        heads: of attention.
        depth: number of blocks.

    Example:
        >>> network = SetTransformer(kinds=3, classes=8)
        >>> network(torch.randint(3, (2, 16)), torch.randn(2, 16, 4), torch.rand(2, 16)).shape
        torch.Size([2, 8])
    """

    def __init__(self, kinds: int, classes: int, width: int = 64, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.kinds = check_count("kinds", kinds)
        self.embed = nn.Linear(kinds + 5, width)
        self.query = nn.Parameter(torch.randn(1, 1, width) / width**0.5)
        self.blocks = nn.ModuleList(_Attention(width, heads) for _ in range(check_count("depth", depth)))
        self.collect = _Attention(width, heads)
        self.head = nn.Linear(width, classes)

    def forward(self, kind: Tensor, pose: Tensor, activation: Tensor) -> Tensor:
        """Logits `[B, classes]` from kinds `[B, K]`, poses `[B, K, 4]` and activations `[B, K]`."""
        one_hot = F.one_hot(kind, self.kinds).to(pose)
        features = self.embed(torch.cat([one_hot, pose, activation.unsqueeze(-1)], -1))
        bias = activation.clamp(min=_MIN_PRESENCE).log()[:, None, None]
        for block in self.blocks:
            features = block(features, features, bias)
        query = self.query.expand(len(kind), -1, -1)
        return self.head(self.collect(query, features, bias).squeeze(1))


class _Attention(nn.Module):
    """Attention and a small MLP, each added to its input, with layer normalization before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_query, self.norm_set, self.norm_out = (nn.LayerNorm(width) for _ in range(3))
        self.to_query = nn.Linear(width, width)
        self.to_key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, query: Tensor, others: Tensor, bias: Tensor) -> Tensor:
        """Update `query` `[B, Q, C]` by attention to `others` `[B, K, C]`, with a bias `[B, 1, 1, K]`."""
        asked = self._split(self.to_query(self.norm_query(query)))
        key, value = (self._split(each) for each in self.to_key_value(self.norm_set(others)).chunk(2, -1))
        found = F.scaled_dot_product_attention(asked, key, value, attn_mask=bias)
        query = query + self.out(found.transpose(1, 2).flatten(2))
        return query + self.mlp(self.norm_out(query))

    def _split(self, values: Tensor) -> Tensor:
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)
