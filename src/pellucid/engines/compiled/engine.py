"""The compiled engine of one PyTorch model: it computes what the model's modules compute, where it knows all of them.

A plain greedy or beam search is compiled as a whole. A search with constraints, terms, groups or alternatives, and
sampling, is that of PyTorch over compiled steps. Whatever else is asked for goes through the modules: a model that is
observed, changed by hooks or in training mode, and a search of the caller's own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.diverse_beam import DiverseSearch
from pellucid.decoding.fast_step import make_step
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.next_tokens import NextTokens
from pellucid.engines.compiled.compiling import Functions, find_missing, get_functions
from pellucid.engines.compiled.forced_pass import ForcedPass, is_known, read_pairs
from pellucid.engines.compiled.layout import COLUMNS, FIRST_POSITIONS, NO_LAYER, ZERO, Model
from pellucid.engines.compiled.plain_search import (
    ROWS,
    PlainSearch,
    find_longest,
    is_plain_search,
    is_within,
    join_rows,
    read_sources,
)
from pellucid.engines.compiled.weights import WeightSample, add_rotations, explain_mode, find_obstacle, get_state, pack
from pellucid.engines.engine import Pair, PyTorchEngine, Weights
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer

if TYPE_CHECKING:
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints

MOST_ROTATIONS = 4096
"""The positions of a packed model in the cache; a search of longer texts opens the PyTorch model."""
LEAST_ROWS = 12
"""The rows of a step from which on a further thread takes a part of them."""


class CompiledEngine(PyTorchEngine):
    """Pellucid's search over one PyTorch model, compiled where the model and the search are known."""

    def __init__(self, model: Transformer | DecoderOnly, functions: Functions | None = None) -> None:
        """Takes a model, and puts it into evaluation mode. Without `functions` the first search loads or compiles them.

        If numba does not support the machine, the modules compute.
        """
        super().__init__(model)
        self._functions = functions
        self._packed: tuple[Any, WeightSample, Model] | None = None

    def about(self) -> str:
        return f"{super().about()}, compiled"

    def compile(self) -> "CompiledModel | None":
        """Returns the model with compiled steps; None if its modules must compute it now (`find_obstacle`)."""
        state = None if explain_mode() else get_state(self._model)
        if state is None:
            return None
        if self._functions is None:
            if find_missing():
                return None
            self._functions = get_functions()
        if self._packed is None or self._packed[0] != state or self._packed[1].has_changed():
            if find_obstacle(self._model):
                return None
            packed = pack(self._model, self._functions.lanes, self._functions.tile)
            self._packed = state, WeightSample(self._model), packed
        return CompiledModel(self._model, self._packed[2], self._functions)

    def pack_for_start(self) -> Model | None:
        """Returns the packed model with the rotations of at most MOST_ROTATIONS positions; None for a language model,
        and if the modules must compute the model.
        """
        compiled = self.compile() if isinstance(self._model, Transformer) else None
        if compiled is None:
            return None
        return compiled.ensure_positions(min(MOST_ROTATIONS, self._model.config.max_positions))

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        if not (by is None or isinstance(by, DiverseSearch | NextTokens)):
            return PyTorchEngine(self._model).search(sources, config, by, constraints)  # it may observe the modules
        if (
            is_plain_search(config, by, constraints)
            and isinstance(self._model, Transformer)
            and (compiled := self.compile()) is not None
            and (whole := read_sources(sources, config, self.config)) is not None
        ):
            return compiled.plain_search(find_longest(whole, config, self.config)).search(whole, config)
        return super().search(sources, config, by, constraints)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        pairs = read_pairs(sources, targets, config, self.config)
        if (forced := self._forced_pass(pairs)) is None:
            return super().log_probs(sources, targets, config)
        return forced.log_probs(pairs, len(config.target_prefix))

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        if head is None or (forced := self._forced_pass(pairs)) is None:
            return super().cross_weights(pairs, head)
        return forced.cross_weights(pairs, *head)

    def _forced_pass(self, pairs: Sequence[Pair]) -> ForcedPass | None:
        """Returns the compiled pass over pairs; None if the modules must compute it."""
        is_readable = isinstance(self._model, Transformer) and is_known(pairs, self.config.max_positions, self.config)
        compiled = self.compile() if is_readable else None
        if compiled is None:
            return None
        packed = compiled.ensure_positions(max((len(side) for pair in pairs for side in pair), default=0))
        return ForcedPass(self.config, packed, compiled.functions, torch.get_num_threads())

    def get_step_model(self) -> Any:
        return self.compile() or self._model


class CompiledModel:
    """A model of which `step` and whole searches are compiled: a StepModel of decoding/steps.py.

    All rows are computed each by itself, so neither scores nor ids depend on the batch or the number of threads.
    """

    def __init__(self, model: Transformer | DecoderOnly, packed: Model, functions: Functions) -> None:
        self.model = model
        self.config: ModelConfig = model.config
        self.functions = functions
        self._packed = packed
        self._pool: ThreadPoolExecutor | None = None

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yields the weights of the model."""
        return self.model.parameters()

    def start(self, ids: Tensor, beam_size: int = 1, /) -> Any:
        """Returns a CompiledCache, or the cache of the model's modules for texts that they must read.

        The modules read texts with padding between tokens, texts of padding alone, and texts with unknown ids or beyond
        the positions, of which they raise the errors.
        """
        rows = _strip_padding(ids, self.config.pad_id if isinstance(self.model, Transformer) else None)
        size = self.config.src_vocab_size if isinstance(self.model, Transformer) else self.config.tgt_vocab_size
        if rows is None or ids.size(1) > self.config.max_positions or not is_within(rows, size):
            return self.model.start(ids, beam_size)
        if isinstance(self.model, Transformer):
            return CompiledCache(self, rows, [], beam_size)
        return CompiledCache(self, [], [row[:-1] for row in rows], beam_size)

    def step(self, tokens: Tensor, cache: Any, /) -> Tensor:
        """Returns logits (B, W, V) after one more token of each hypothesis, (B, W)."""
        if isinstance(cache, CompiledCache):
            return cache.step(tokens)
        return make_step(self.model, cache)(tokens)

    def ensure_positions(self, count: int) -> Model:
        """Returns the packed model, with rotations for `count` positions if it has rotary positions."""
        self._packed = add_rotations(self._packed, self.model, count)
        return self._packed

    def run_in_threads(self, rows: int, most: int, compute: Callable[[int, int], None]) -> None:
        """Calls `compute(first, last)` for parts of at most `most` rows, in as many threads as PyTorch has."""
        threads = max(1, min(torch.get_num_threads(), rows // LEAST_ROWS))
        size = min(most, -(-rows // threads)) if rows else 1
        parts = [(first, min(first + size, rows)) for first in range(0, rows, size)]
        if threads == 1:
            for first, last in parts:
                compute(first, last)
            return
        if self._pool is None:  # its threads end when the model of the search is deleted
            self._pool = ThreadPoolExecutor(torch.get_num_threads())
        list(self._pool.map(lambda part: compute(*part), parts))

    def plain_search(self, longest: int) -> PlainSearch:
        """Returns the compiled search of whole texts, for positions up to `longest`."""
        return PlainSearch(self.config, self.ensure_positions(longest), self.functions, torch.get_num_threads())


class CompiledCache:
    """The cache of a search of compiled steps: B sentences with W hypotheses each."""

    def __init__(self, model: CompiledModel, sources: list[list[int]], prompts: list[list[int]], width: int) -> None:
        """Encodes sources, or reads prompts of one length, which all hypotheses of a text share."""
        self._model = model
        self.length: int = len(prompts[0]) if prompts else 0
        count = len(sources or prompts)
        self._ids, self._starts = join_rows(sources)
        packed = model.ensure_positions(max([FIRST_POSITIONS, self.length, *map(len, sources)]))
        self._memory = (
            model.functions.encode(packed, self._ids, self._starts) if sources else np.zeros((1, 0), np.float32)
        )
        self._sentences = np.arange(count)
        sizes = packed.sizes
        room = max(FIRST_POSITIONS, self.length)
        self._keys = np.empty((sizes.decoder_layers, count, room, width, 2 * sizes.kv_heads * sizes.step), np.float32)
        self._ancestors = np.zeros((count, width, room), np.int64)
        if self.length:
            place = np.tile(np.arange(self.length), count)
            sentence = np.repeat(np.arange(count), self.length)
            self._read(np.array(prompts).reshape(-1), place, sentence, np.zeros_like(place))

    def reorder(self, parents: Tensor, /) -> None:
        """Selects hypotheses: w of each sentence continues from parents[:, w], (B, W)."""
        chosen = self._ancestors[self._sentences]
        self._ancestors[self._sentences] = np.take_along_axis(chosen, parents.numpy()[:, :, None], axis=1)

    def select(self, sentences: Tensor, /) -> None:
        """Keeps some sentences: indices (B',)."""
        self._sentences = self._sentences[sentences.numpy()]

    def step(self, tokens: Tensor) -> Tensor:
        """Returns the logits (B, W, V) after one more token of each hypothesis, (B, W)."""
        B, W = tokens.shape
        embedding, config = self._model.model.tgt_embedding, self._model.config
        ids = np.ascontiguousarray(tokens.numpy(), np.int64).reshape(-1)
        is_known = not len(ids) or 0 <= ids.min() <= ids.max() < embedding.tokens.num_embeddings
        if not is_known or self.length >= config.max_positions:
            embedding(tokens, position=self.length)  # raises the error
        if self.length == self._keys.shape[2]:
            self._grow()
        hypothesis, place = np.tile(np.arange(W), B), np.full(B * W, self.length)
        self._ancestors[self._sentences, :, self.length] = np.arange(W)
        h = self._read(ids, place, np.repeat(self._sentences, W), hypothesis)
        self.length += 1
        wide = -(-config.tgt_vocab_size // COLUMNS) * COLUMNS
        z = np.empty((B * W, wide), np.float32)
        flat, packed, project = z.reshape(-1), self._model.ensure_positions(0), self._model.functions.project
        self._model.run_in_threads(
            B * W, ROWS, lambda first, last: project(packed, h, first, last - first, flat, first * wide)
        )
        return torch.from_numpy(z).view(B, W, wide)[:, :, : config.tgt_vocab_size]

    def _read(self, tokens: Any, place: Any, sentence: Any, hypothesis: Any) -> Any:
        """Reads a token per row into the cache; returns the states of the rows."""
        packed, decode = self._model.ensure_positions(int(place.max(initial=0)) + 1), self._model.functions.decode
        width = -(-packed.sizes.d_model // COLUMNS) * COLUMNS
        h, nothing = np.empty(len(tokens) * width, np.float32), np.empty((0, 0), np.float32)
        # The rows of a prompt are consecutive tokens of a sentence, and attend to each other.
        is_prompt = len(place) > 0 and bool((place != place[0]).any())

        def read(first: int, last: int) -> None:
            rows = slice(first, last)
            decode(
                packed, tokens[rows], place[rows], sentence[rows], hypothesis[rows], last - first, self._ancestors,
                self._keys, self._memory, self._starts, h[first * width : last * width], NO_LAYER, ZERO, nothing,
            )  # fmt: skip

        if is_prompt:
            for first in range(0, len(tokens), self.length):
                read(first, first + self.length)
        else:
            self._model.run_in_threads(len(tokens), len(tokens), read)
        return h

    def _grow(self) -> None:
        """Doubles the positions of the cache."""
        for name in ("_keys", "_ancestors"):
            old = getattr(self, name)
            shape = list(old.shape)
            shape[2] *= 2
            new = np.empty(shape, old.dtype)
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)


def _strip_padding(ids: Tensor, pad_id: int | None) -> list[list[int]] | None:
    """Returns the rows of (B, S) without the padding at their ends; None for padding elsewhere, or an empty row."""
    rows = ids.tolist()
    if pad_id is None:
        return rows if ids.size(1) else None
    found = []
    for row in rows:
        end = row.index(pad_id) if pad_id in row else len(row)
        if end == 0 or any(i != pad_id for i in row[end:]):
            return None
        found.append(row[:end])
    return found
