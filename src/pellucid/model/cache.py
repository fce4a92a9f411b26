"""Keys and values kept between decoding steps.

A sentence's W hypotheses share one row of keys: step t writes its W new keys behind those of steps 0 to t - 1, and a
mask of ancestors says which of them belong to which hypothesis. Choosing hypotheses therefore moves bits of the mask,
never keys.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from pellucid.model.masks import causal_mask


class LayerCache:
    """One decoder layer's keys and values: its own past's, and the memory's.

    `keys` and `values` are (B, H, capacity, K), of which the first `used` places are filled; `memory_heads` are the
    memory's keys and values, each (B, H, S, K).
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.memory_heads: tuple[Tensor, Tensor] | None = None
        self.used = 0

    def extend_self(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds keys and values (B, H, W, K) of a step; returns those of all steps, (B, H, M, K)."""
        end = self.used + k.size(2)
        if self.keys is None or self.values is None or end > self.keys.size(2):
            self.keys, self.values = _grown(self.keys, k, end), _grown(self.values, v, end)
        self.keys[:, :, self.used : end] = k
        self.values[:, :, self.used : end] = v
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep_memory(self, memory: Tensor, project: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """The memory's keys and values, each (B, H, S, K); `project` makes them of (B, S, D), at the first step."""
        if self.memory_heads is None:
            k, v = project(memory)
            self.memory_heads = k.contiguous(), v.contiguous()
        return self.memory_heads

    def select(self, sentences: Tensor) -> None:
        """Keeps some sentences: indices (B',)."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[sentences], self.values[sentences]
        if self.memory_heads is not None:
            k, v = self.memory_heads
            self.memory_heads = k[sentences], v[sentences]


class DecoderCache:
    """All that decoding remembers of a batch: each layer's keys and values, and the memory where there is one."""

    def __init__(
        self,
        batch_size: int,
        num_layers: int,
        device: torch.device,
        beam_size: int = 1,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> None:
        self.memory = memory  # (B, S, D)
        self.memory_mask = memory_mask  # (B, 1, 1, S)
        self.layers = [LayerCache() for _ in range(num_layers)]
        self.beam_size = beam_size
        self.length = 0
        self.shared = 0  # the first positions: of a prompt, with one key for all hypotheses
        self.ancestors = torch.empty(batch_size, 1, beam_size, 0, dtype=torch.bool, device=device)

    @property
    def positions(self) -> Tensor:
        """The position of each key, (M,): the W of a step share one."""
        steps = torch.arange(self.ancestors.size(-1) - self.shared, device=self.ancestors.device) // self.beam_size
        if not self.shared:
            return steps
        return torch.cat([torch.arange(self.shared, device=steps.device), self.shared + steps])

    def grow(self) -> Tensor:
        """Opens a position; returns the mask (B, 1, W, M) of the keys that each hypothesis descends from."""
        own = torch.eye(self.beam_size, dtype=torch.bool, device=self.ancestors.device)  # (W, W)
        own = own.expand(self.ancestors.size(0), 1, -1, -1)  # (B, 1, W, W)
        self.ancestors = torch.cat([self.ancestors, own], dim=-1)  # (B, 1, W, M)
        self.length += 1
        return self.ancestors

    def fill(self, length: int) -> Tensor:
        """Opens the first `length` positions, of a prompt that all hypotheses share; returns its mask (1, 1, T, T)."""
        self.ancestors = self.ancestors.new_ones(self.ancestors.size(0), 1, self.beam_size, length)
        self.length = self.shared = length
        return causal_mask(length, self.ancestors.device)

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis w of each sentence goes on from hypothesis parents[:, w]: (B, W)."""
        index = parents[:, None, :, None].expand(-1, -1, -1, self.ancestors.size(-1))  # (B, 1, W, M)
        self.ancestors = self.ancestors.gather(2, index)  # (B, 1, W, M)

    def select(self, sentences: Tensor) -> None:
        """Keeps some sentences: indices (B',)."""
        if self.memory is not None:
            self.memory = self.memory[sentences]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[sentences]
        self.ancestors = self.ancestors[sentences]
        for layer in self.layers:
            layer.select(sentences)


def _grown(old: Tensor | None, like: Tensor, needed: int) -> Tensor:
    """Room for at least `needed` keys, doubled each time, with the old ones in front."""
    batch, heads, _, width = like.shape
    capacity = max(needed, 16 * like.size(2) if old is None else 2 * old.size(2))
    new = like.new_empty(batch, heads, capacity, width)
    if old is not None:
        new[:, :, : old.size(2)] = old
    return new
