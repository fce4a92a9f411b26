"""The step interface: all that a search uses of a model, for every model family.

A model returns logits step by step (`StepModel`), and stores the keys and values of earlier tokens in a `Cache`.
`SearchState` holds the rest of what every search needs: the beginning of an output, the suppressed tokens, the length
limits, and the sentences that are still searched.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.constraints import Constraints, merge_constraints
from pellucid.decoding.ensemble import EnsembleStepModel
from pellucid.decoding.fast_step import make_step
from pellucid.decoding.hypothesis import Hypothesis, StepCallback
from pellucid.decoding.ids import list_suppressed_ids
from pellucid.errors import DecodingError
from pellucid.model.fast.gpu import is_gpu, to_device_async

KEPT = 3, 4
"""The fraction of the positions that a text keeps when it has filled all of them: the rest is for new tokens."""


class Cache(Protocol):
    """The cached keys and values of B sentences with W hypotheses each."""

    length: int
    """The number of positions in use."""

    def reorder(self, parents: Tensor, /) -> None:
        """Replaces the cache of hypothesis w of each sentence by that of hypothesis parents[:, w]: (B, W)."""

    def select(self, sentences: Tensor, /) -> None:
        """Keeps some of the sentences: their indices (B',)."""


class StepModel(Protocol):
    """Gives the logits of each next token: a Transformer, a DecoderOnly, or a custom combination of several models."""

    config: ModelConfig

    def start(self, ids: Tensor, beam_size: int, /) -> Any:
        """Returns a Cache for W = `beam_size` hypotheses of each of the texts (B, S).

        An encoder-decoder encodes the texts, which are its sources, and its cache is empty. A decoder-only model reads
        all their tokens except the last, which is the first input of `step`.
        """

    def step(self, tokens: Tensor, cache: Any, /) -> Tensor:
        """Reads one more token of each hypothesis, (B, W), into the cache; returns the next one's logits (B, W, V)."""


class SearchState:
    """A batch of B outputs, W hypotheses of each, that grow by one token per step.

    A search calls `start`, then step by step `log_probs` and `advance`, and `select` when a sentence is done, until no
    `rows` are left:

        def most_probable(steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
            found: dict[int, SearchResult] = {}
            steps.start(width=1)
            scores = torch.zeros(len(steps.rows))                              # (B,)
            while steps.rows:
                best, tokens = steps.log_probs()[:, 0].max(dim=1)              # (B, 1, V) -> (B,), (B,)
                scores = scores + best
                done = (tokens == steps.eos_id).nonzero()[:, 0]
                for row, hypothesis in zip(done, steps.hypotheses(done, 0 * done, scores[done])):
                    found[steps.rows[row]] = SearchResult([hypothesis])
                steps.advance(tokens[:, None])
                going_on = (tokens != steps.eos_id).nonzero()[:, 0]
                steps.select(going_on)
                scores = scores[going_on]
            return [found[row] for row in range(len(found))]

    An encoder-decoder's output begins with the start token and `target_prefix`. Its limit is `max_length` tokens or the
    model's positions; there only the end token is allowed. A decoder-only model's output follows its prompt and is
    truncated at its limit; when the model's positions are filled, it continues from its last part alone.
    """

    def __init__(
        self,
        model: StepModel,
        given: Tensor,
        decode: DecodeConfig,
        text_indices: Sequence[int] | None = None,
        on_step: StepCallback | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        """Takes the model's input, (B, S): padded sources with special tokens; or prompts of one length.

        Args:
            decode: the limits, prefix, end tokens and suppressed tokens of an output.
            text_indices: the index of each text in the whole input, which may seed random numbers; None: 0, 1, 2 ...
            on_step: called by `beam_search` and `greedy_search` at each step of a single output; None: not called.
            constraints: further constraints of the outputs, in addition to `decode`; None: none.
        """
        config = model.config
        self.on_step = on_step
        """Called by `beam_search` and `greedy_search` at each step of a single output; None: not called."""
        self.eos_id: int = config.eos_id
        self.limits: list[int] = length_limits(given, decode, config)
        """The most tokens of each output, without its end token."""
        self.text_indices: list[int] = list(range(len(given)) if text_indices is None else text_indices)
        self.truncates: bool = config.family == "decoder"
        """If True, an output at its limit is truncated; if False, only the end token is allowed there."""
        self.width: int = 1
        """W."""
        self.rows: list[int] = []
        """The outputs that are still searched: for each row of the batch its index among the B outputs."""
        self.device: torch.device = given.device
        if self.truncates:
            self._given = given[:, -config.max_positions :]
            self._begin = self._given
            never = {*decode.suppress_tokens, *([] if config.pad_id is None else [config.pad_id])}
            never_written = sorted(i for i in never if i < config.tgt_vocab_size)
            self.prefix_length: int = 0
        else:
            self._given = given
            self._begin = given.new_tensor([config.bos_id, *decode.target_prefix]).expand(len(given), -1)
            never_written = list_suppressed_ids(config, decode.suppress_tokens)
            self.prefix_length = len(decode.target_prefix)
        # On a GPU: True if the model returned NaN. Reading it at once would synchronize with the GPU.
        self._not_numbers: Tensor | None = None
        self._never: Tensor = torch.tensor(never_written, dtype=torch.long, device=self.device)
        self.adds_ends: bool = False
        """If True, the log-probability of the end token is that of all end tokens together, as sampling requires; if
        False, that of the most probable end token. They differ if `decode.end_ids` has further end tokens.
        """
        ends = sorted({config.eos_id, *decode.end_ids} - {*decode.suppress_tokens}) if decode.end_ids else []
        ends = [i for i in ends if i < config.tgt_vocab_size]
        self._ends = torch.tensor(ends, dtype=torch.long, device=self.device) if len(ends) > 1 else None
        self._model = model
        self._constraints = merge_constraints(constraints, decode)

    def start(self, width: int) -> None:
        """Begins to search all B outputs, with W = `width` hypotheses of each, which are identical at first."""
        if self.rows or hasattr(self, "_cache"):
            self.on_step = None  # a tree covers one search alone
        self.width, self.rows = width, list(range(len(self._given)))
        self._soonest = min(self.limits, default=0)
        self._read = self._begin[:, None].expand(-1, width, -1)  # (B, W, T)
        self._open(self._given, self._read)

    def _open(self, given: Tensor, tokens: Tensor) -> None:
        """Fills the cache with `given` and the tokens (B, W, T) after it, except for the last token."""
        with torch.no_grad():
            self._cache: Cache = self._model.start(given, self.width)
            self._step = make_step(self._model, self._cache)
            for place in range(self._cache.length, tokens.size(2) - 1):
                self._step(tokens[:, :, place])

    @property
    def ids(self) -> Tensor:
        """The tokens so far, (B, W, T), without the common beginning of all outputs."""
        return self._read[:, :, self._begin.size(1) :]

    @property
    def length(self) -> int:
        """The number of tokens so far, T."""
        return self._read.size(2) - self._begin.size(1)

    def log_probs(self) -> Tensor:
        """Returns the log-probability of each next token of each hypothesis, (B, W, V), in single precision.

        Forbidden tokens have minus infinity, without renormalization. At an output's limit only the end token is
        allowed: with the model's log-probability, or with 0 if outputs are truncated.

        Raises NonFiniteLogitsError if the model returns NaN; on a GPU `select` and `hypotheses` raise it.
        """
        self._check_begun()
        config, limited = self._model.config, list[bool]()
        if self.length >= self._soonest:
            limited = [self.length >= self.limits[row] for row in self.rows]
            if self.truncates and all(limited):
                end = torch.full((len(self.rows), self.width, config.tgt_vocab_size), -torch.inf, device=self.device)
                end[:, :, self.eos_id] = 0.0
                return end
        with torch.no_grad():
            if self.truncates and self._cache.length == config.max_positions:
                self._go_on_with_the_last_part(config.max_positions)
            log_probs = self._compute_log_probs(self._step(self._read[:, :, -1]))  # (B, W, V)
        if self._ends is not None:
            self._take_together(log_probs, self._ends)
        if self._constraints is None:
            log_probs.index_fill_(2, self._never, -torch.inf)
        else:
            begin = self._read[
                :, :, not self.truncates : self._begin.size(1)
            ]  # all but an encoder-decoder's start token
            self._constraints.apply(log_probs, self.ids, self.rows, self.limits, self.eos_id, self._never, begin)
        if any(limited):
            at_limit = to_device_async(torch.tensor(limited), self.device)[:, None]  # (B, 1)
            ends = log_probs[:, :, self.eos_id].clone()  # (B, W)
            log_probs.masked_fill_(at_limit[:, :, None], -torch.inf)
            log_probs[:, :, self.eos_id] = ends.masked_fill(at_limit, 0.0) if self.truncates else ends
        return log_probs

    def _take_together(self, log_probs: Tensor, ends: Tensor) -> None:
        """Merges all end tokens (n,) into the end token in log-probabilities (B, W, V)."""
        values = log_probs[:, :, ends]  # (B, W, n)
        log_probs.index_fill_(2, ends, -torch.inf)
        log_probs[:, :, self.eos_id] = values.logsumexp(dim=2) if self.adds_ends else values.amax(dim=2)

    def _compute_log_probs(self, logits: Tensor) -> Tensor:
        """Returns log-probabilities of logits. Raises NonFiniteLogitsError for NaN; on a GPU only notes it."""
        is_mean = isinstance(self._model, EnsembleStepModel)  # an ensemble returns log-probabilities
        if not is_gpu(self.device):
            return check_finite(logits) if is_mean else compute_log_probs(logits)
        log_probs = logits if is_mean else logits.float().log_softmax(dim=-1)  # (B, W, V)
        is_nan = log_probs[..., 0].isnan().any()
        self._not_numbers = is_nan if self._not_numbers is None else self._not_numbers | is_nan
        return log_probs

    def check_numbers(self) -> None:
        """Raises NonFiniteLogitsError if the model returned NaN since the last call; synchronizes with a GPU."""
        noted, self._not_numbers = self._not_numbers, None
        if noted is not None and noted:
            raise NonFiniteLogitsError(*NOT_NUMBERS)

    def _go_on_with_the_last_part(self, room: int) -> None:
        """Reads the last three quarters of `room` tokens again, from the first position on.

        The common prefix of the hypotheses is read once, the tokens after it step by step.
        """
        kept = self._read[:, :, -max(1, room * KEPT[0] // KEPT[1]) :]  # (B, W, T)
        alike = (kept == kept[:, :1]).all(dim=1).all(dim=0)  # (T,)
        common = int(alike[:-1].long().cumprod(dim=0).sum())
        self._open(kept[:, 0, : common + 1], kept)

    def _check_begun(self) -> None:
        if not hasattr(self, "_cache"):
            raise DecodingError("the search has not begun", "call steps.start(width) first")

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> None:
        """Makes hypothesis w the continuation of hypothesis parents[:, w] by tokens[:, w]: both (B, W), int64.

        Without `parents` each hypothesis continues itself. Raises DecodingError for another shape, and for a parent
        outside of 0 to W - 1.
        """
        self._check_begun()
        for name, given in (("tokens", tokens), ("parents", parents)):
            if given is not None and given.shape != (len(self.rows), self.width):
                raise DecodingError(
                    f"`{name}` has shape {tuple(given.shape)}, but {len(self.rows)} outputs with {self.width} "
                    "hypotheses each are under search",
                    f"pass a tensor ({len(self.rows)}, {self.width}), or start with another `width`",
                )
        if parents is not None:
            try:
                self._read = self._read.gather(1, parents[:, :, None].expand(-1, -1, self._read.size(2)))
            except RuntimeError as error:  # a check beforehand would synchronize with the GPU at each step
                raise DecodingError(
                    f"`parents` cannot be continued: {error}", f"pass int64 from 0 to {self.width - 1}"
                ) from error
            self._cache.reorder(parents)
        self._read = torch.cat([self._read, tokens[:, :, None]], dim=2)  # (B, W, T)

    def select(self, rows: Tensor) -> None:
        """Keeps some rows of the batch, (B',): the others are done, and cost no further time.

        Raises DecodingError for a row that the batch does not have.
        """
        if rows.dtype == torch.bool:
            raise DecodingError("`rows` is a mask", "pass the indices of the rows to keep: mask.nonzero()[:, 0]")
        self.check_numbers()
        kept = rows.tolist()
        if kept and not 0 <= min(kept) <= max(kept) < len(self.rows):
            raise DecodingError(
                f"`rows` holds {max(kept) if min(kept) >= 0 else min(kept)}; the batch has {len(self.rows)} rows",
                "pass the indices of the rows to keep, counted from 0",
            )
        if kept != list(range(len(self.rows))):
            self.rows = [self.rows[row] for row in kept]
            rows = to_device_async(rows, self.device)
            self._read = self._read[rows]
            self._cache.select(rows)

    def hypotheses(self, rows: Tensor, parents: Tensor, scores: Tensor) -> list[Hypothesis]:
        """Returns n hypotheses with their tokens so far; for hypotheses whose next token is the end token.

        Args:
            rows, parents: (n,) row of the batch, and index among its W hypotheses.
            scores: (n,) sums of log-probabilities, with the end token's.
        """
        self.check_numbers()
        return self.hypotheses_at(self.ids, rows, parents, scores)

    def hypotheses_at(self, ids: Tensor, rows: Tensor, parents: Tensor, scores: Tensor) -> list[Hypothesis]:
        """Returns the hypotheses of an earlier step from its `ids` (B, W, T); `rows` are current rows."""
        if not len(rows):
            return []
        texts = ids[rows, parents].tolist()
        ended = [not (self.truncates and ids.size(2) >= self.limits[self.rows[row]]) for row in rows.tolist()]
        return [
            Hypothesis(ids, score, self.prefix_length, end)
            for ids, score, end in zip(texts, scores.tolist(), ended, strict=True)
        ]


class NonFiniteLogitsError(DecodingError):
    """The model returns NaN: its weights are damaged, or its training has diverged."""


NOT_NUMBERS = (
    "the model's output is not a number (NaN)", "its weights are damaged, or `dtype` is too narrow: use float32"
)  # fmt: skip


def compute_log_probs(logits: Tensor) -> Tensor:
    """Returns log-probabilities (..., V) of logits. Raises NonFiniteLogitsError for NaN."""
    return check_finite(logits.float().log_softmax(dim=-1))


def check_finite(log_probs: Tensor) -> Tensor:
    """Returns log-probabilities (..., V) unchanged. Raises NonFiniteLogitsError for NaN."""
    if log_probs[..., 0].isnan().any():  # the softmax spreads one NaN over its whole row
        raise NonFiniteLogitsError(*NOT_NUMBERS)
    return log_probs


def length_limits(given: Tensor, decode: DecodeConfig, config: ModelConfig) -> list[int]:
    """Returns the most tokens of the output for each of the texts (B, S): `max_length`, or twice its tokens + 50.

    An encoder-decoder's positions are an upper bound, too. End tokens and the fixed prefix and suffix of a source or
    target do not count. A decoder-only model has no such bound, since it continues from the last part of a text.
    """
    count, length = given.shape
    if config.family == "decoder":
        return [decode.limit(length)] * count
    room = config.max_positions - 1 - len(decode.target_prefix)
    lengths = [length] * count if config.pad_id is None else (given != config.pad_id).sum(dim=1).tolist()
    return [min(decode.limit(length - decode.added), room) for length in lengths]
