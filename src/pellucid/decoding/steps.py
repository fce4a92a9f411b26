"""The step function: all that a search sees of a model, whatever family the model is of.

A model gives logits a step at a time (`StepModel`), and keeps what it has read in a `Cache`. `Steps` holds the rest of
what every search needs: how an output begins, what may not be written, where it has to end, and which sentences are
still searched.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.ensemble import MeanOfModels
from pellucid.decoding.hypothesis import Hypothesis, Watcher
from pellucid.decoding.ids import suppressed_ids
from pellucid.errors import DecodingError
from pellucid.model.fast.queue import has_queue, send

KEPT = 3, 4
"""The part of its positions with which a text goes on when all of them are taken: the rest has room for new tokens."""


class Cache(Protocol):
    """The memory of what a model has read of B sentences with W hypotheses each."""

    length: int
    """Positions that are taken."""

    def reorder(self, parents: Tensor, /) -> None:
        """Lets hypothesis w of each sentence go on from what hypothesis parents[:, w] has read: (B, W)."""

    def select(self, sentences: Tensor, /) -> None:
        """Keeps some of the sentences: their places (B',)."""


class StepModel(Protocol):
    """Gives the logits of each next token: a Transformer, a DecoderOnly, or what somebody makes of several models."""

    config: ModelConfig

    def start(self, ids: Tensor, beam_size: int, /) -> Any:
        """Returns a Cache for W = `beam_size` hypotheses of each of the texts (B, S).

        An encoder-decoder encodes the texts, which are its sources, and its cache has no position taken. A decoder
        alone reads their tokens but the last, with which `step` goes on.
        """

    def step(self, tokens: Tensor, cache: Any, /) -> Tensor:
        """Reads one more token of each hypothesis, (B, W), into the cache; returns the next one's logits (B, W, V)."""


class Steps:
    """A batch of B outputs, W hypotheses of each, that grow by one token at a step.

    A search calls `start`, then step by step `log_probs` and `advance`, and `select` when a sentence is done, until no
    `rows` are left:

        def most_probable(steps: Steps, config: DecodeConfig) -> list[Found]:
            found: dict[int, Found] = {}
            steps.start(width=1)
            scores = torch.zeros(len(steps.rows))                              # (B,)
            while steps.rows:
                best, tokens = steps.log_probs()[:, 0].max(dim=1)              # (B, 1, V) -> (B,), (B,)
                scores = scores + best
                done = (tokens == steps.eos_id).nonzero()[:, 0]
                for row, hypothesis in zip(done, steps.hypotheses(done, 0 * done, scores[done])):
                    found[steps.rows[row]] = Found([hypothesis])
                steps.advance(tokens[:, None])
                going_on = (tokens != steps.eos_id).nonzero()[:, 0]
                steps.select(going_on)
                scores = scores[going_on]
            return [found[row] for row in range(len(found))]

    An encoder-decoder's output begins with the start token and `target_prefix`, is at most `max_length` tokens or as
    many as the model's positions allow, and at that limit may only end. A decoder's output is what it adds to a prompt;
    at its limit it is cut off, and where the model's positions run out, it goes on with its last part alone.
    """

    def __init__(
        self,
        model: StepModel,
        given: Tensor,
        decode: DecodeConfig,
        places: Sequence[int] | None = None,
        watch: Watcher | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        """Takes what the model is given, (B, S): sources as the encoder reads them, padded; or prompts of one length.

        Args:
            decode: says what limits, begins and suppresses an output.
            places: the number of each text in the whole input, from which random numbers may follow; None: 0, 1, 2 ...
            watch: is told of each step of a single output, by `beam_search` and `greedy_search`.
            constraints: of the outputs; None: there are none.
        """
        config = model.config
        self.watch = watch
        """Is told of each step of a single output, by `beam_search` and `greedy_search`; None: nobody is."""
        self.eos_id: int = config.eos_id
        self.limits: list[int] = length_limits(given, decode, config)
        """The most tokens of each of the outputs, its end token not counted."""
        self.places: list[int] = list(range(len(given)) if places is None else places)
        self.cuts: bool = config.family == "decoder"
        """True: an output at its limit is cut off; False: it may only end."""
        self.width: int = 1
        """W."""
        self.rows: list[int] = []
        """The outputs that are still searched: of each row of the batch, which of the B it is."""
        self.device: torch.device = given.device
        if self.cuts:
            self._given = given[:, -config.max_positions :]
            self._begin = self._given
            never = {*decode.suppress, *([] if config.pad_id is None else [config.pad_id])}
            never_written = sorted(i for i in never if i < config.tgt_vocab_size)
            self.prefix_length: int = 0
        else:
            self._given = given
            self._begin = given.new_tensor([config.bos_id, *decode.target_prefix]).expand(len(given), -1)
            never_written = suppressed_ids(config, decode.suppress)
            self.prefix_length = len(decode.target_prefix)
        # On a GPU: whether the model has given something else than numbers. Asking at once would be waiting for it.
        self._not_numbers: Tensor | None = None
        self._never: Tensor = torch.tensor(never_written, dtype=torch.long, device=self.device)
        self._model = model
        self._constraints = constraints

    def start(self, width: int) -> None:
        """Begins to search all B outputs, with W = `width` hypotheses of each, which are alike at first."""
        if self.rows or hasattr(self, "_cache"):
            self.watch = None  # of several searches no tree can be made
        self.width, self.rows = width, list(range(len(self._given)))
        self._soonest = min(self.limits, default=0)
        self._read = self._begin[:, None].expand(-1, width, -1)  # (B, W, T)
        self._open(self._given, self._read)

    def _open(self, given: Tensor, tokens: Tensor) -> None:
        """Has the model read `given`, and of the tokens (B, W, T) what is not part of that, except for the last."""
        with torch.no_grad():
            self._cache: Cache = self._model.start(given, self.width)
            for place in range(self._cache.length, tokens.size(2) - 1):
                self._model.step(tokens[:, :, place], self._cache)

    @property
    def ids(self) -> Tensor:
        """The tokens so far, (B, W, T), without what every output begins with."""
        return self._read[:, :, self._begin.size(1) :]

    @property
    def length(self) -> int:
        """The number of tokens so far, T."""
        return self._read.size(2) - self._begin.size(1)

    def log_probs(self) -> Tensor:
        """Returns the log-probability of each next token of each hypothesis, (B, W, V), in single precision.

        Minus infinity stands at what may not be written, and nothing is normalised again. An output at its limit may
        only end: with the model's probability, or, where outputs are cut off, for nothing.

        Raises NotANumberError where the model gives no numbers; on a GPU `select` and `hypotheses` raise it.
        """
        self._check_begun()
        config, limited = self._model.config, list[bool]()
        if self.length >= self._soonest:
            limited = [self.length >= self.limits[row] for row in self.rows]
            if self.cuts and all(limited):
                end = torch.full((len(self.rows), self.width, config.tgt_vocab_size), -torch.inf, device=self.device)
                end[:, :, self.eos_id] = 0.0
                return end
        with torch.no_grad():
            if self.cuts and self._cache.length == config.max_positions:
                self._go_on_with_the_last_part(config.max_positions)
            log_probs = self._log_probs_of(self._model.step(self._read[:, :, -1], self._cache))  # (B, W, V)
        if self._constraints is None:
            log_probs.index_fill_(2, self._never, -torch.inf)
        else:
            self._constraints.apply(log_probs, self.ids, self.rows, self.limits, self.eos_id, self._never)
        if any(limited):
            at_limit = send(torch.tensor(limited), self.device)[:, None]  # (B, 1)
            ends = log_probs[:, :, self.eos_id].clone()  # (B, W)
            log_probs.masked_fill_(at_limit[:, :, None], -torch.inf)
            log_probs[:, :, self.eos_id] = ends.masked_fill(at_limit, 0.0) if self.cuts else ends
        return log_probs

    def _log_probs_of(self, logits: Tensor) -> Tensor:
        """Returns log-probabilities of logits; what is no number is told at once, or on a GPU noted."""
        is_mean = isinstance(self._model, MeanOfModels)  # which is of log-probabilities already
        if not has_queue(self.device):
            return checked(logits) if is_mean else log_probs_of(logits)
        log_probs = logits if is_mean else logits.float().log_softmax(dim=-1)  # (B, W, V)
        is_nan = log_probs[..., 0].isnan().any()
        self._not_numbers = is_nan if self._not_numbers is None else self._not_numbers | is_nan
        return log_probs

    def check_numbers(self) -> None:
        """Raises NotANumberError where the model gave no numbers since the last call; a GPU is waited for."""
        noted, self._not_numbers = self._not_numbers, None
        if noted is not None and noted:
            raise NotANumberError(*NOT_NUMBERS)

    def _go_on_with_the_last_part(self, room: int) -> None:
        """Reads the last three quarters of `room` tokens again, from the first position on.

        What all hypotheses of a text have in common is read once; where they part, each reads its own, step by step.
        """
        kept = self._read[:, :, -max(1, room * KEPT[0] // KEPT[1]) :]  # (B, W, T)
        alike = (kept == kept[:, :1]).all(dim=1).all(dim=0)  # (T,)
        common = int(alike[:-1].long().cumprod(dim=0).sum())
        self._open(kept[:, 0, : common + 1], kept)

    def _check_begun(self) -> None:
        if not hasattr(self, "_cache"):
            raise DecodingError("the search has not begun", "call steps.start(width) first")

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> None:
        """Lets each hypothesis w go on from hypothesis parents[:, w] with tokens[:, w]: both (B, W), int64.

        Without `parents` each goes on from itself. Raises DecodingError for another shape, and for a parent that is
        none of the W.
        """
        self._check_begun()
        for name, given in (("tokens", tokens), ("parents", parents)):
            if given is not None and given.shape != (len(self.rows), self.width):
                raise DecodingError(
                    f"`{name}` has shape {tuple(given.shape)}, but {len(self.rows)} outputs with {self.width} "
                    f"hypotheses each are searched",
                    f"give a tensor ({len(self.rows)}, {self.width}), or start with another `width`",
                )
        if parents is not None:
            try:
                self._read = self._read.gather(1, parents[:, :, None].expand(-1, -1, self._read.size(2)))
            except RuntimeError as error:  # a check beforehand would have a GPU wait at each step
                raise DecodingError(
                    f"`parents` cannot be gone on from: {error}", f"give int64 from 0 to {self.width - 1}"
                ) from error
            self._cache.reorder(parents)
        self._read = torch.cat([self._read, tokens[:, :, None]], dim=2)  # (B, W, T)

    def select(self, rows: Tensor) -> None:
        """Goes on with some rows of the batch alone, (B',): the others are done, and cost nothing any more.

        Raises DecodingError for a row that the batch does not have.
        """
        if rows.dtype == torch.bool:
            raise DecodingError("`rows` is a mask", "give the places of the rows that go on: mask.nonzero()[:, 0]")
        self.check_numbers()
        kept = rows.tolist()
        if kept and not 0 <= min(kept) <= max(kept) < len(self.rows):
            raise DecodingError(
                f"`rows` holds {max(kept) if min(kept) >= 0 else min(kept)}; the batch has {len(self.rows)} rows",
                "give the places of those that go on, counted from 0",
            )
        if kept != list(range(len(self.rows))):
            self.rows = [self.rows[row] for row in kept]
            rows = send(rows, self.device)
            self._read = self._read[rows]
            self._cache.select(rows)

    def hypotheses(self, rows: Tensor, parents: Tensor, scores: Tensor) -> list[Hypothesis]:
        """Returns n hypotheses as they stand, to be called for those whose next token is the end token.

        Args:
            rows, parents: (n,) row of the batch, and which of its W hypotheses.
            scores: (n,) sums of log-probabilities, with the end token's.
        """
        self.check_numbers()
        return self.hypotheses_at(self.ids, rows, parents, scores)

    def hypotheses_at(self, ids: Tensor, rows: Tensor, parents: Tensor, scores: Tensor) -> list[Hypothesis]:
        """Returns what `hypotheses` does of an earlier step, at which `ids` were (B, W, T), with the rows of today."""
        if not len(rows):
            return []
        texts = ids[rows, parents].tolist()
        ended = [not (self.cuts and ids.size(2) >= self.limits[self.rows[row]]) for row in rows.tolist()]
        return [
            Hypothesis(ids, score, self.prefix_length, end)
            for ids, score, end in zip(texts, scores.tolist(), ended, strict=True)
        ]


class NotANumberError(DecodingError):
    """The model gives no numbers: its weights are damaged, or its training has diverged."""


NOT_NUMBERS = (
    "the model's output is not a number (NaN)", "its weights are damaged, or `dtype` is too narrow: use float32"
)  # fmt: skip


def log_probs_of(logits: Tensor) -> Tensor:
    """Returns log-probabilities (..., V) of logits. Raises NotANumberError where the model gives no numbers."""
    return checked(logits.float().log_softmax(dim=-1))


def checked(log_probs: Tensor) -> Tensor:
    """Returns log-probabilities (..., V) as they are. Raises NotANumberError where they are no numbers."""
    if log_probs[..., 0].isnan().any():  # the softmax spreads one NaN over its whole row
        raise NotANumberError(*NOT_NUMBERS)
    return log_probs


def length_limits(given: Tensor, decode: DecodeConfig, config: ModelConfig) -> list[int]:
    """Returns the most tokens that may follow each of the texts (B, S): `max_length`, or twice its tokens + 50.

    An encoder-decoder's positions are the upper bound as well. End tokens, and what stands before and behind every
    source or target, do not count. A decoder alone has no such bound, since it goes on with the last part of a text.
    """
    count, length = given.shape
    if config.family == "decoder":
        return [decode.limit(length)] * count
    room = config.max_positions - 1 - len(decode.target_prefix)
    lengths = [length] * count if config.pad_id is None else (given != config.pad_id).sum(dim=1).tolist()
    return [min(decode.limit(length - decode.added), room) for length in lengths]
