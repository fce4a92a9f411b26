"""Text in, more text out: a decoder alone with its tokenizer."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import DecodeConfig
from pellucid.decoding import engine
from pellucid.decoding.beam import Search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import SamplingConfig, sample
from pellucid.decoding.scoring import token_log_probs
from pellucid.errors import ConfigError, shown
from pellucid.model.transformer import DecoderOnly
from pellucid.tasks.lines import check_batch_tokens, listed
from pellucid.tasks.saved import load_for
from pellucid.tasks.summary import summary
from pellucid.tasks.tracing import trace_pass
from pellucid.text.tokenizers import Tokenizers
from pellucid.tracing.trace import Trace


@dataclass(frozen=True)
class Generation:
    """How one prompt goes on."""

    prompt: str
    text: str
    """What the model wrote: `prompt + text` is the whole."""
    score: float
    """The sum of the new tokens' log-probabilities, that of the end token included where it was reached."""
    tokens: list[str]
    """The new tokens."""
    ended: bool
    """True: the model ended the text; False: it was cut off after `max_new_tokens`."""
    alternatives: list["Generation"] = field(default_factory=list, repr=False)
    """The n best, itself included."""


MOST_NEW_TOKENS = 1 << 20
"""Longer texts are continued a part at a time: all of one is held in memory, and nothing is seen before its end."""


class LanguageModel:
    """A trained language model.

        model = LanguageModel.load("run")
        model.generate(["ROMEO:"], max_new_tokens=200, temperature=0.8, seed=1)[0].text

    It puts its model into evaluation mode. What stands before every text is `decode.source_prefix`: the start token of
    a model that takes each line for a text of its own. A model without it was trained on running text, and an empty
    prompt starts with the start token all the same.
    """

    def __init__(self, model: DecoderOnly, tokenizers: Tokenizers, decode: DecodeConfig | None = None) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizers.target
        self.decode = decode or DecodeConfig()

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype | None = None,
        *,
        revision: str | None = None,
    ) -> Self:
        """The language model of a run, model or Hugging Face folder, or of a name on the hub (at a `revision`).

        Raises CheckpointError where there is none, it is damaged, or is for another task.
        """
        saved = load_for("generate", folder, device, dtype, revision)
        assert isinstance(saved.model, DecoderOnly)
        return cls(saved.model, saved.tokenizers, saved.decode)

    def __repr__(self) -> str:
        reads = "lines" if self.reads_lines else "running text"
        return summary(self, self.model, {self.tokenizer.kind: self.tokenizer.size}, f"reads {reads}")

    @property
    def reads_lines(self) -> bool:
        """Whether each line is a text of its own, with a start and an end token; else text runs on."""
        return bool(self.decode.source_prefix) and self.decode.source_end

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_new_tokens: int = 100,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        beam_size: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        search: Search | None = None,
        batch_tokens: int | None = None,
        first_place: int = 0,
    ) -> list[Generation]:
        """Continues each prompt, up to the model's end token or `max_new_tokens`.

        Without `temperature`, `top_k`, `top_p` and `seed`, and with `temperature=0`, the most probable text is looked
        for: token by token (greedy), or with a beam where `beam_size` is given. Any of the four asks for draws, at
        temperature 1 unless another is given. A prompt has random numbers of its own, from (seed, its place), so
        neighbours and batches change nothing.

        Args:
            temperature: divides the logits: below 1 sharper, above 1 flatter.
            top_k: draw from so many most probable tokens. top_p: from the fewest that together are so probable.
            beam_size: hypotheses kept a step; None: 1. n_best: continuations of each prompt, the best first, which are
                `Generation.alternatives`. They rank by score / length ** `length_penalty` (None: the model's own); the
                length is that of the new tokens, with the end token where it was reached.
            search: a search of one's own, a function of `pellucid.Steps` and a DecodeConfig that returns a
                `pellucid.Found` for each prompt.
            batch_tokens: tokens of all texts that are continued together; None: the model's own.
            first_place: how many prompts came before, where a long input is continued a part at a time.

        A text that outgrows the model's positions goes on with its last part alone; that is said once, as a warning.
        Raises ConfigError, DecodingError for a value that cannot work.
        """
        if not 1 <= max_new_tokens <= MOST_NEW_TOKENS:
            raise ConfigError(
                f"`max_new_tokens` ({shown(max_new_tokens)}) must be at least 1 and at most {MOST_NEW_TOKENS:,}"
            )
        check_batch_tokens(batch_tokens)
        texts, sampling = listed(prompts), _sampling(temperature, top_k, top_p, seed)
        ids = [self._started(ids) for ids in self.tokenizer.encode_lines(texts)]
        if sampling is not None and (search or beam_size or n_best):
            raise ConfigError(
                "`temperature`, `top_k`, `top_p` and `seed` draw a text; `beam_size`, `n_best` and `search` look for "
                "the most probable one",
                "leave the ones or the others out, or give `temperature=0`",
            )
        config = replace(
            self.decode, max_length=max_new_tokens, beam_size=1 if beam_size is None else beam_size,
            n_best=1 if n_best is None else n_best, batch_tokens=batch_tokens or self.decode.batch_tokens,
            length_penalty=self.decode.length_penalty if length_penalty is None else length_penalty,
        )  # fmt: skip
        by = search if sampling is None else partial(sample, sampling=sampling)
        found = engine.search(self.model, ids, config, by, places=range(first_place, first_place + len(ids)))
        self._warn_of_long(ids, found)
        continued = []
        for text, prompt, hypotheses in zip(texts, ids, found, strict=True):
            ranked = [self._generation(text, prompt, hypothesis) for hypothesis in hypotheses]
            continued.append(replace(ranked[0], alternatives=ranked))
        return continued

    def score(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of each text: the sum over its tokens, each given those before it.

        The first token is given the start token. The end token counts where the model takes each line for a text of
        its own (`reads_lines`). Of a text beyond the model's positions, each token is given at least half as many
        before it.
        """
        return [math.fsum(values) for values in self.token_scores(texts)]

    def token_scores(self, texts: Sequence[str], *, as_lines: bool | None = None) -> list[list[float]]:
        """The log-probability of each token of each text, with its end token where texts are lines.

        `as_lines` says whether they are; None: as the model was trained (`reads_lines`).
        """
        end = [self.model.config.eos_id] if (self.reads_lines if as_lines is None else as_lines) else []
        ids = [[*ids, *end] for ids in self.tokenizer.encode_lines(listed(texts))]
        start = self._started([])
        values = token_log_probs(self.model, [[*start, *text] for text in ids], self.decode.batch_tokens)
        return [scores[len(start) - 1 :] for scores in values]

    def trace(self, text: str) -> Trace:
        """All attentions of the pass over a text.

        In its sequence "out" the end token is last where the model takes each line for a text of its own
        (`reads_lines`), else what the model finds most probable there. Raises DataError for a text beyond the model's
        positions.
        """
        read = self._started(self.tokenizer.encode(text))
        written = [*read[1:], self.model.config.eos_id] if self.reads_lines else None
        return trace_pass(self.model, tgt=read, out=written, tokenizers=Tokenizers(self.tokenizer, self.tokenizer))

    def _started(self, ids: list[int]) -> list[int]:
        """The ids with what stands before every text; what has no token yet begins with the start token."""
        return [*self.decode.source_prefix, *ids] or [self.model.config.bos_id]

    def _warn_of_long(self, prompts: list[list[int]], found: list[list[Hypothesis]]) -> None:
        room = self.model.config.max_positions
        lengths = (len(ids) + len(h.ids) for ids, hypotheses in zip(prompts, found, strict=True) for h in hypotheses)
        longest = max(lengths, default=0)
        if longest > room + 1:  # the last token is not read any more
            warnings.warn(
                f"the longest text has {longest:,} tokens, prompt included, and the model has {room:,} positions: "
                "where they were all taken, a text went on with its last part alone",
                stacklevel=3,
            )

    def _generation(self, text: str, prompt: list[int], hypothesis: Hypothesis) -> Generation:
        decode, new = self.tokenizer.decode, hypothesis.ids
        # A piece may spell its space, or part of a character, only together with what stands before it.
        before, whole = decode(prompt), decode([*prompt, *new])
        written = whole[len(before) :] if whole.startswith(before) else decode(new)
        return Generation(text, written, hypothesis.score, self.tokenizer.tokens(new), hypothesis.ended)


def _sampling(
    temperature: float | None, top_k: int | None, top_p: float | None, seed: int | None
) -> SamplingConfig | None:
    """How to draw; None where nothing asks for it, or the temperature is 0."""
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return SamplingConfig(**given) if given and temperature != 0 else None
