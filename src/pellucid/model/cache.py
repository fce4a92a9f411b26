"""The cache of keys and values between decoding steps.

A sentence's W hypotheses share one row of keys: step t writes its W new keys after the keys of steps 0 to t - 1, and a
mask of ancestors assigns keys to hypotheses. Selecting hypotheses therefore moves bits of the mask, never keys. Two
hypotheses, a and b, after three steps; then both continue from b:

    keys       a0 b0 | a1 b1 | a2 b2                      keys       a0 b0 | a1 b1 | a2 b2 | a3 b3
    a may see  x     | x     | x                          a may see     x  |    x  |    x  | x
    b may see     x  |    x  |    x                       b may see     x  |    x  |    x  |    x
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.masks import make_marked_causal_mask

FIRST_STEPS, MOST_AT_FIRST = 16, 64
"""The initial capacity of a cache: 16 steps, but at most 64 keys, as removing finished sentences copies all of it."""


class LayerCache:
    """One decoder layer's cache: the keys and values of its earlier positions, and of the encoder's memory.

    `keys` and `values` are (B, G, capacity, K), of which the first `used` positions are filled; `memory_heads` are the
    memory's keys and values, each (B, G, S, K). G is the number of key heads: `num_kv_heads`, by default H.

    Custom attention with keys and values uses `extend_self` and `get_memory_heads` as MultiHeadAttention does, with the
    mask that it receives; custom attention with other state stores it in `get_state`.
    """

    def __init__(self, owner: "DecoderCache | None" = None) -> None:
        # Keys and values as one tensor of shape (2, B, G, capacity, K).
        self._packed: Tensor | None = None
        self.memory_heads: tuple[Tensor, Tensor] | None = None
        self.used: int = 0
        # A weak reference: a cycle would keep the keys of a finished search in memory until it is collected.
        self._get_owner = (lambda: None) if owner is None else weakref.ref(owner)
        self._states: dict[nn.Module, dict[str, Tensor]] = {}

    @property
    def keys(self) -> Tensor | None:
        """The keys, with free capacity after them: (B, G, capacity, K)."""
        return None if self._packed is None else self._packed[0]

    @property
    def values(self) -> Tensor | None:
        """The values, as `keys`."""
        return None if self._packed is None else self._packed[1]

    @property
    def positions(self) -> Tensor:
        """The position of each key, (M,), including this step's."""
        owner = self._get_owner()
        if owner is None:
            raise DataError(
                "the cache of a single layer has no positions",
                "keep the cache of the model: cache = model.start(ids), then cache.layers[0]",
            )
        return owner.positions

    def extend_self(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the keys and values of a step, (B, G, W, K), or of a prompt, (B, G, T, K); returns all, (B, G, M, K)."""
        return self.extend_packed(torch.stack([k, v]))

    def extend_packed(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        """Does the same as `extend_self` for keys and values in one tensor, (2, B, G, W, K)."""
        steps = kv.size(3)
        end = self.used + steps
        if self._packed is None or end > self._packed.size(3):
            self._packed = _grow_capacity(self._packed, kv, end)
        self._packed.narrow(3, self.used, steps).copy_(kv)
        self.used = end
        k, v = self._packed.narrow(3, 0, end).unbind(0)
        return k, v

    def get_memory_heads(
        self, memory: Tensor, project: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Returns the keys and values of the memory, (B, G, S, K) each; `project` computes them in the first call."""
        if self.memory_heads is None:
            k, v = project(memory)
            self.memory_heads = k.contiguous(), v.contiguous()
        return self.memory_heads

    def get_state(self, part: nn.Module) -> dict[str, Tensor]:
        """Returns the state that a custom module `part` has stored in earlier steps; empty at first.

        Each tensor is (B, W, ...), one row per hypothesis, or (B, 1, ...) if all hypotheses share it. When the search
        selects hypotheses or removes sentences, the rows are selected accordingly. A module stores new tensors and
        never changes one in place.
        """
        return self._states.setdefault(part, {})

    def reorder(self, parents: Tensor) -> None:
        """Selects the states of hypotheses: w of each sentence continues from parents[:, w], (B, W)."""
        for kept in self._states.values():
            for name, tensor in kept.items():
                if tensor.shape[:2] not in (parents.shape, (parents.size(0), 1)):
                    raise DataError(
                        f"a part stores `{name}` of shape {tuple(tensor.shape)} in the cache; it must begin with "
                        f"(B, W), here {tuple(parents.shape)}, or with (B, 1)",
                        "use one row per hypothesis: cache.get_state(self)[name] is (B, W, ...)",
                    )
                if tensor.size(1) > 1:
                    kept[name] = tensor[torch.arange(len(parents), device=parents.device)[:, None], parents]

    def select(self, sentences: Tensor) -> None:
        """Keeps some sentences: indices (B',)."""
        if self._packed is not None:
            self._packed = self._packed[:, sentences]
        if self.memory_heads is not None:
            k, v = self.memory_heads
            self.memory_heads = k[sentences], v[sentences]
        for kept in self._states.values():
            kept.update({name: tensor[sentences] for name, tensor in kept.items()})


class DecoderCache:
    """The decoding cache of a batch: each layer's keys and values, and the memory if there is one."""

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
        self.layers: list[LayerCache] = [LayerCache(self) for _ in range(num_layers)]
        self.beam_size = beam_size
        self.length: int = 0
        self.prompt: int = 0  # positions that all hypotheses share, one key each
        self.ancestors: Tensor = torch.empty(batch_size, 1, beam_size, 0, dtype=torch.bool, device=device)

    @property
    def positions(self) -> Tensor:
        """The position of each key, (M,): the W of a step share one."""
        places = torch.arange(self.ancestors.size(-1), device=self.ancestors.device)
        return places.clamp(max=self.prompt) + (places - self.prompt).clamp(min=0) // self.beam_size

    def grow(self) -> Tensor:
        """Adds a position; returns the mask (B, 1, W, M) of the keys that each hypothesis descends from."""
        own = torch.eye(self.beam_size, dtype=torch.bool, device=self.ancestors.device)  # (W, W)
        own = own.expand(self.ancestors.size(0), 1, -1, -1)  # (B, 1, W, W)
        self.ancestors = torch.cat([self.ancestors, own], dim=-1)  # (B, 1, W, M)
        self.length += 1
        return self.ancestors

    def fill(self, length: int) -> Tensor:
        """Adds the first `length` positions, which all hypotheses share; returns their mask (1, 1, T, T)."""
        self.ancestors = self.ancestors.new_ones(self.ancestors.size(0), 1, self.beam_size, length)
        self.length = self.prompt = length
        return make_marked_causal_mask(length, self.ancestors.device)

    def reorder(self, parents: Tensor) -> None:
        """Selects hypotheses: w of each sentence continues from parents[:, w], (B, W)."""
        index = parents[:, None, :, None].expand(-1, -1, -1, self.ancestors.size(-1))  # (B, 1, W, M)
        self.ancestors = self.ancestors.gather(2, index)  # (B, 1, W, M)
        for layer in self.layers:
            layer.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Keeps some sentences: indices (B',)."""
        if self.memory is not None:
            self.memory = self.memory[sentences]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[sentences]
        self.ancestors = self.ancestors[sentences]
        for layer in self.layers:
            layer.select(sentences)


def _grow_capacity(old: Tensor | None, like: Tensor, needed: int) -> Tensor:
    """Returns a tensor for `needed` or more keys, doubled each time, that begins with the old ones: (2, B, G, M, K)."""
    *sizes, step, width = like.shape
    capacity = max(needed, min(FIRST_STEPS * step, MOST_AT_FIRST) if old is None else 2 * old.size(3))
    new = like.new_empty(*sizes, capacity, width)
    if old is not None:
        new[:, :, :, : old.size(3)] = old
    return new
