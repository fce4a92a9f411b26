"""Text in, more text out: a decoder alone with its tokenizer."""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, Unpack

from pellucid.config import TASKS, DecodeConfig, SamplingConfig, Task
from pellucid.decoding import batched_search
from pellucid.decoding.beam import SearchFunction
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import sample
from pellucid.decoding.scoring import token_log_probs
from pellucid.errors import ConfigError, format_argument, format_value
from pellucid.model.families import DecoderOnly
from pellucid.tasks.task import SequenceScore, TextModel, check_batch_tokens, check_lines
from pellucid.tasks.tracing import trace_pass
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel

if TYPE_CHECKING:
    from pellucid.evaluation.text_scores import TextScores


@dataclass(frozen=True)
class Generation:
    """The continuation of one prompt."""

    prompt: str
    text: str
    """The text that the model wrote: `prompt + text` is the whole."""
    score: float
    """The sum of the new tokens' log-probabilities, with that of the end token if it was reached."""
    tokens: list[str]
    """The new tokens."""
    ended: bool
    """If True, the model ended the text; if False, it was truncated after `max_new_tokens`."""
    alternatives: list["Generation"] = field(default_factory=list, repr=False)
    """The n-best list, with this continuation."""

    def to_json(self) -> dict[str, Any]:
        """Returns prompt, text, score, tokens and `ended`; with several alternatives the fields of each."""
        table = self._table()
        return table | (
            {"alternatives": [one._table() for one in self.alternatives]} if len(self.alternatives) > 1 else {}
        )

    def _table(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt, "text": self.text, "score": round(self.score, 5), "tokens": self.tokens,
            "ended": self.ended,
        }  # fmt: skip


MOST_NEW_TOKENS = 1 << 20
"""The upper limit of `max_new_tokens`: a whole text is held in memory, and returned only at its end."""


class GenerateOptions(TypedDict, total=False):
    """The options of `LanguageModel.generate`."""

    max_new_tokens: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    beam_size: int | None
    n_best: int | None
    length_penalty: float | None
    search: SearchFunction | None
    batch_tokens: int | None


class LanguageModel(TextModel[DecoderOnly]):
    """A trained language model.

        model = LanguageModel.load("run")
        model.generate(["ROMEO:"], max_new_tokens=200, temperature=0.8, seed=1)[0].text

    It puts its model into evaluation mode. Every text begins with `decode.source_prefix`: the start token if the model
    was trained on separate lines. A model without it was trained on running text; its empty prompts begin with the
    start token, too.
    """

    task: ClassVar[Task] = TASKS["generate"]

    def __init__(self, model: DecoderOnly, tokenizers: GivenTokenizers, decode: DecodeConfig | None = None) -> None:
        """Puts a decoder, its tokenizer and its settings together."""
        super().__init__(model, tokenizers, decode)

    @classmethod
    def _from_saved(cls, saved: SavedModel, tokenizers: TokenizerPair) -> Self:
        assert isinstance(saved.model, DecoderOnly), "the task's record has them"
        return cls(saved.model, tokenizers, saved.decode)

    @property
    def tokenizer(self) -> TokenizerBase:
        """The tokenizer of the texts: `tokenizers.target`."""
        return self.tokenizers.target

    def _traits(self) -> list[str]:
        return [f"reads {'lines' if self.reads_lines else 'continuous text'}"]

    @property
    def reads_lines(self) -> bool:
        """True if the model takes each line as a separate text, with a start and an end token; False: running text."""
        return bool(self.decode.source_prefix) and self.decode.add_source_eos

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
        search: SearchFunction | None = None,
        batch_tokens: int | None = None,
    ) -> list[Generation]:
        """Returns the continuation of each prompt, up to the model's end token or `max_new_tokens`.

        Without `temperature`, `top_k`, `top_p` and `seed`, or with `temperature=0`, the search looks for the most
        probable text: greedily, or with a beam if `beam_size` is given. Any of the four enables sampling, with a
        default temperature of 1. The random numbers of a prompt depend on the seed and the prompt's index alone, not on
        neighbours or batches.

        Args:
            temperature: divides the logits: below 1 sharper, above 1 flatter.
            top_k: samples from the k most probable tokens.
            top_p: samples from the smallest set of tokens with at least this total probability.
            seed: the random seed; default 1.
            beam_size: hypotheses kept per step; None: 1.
            n_best: continuations of each prompt, in `Generation.alternatives`, the best first.
            length_penalty: continuations rank by score / length ** length_penalty, where the length is that of the new
                tokens, with the end token if it was reached; None: the model's setting.
            search: a custom search: a function of `pellucid.SearchState` and a DecodeConfig that returns a
                `pellucid.SearchResult` for each prompt.
            batch_tokens: tokens per batch; None: the model's setting.

        A text that exceeds the model's positions continues from its last part alone, with one warning.
        Raises ConfigError, DecodingError for an invalid value.
        """
        return self._continue(
            prompts, 0, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
            beam_size=beam_size, n_best=n_best, length_penalty=length_penalty, search=search, batch_tokens=batch_tokens,
        )  # fmt: skip

    def _continue(
        self,
        prompts: Sequence[str],
        before: int,
        *,
        max_new_tokens: int = 100,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        search: SearchFunction | None = None,
        **settings: Any,
    ) -> list[Generation]:
        """Continues prompts of a stream, the first of which has the index `before`."""
        if not 1 <= max_new_tokens <= MOST_NEW_TOKENS:
            raise ConfigError(
                f"`max_new_tokens` ({format_value(max_new_tokens)}) must be at least 1 and at most {MOST_NEW_TOKENS:,}"
            )
        check_batch_tokens(settings.get("batch_tokens"))
        texts, sampling = check_lines(prompts), _make_sampling(temperature, top_k, top_p, seed)
        ids = [self._add_prefix(ids) for ids in self.tokenizer.encode_lines(texts)]
        given = {name: value for name, value in settings.items() if value is not None}
        searching = [
            format_argument(name, given[name]) for name in ("beam_size", "n_best", "length_penalty") if name in given
        ]
        searching += ["`search=`"] if search is not None else []
        if sampling is not None and searching:
            drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
            draws = next(format_argument(name, value) for name, value in drawing.items() if value is not None)
            raise ConfigError(
                f"{draws} is for sampling, {searching[0]} for beam search",
                "leave one of them out, or set `temperature=0`, which does not sample",
            )
        config = replace(self.decode, **{"beam_size": 1, "n_best": 1, "max_length": max_new_tokens} | given)
        by = search if sampling is None else partial(sample, sampling=sampling)
        found = batched_search.search(self.model, ids, config, by, text_indices=range(before, before + len(ids)))
        room = self.model.config.max_positions
        longest = max(
            (len(i) + len(h.ids) for i, hypotheses in zip(ids, found, strict=True) for h in hypotheses), default=0
        )
        if longest > room + 1:  # the model never reads the last token
            warnings.warn(
                f"the longest text has {longest:,} tokens, prompt included, and the model has {room:,} positions: at "
                "the limit a text was continued from its last part alone",
                stacklevel=3,
            )
        continued = []
        for text, prompt, hypotheses in zip(texts, ids, found, strict=True):
            ranked = [self._generation(text, prompt, hypothesis) for hypothesis in hypotheses]
            continued.append(replace(ranked[0], alternatives=ranked))
        return continued

    def process_lines(self, lines: Sequence[str], place: int, **options: Unpack[GenerateOptions]) -> list[Generation]:
        """Continues prompts of a stream, the first of which has the index `place`; takes the options of `generate`."""
        return self._continue(lines, place, **options)

    def stream(self, prompts: Iterable[str], **options: Unpack[GenerateOptions]) -> Iterator[Generation]:
        """Continues prompts one after another, in chunks of about four seconds and at most 2,048 lines.

        Takes the options of `generate`.
        """
        return super().stream(prompts, **options)

    def evaluate(self, lines: Sequence[str], *, as_lines: bool | None = None) -> "TextScores":
        """Scores the model on the lines of a text: the loss per token, the perplexity, the bits per byte.

        Args:
            as_lines: if True, each line is a separate text, and blank lines are skipped as in training; if False, the
                lines are one running text, in which blank lines count; None: as the model was trained.

        Raises DataError if there is nothing to score.
        """
        from pellucid.evaluation.text_scores import score_texts

        alone = self.reads_lines if as_lines is None else as_lines
        given = [line for line in check_lines(lines) if line.strip()] if alone else check_lines(lines)
        num_bytes = sum(len(line.encode("utf-8", "replace")) + 1 for line in given)  # with its end
        texts = given if alone else ["".join(f"{line}\n" for line in given)]
        return score_texts(self.token_scores(texts, as_lines=alone), num_bytes)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Returns the log-probability of each text: the sum over its tokens, each given the tokens before it.

        The first token is given the start token. The end token counts if the model takes each line as a separate text
        (`reads_lines`). In a text longer than the model's positions, the context of each token is at least half of
        them.
        """
        return [math.fsum(values) for values in self.token_scores(texts)]

    def score_sequences(self, texts: Sequence[str]) -> list[SequenceScore]:
        """Returns the scores of `score` with the numbers of tokens."""
        return [SequenceScore(math.fsum(values), len(values)) for values in self.token_scores(texts)]

    def token_scores(self, texts: Sequence[str], *, as_lines: bool | None = None) -> list[list[float]]:
        """Returns the log-probability of each token of each text, with its end token if texts are lines.

        If `as_lines`, they are; None: as the model was trained (`reads_lines`).
        """
        end = [self.model.config.eos_id] if (self.reads_lines if as_lines is None else as_lines) else []
        ids = [[*ids, *end] for ids in self.tokenizer.encode_lines(check_lines(texts))]
        start = self._add_prefix([])
        values = token_log_probs(self.model, [[*start, *text] for text in ids], self.decode.batch_tokens)
        return [scores[len(start) - 1 :] for scores in values]

    def trace(self, text: str, *, residual: bool = False) -> Trace:
        """Records all attentions and predictions of the pass over a text; with `residual`, the residual stream, too.

        The last token of its sequence "out" is the end token if the model takes each line as a separate text
        (`reads_lines`), else the most probable token there. Raises DataError for a text that exceeds the model's
        positions.
        """
        read = self._add_prefix(self.tokenizer.encode(text))
        written = [*read[1:], self.model.config.eos_id] if self.reads_lines else None
        return trace_pass(self.model, tgt=read, out=written, tokenizers=self.tokenizers, residual=residual)

    def _add_prefix(self, ids: list[int]) -> list[int]:
        """Returns the ids after the prefix of every text, or the start token alone if both are empty."""
        return [*self.decode.source_prefix, *ids] or [self.model.config.bos_id]

    def _generation(self, text: str, prompt: list[int], hypothesis: Hypothesis) -> Generation:
        decode, new = self.tokenizer.decode, hypothesis.ids
        # A token may decode to its space, or part of a character, only together with the tokens before it.
        before, whole = decode(prompt), decode([*prompt, *new])
        written = whole[len(before) :] if whole.startswith(before) else decode(new)
        return Generation(text, written, hypothesis.score, self.tokenizer.tokens(new), hypothesis.ended)


def _make_sampling(
    temperature: float | None, top_k: int | None, top_p: float | None, seed: int | None
) -> SamplingConfig | None:
    """Returns the sampling settings; None if no option requests sampling, or the temperature is 0."""
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return SamplingConfig(**given) if given and temperature != 0 else None
