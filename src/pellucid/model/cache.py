"""Keys and values kept between decoding steps.

A sentence's W hypotheses share one row of keys: step t writes its W new keys behind those of steps 0 to t - 1, and a
mask of ancestors says which of them belong to which hypothesis. Choosing hypotheses therefore moves bits of the mask,
never keys. Two hypotheses, a and b, after three steps; then both go on from b:

    keys       a0 b0 | a1 b1 | a2 b2                      keys       a0 b0 | a1 b1 | a2 b2 | a3 b3
    a may see  x     | x     | x                          a may see     x  |    x  |    x  | x
    b may see     x  |    x  |    x                       b may see     x  |    x  |    x  |    x
"""

import weakref
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.masks import own_causal_mask

FIRST_STEPS, MOST_AT_FIRST = 16, 64
"""Steps that a cache has room for at first, and keys at most: letting sentences go copies the room, empty or not."""


class PlainStep(Protocol):
    """Does the work of a decoder in a step, in fewer calls (fast/decoder.py)."""

    def may_step(self) -> bool:
        """Tells whether it may do so now: nobody watches the modules."""

    def step(self, x: Tensor, own_past: Tensor, cache: "DecoderCache", /) -> Tensor:
        """Returns what the decoder gives: (B, W, D), mask (B, 1, W, M) -> (B, W, D)."""


class LayerCache:
    """One decoder layer's memory of earlier steps: keys and values of its own past, and of the encoder's memory.

    `keys` and `values` are (B, H, capacity, K), of which the first `used` places are filled; `memory_heads` are the
    memory's keys and values, each (B, H, S, K). H is the number of heads that keys have.

    Attention of your own that has keys and values uses `extend_self` and `keep_memory` as MultiHeadAttention does, with
    the mask that it is given; attention that keeps something else puts it into `state_of`.
    """

    def __init__(self, whole: "DecoderCache | None" = None) -> None:
        self._packed: Tensor | None = None  # (2, B, H, capacity, K): keys and values
        self.memory_heads: tuple[Tensor, Tensor] | None = None
        self.used: int = 0
        # Not a reference: a cycle would keep the keys of a finished search in memory until it is collected.
        self._whole = (lambda: None) if whole is None else weakref.ref(whole)
        self._states: dict[nn.Module, dict[str, Tensor]] = {}

    @property
    def keys(self) -> Tensor | None:
        """The keys, with room for more behind them: (B, H, capacity, K)."""
        return None if self._packed is None else self._packed[0]

    @property
    def values(self) -> Tensor | None:
        """The values, as `keys`."""
        return None if self._packed is None else self._packed[1]

    @property
    def positions(self) -> Tensor:
        """The position of each key, (M,), those of this step included."""
        whole = self._whole()
        if whole is None:
            raise DataError(
                "the cache of a layer by itself knows no positions",
                "keep the cache whose layer it is: cache = model.start(ids), then cache.layers[0]",
            )
        return whole.positions

    def extend_self(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the keys and values of a step, (B, H, W, K), or of a prompt, (B, H, T, K); returns all, (B, H, M, K).

        H is the number of heads that keys have: `num_kv_heads`, where that is smaller.
        """
        return self.extend_packed(torch.stack([k, v]))

    def extend_packed(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        """Does what `extend_self` does with keys and values that lie in one tensor, (2, B, H, W, K)."""
        steps = kv.size(3)
        end = self.used + steps
        if self._packed is None or end > self._packed.size(3):
            self._packed = _grown(self._packed, kv, end)
        self._packed.narrow(3, self.used, steps).copy_(kv)
        self.used = end
        k, v = self._packed.narrow(3, 0, end).unbind(0)
        return k, v

    def keep_memory(self, memory: Tensor, project: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Returns the keys and values of the memory, (B, H, S, K) each; `project` makes them the first time."""
        if self.memory_heads is None:
            k, v = project(memory)
            self.memory_heads = k.contiguous(), v.contiguous()
        return self.memory_heads

    def state_of(self, part: nn.Module) -> dict[str, Tensor]:
        """Returns what a `part` of your own has put there in earlier steps; empty at first.

        Each tensor is (B, W, ...), one row for each hypothesis, or (B, 1, ...) where all hypotheses share it. When the
        search chooses hypotheses or lets sentences go, these rows are chosen with them. A part puts new tensors there
        and never changes one in place.
        """
        return self._states.setdefault(part, {})

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis w of each sentence goes on from the state of hypothesis parents[:, w]: (B, W)."""
        for kept in self._states.values():
            for name, tensor in kept.items():
                if tensor.shape[:2] not in (parents.shape, (parents.size(0), 1)):
                    raise DataError(
                        f"a part keeps `{name}` of shape {tuple(tensor.shape)} in the cache; it must begin with "
                        f"(B, W), here {tuple(parents.shape)}, or with (B, 1)",
                        "give each hypothesis its row: cache.state_of(self)[name] is (B, W, ...)",
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
        self.layers: list[LayerCache] = [LayerCache(self) for _ in range(num_layers)]
        self.beam_size = beam_size
        self.length: int = 0
        self.prompt: int = 0  # positions that all hypotheses share, one key each
        self.plain: PlainStep | None = None  # does the decoder's work in a step, where it can
        self.ancestors: Tensor = torch.empty(batch_size, 1, beam_size, 0, dtype=torch.bool, device=device)

    @property
    def positions(self) -> Tensor:
        """The position of each key, (M,): the W of a step share one."""
        places = torch.arange(self.ancestors.size(-1), device=self.ancestors.device)
        return places.clamp(max=self.prompt) + (places - self.prompt).clamp(min=0) // self.beam_size

    def grow(self) -> Tensor:
        """Opens a position; returns the mask (B, 1, W, M) of the keys that each hypothesis descends from."""
        own = torch.eye(self.beam_size, dtype=torch.bool, device=self.ancestors.device)  # (W, W)
        own = own.expand(self.ancestors.size(0), 1, -1, -1)  # (B, 1, W, W)
        self.ancestors = torch.cat([self.ancestors, own], dim=-1)  # (B, 1, W, M)
        self.length += 1
        return self.ancestors

    def fill(self, length: int) -> Tensor:
        """Opens the first `length` positions, which all hypotheses share; returns their mask (1, 1, T, T)."""
        self.ancestors = self.ancestors.new_ones(self.ancestors.size(0), 1, self.beam_size, length)
        self.length = self.prompt = length
        return own_causal_mask(length, self.ancestors.device)

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis w of each sentence goes on from hypothesis parents[:, w]: (B, W)."""
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


def _grown(old: Tensor | None, like: Tensor, needed: int) -> Tensor:
    """Returns room for at least `needed` keys, doubled each time, with the old ones in front: (2, B, H, M, K)."""
    *sizes, step, width = like.shape
    capacity = max(needed, min(FIRST_STEPS * step, MOST_AT_FIRST) if old is None else 2 * old.size(3))
    new = like.new_empty(*sizes, capacity, width)
    if old is not None:
        new[:, :, :, : old.size(3)] = old
    return new
