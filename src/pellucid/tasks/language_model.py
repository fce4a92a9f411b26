"""Text in, more text out: a decoder alone with its tokenizer."""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, Unpack

from pellucid.config import TASKS, DecodeConfig, SamplingConfig, Task
from pellucid.decoding import engine
from pellucid.decoding.beam import Search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import sample
from pellucid.decoding.scoring import token_log_probs
from pellucid.errors import ConfigError, argument, shown
from pellucid.model.families import DecoderOnly
from pellucid.tasks.task import Scored, TextModel, check_batch_tokens, listed
from pellucid.tasks.tracing import trace_pass
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
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
    """The sum of the new tokens' log-probabilities, that of the end token included where it was reached."""
    tokens: list[str]
    """The new tokens."""
    ended: bool
    """True where the model ended the text; else it was cut off after `max_new_tokens`."""
    alternatives: list["Generation"] = field(default_factory=list, repr=False)
    """The n best, itself included."""

    def to_json(self) -> dict[str, Any]:
        """Returns prompt, text, score, tokens and whether it ended; of several continuations all of them."""
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
"""Longer texts are continued a part at a time: all of one is held in memory, and nothing is seen before its end."""


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
    search: Search | None
    batch_tokens: int | None


class LanguageModel(TextModel[DecoderOnly]):
    """A trained language model.

        model = LanguageModel.load("run")
        model.generate(["ROMEO:"], max_new_tokens=200, temperature=0.8, seed=1)[0].text

    It puts its model into evaluation mode. What stands before every text is `decode.source_prefix`: the start token of
    a model that takes each line for a text of its own. A model without it was trained on running text, and an empty
    prompt starts with the start token all the same.
    """

    task: ClassVar[Task] = TASKS["generate"]

    def __init__(self, model: DecoderOnly, tokenizers: GivenTokenizers, decode: DecodeConfig | None = None) -> None:
        """Puts a decoder, its tokenizer and its settings together."""
        super().__init__(model, tokenizers, decode)

    @classmethod
    def _opened(cls, saved: SavedModel, tokenizers: Tokenizers) -> Self:
        assert isinstance(saved.model, DecoderOnly), "the task's record says so"
        return cls(saved.model, tokenizers, saved.decode)

    @property
    def tokenizer(self) -> CompleteTokenizer:
        """The tokenizer of the texts: `tokenizers.target`."""
        return self.tokenizers.target

    def _traits(self) -> list[str]:
        return [f"reads {'lines' if self.reads_lines else 'running text'}"]

    @property
    def reads_lines(self) -> bool:
        """True where each line is a text of its own, with a start and an end token; else text runs on."""
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
    ) -> list[Generation]:
        """Returns how each prompt goes on, up to the model's end token or `max_new_tokens`.

        Without `temperature`, `top_k`, `top_p` and `seed`, and with `temperature=0`, the most probable text is looked
        for: token by token (greedy), or with a beam where `beam_size` is given. Any of the four asks for draws, at
        temperature 1 unless another is given. A prompt has random numbers of its own, from (seed, its place), so
        neighbours and batches change nothing.

        Args:
            temperature: divides the logits: below 1 sharper, above 1 flatter.
            top_k: draws from so many most probable tokens.
            top_p: draws from the fewest tokens that together are so probable.
            seed: decides the draws; 1 where nothing says otherwise.
            beam_size: hypotheses kept a step; None: 1.
            n_best: continuations of each prompt, in `Generation.alternatives`, the best first.
            length_penalty: continuations rank by score / length ** length_penalty, where the length is that of the new
                tokens, with the end token where it was reached; None: the model's own.
            search: a search of one's own, a function of `pellucid.Steps` and a DecodeConfig that returns a
                `pellucid.Found` for each prompt.
            batch_tokens: tokens of all texts that are continued together; None: the model's own.

        A text that outgrows the model's positions goes on with its last part alone; that is said once, as a warning.
        Raises ConfigError, DecodingError for a value that cannot work.
        """
        return self._continued(
            prompts, 0, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
            beam_size=beam_size, n_best=n_best, length_penalty=length_penalty, search=search, batch_tokens=batch_tokens,
        )  # fmt: skip

    def _continued(
        self,
        prompts: Sequence[str],
        before: int,
        *,
        max_new_tokens: int = 100,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        search: Search | None = None,
        **settings: Any,
    ) -> list[Generation]:
        """Continues some prompts of a stream of which `before` came before."""
        if not 1 <= max_new_tokens <= MOST_NEW_TOKENS:
            raise ConfigError(
                f"`max_new_tokens` ({shown(max_new_tokens)}) must be at least 1 and at most {MOST_NEW_TOKENS:,}"
            )
        check_batch_tokens(settings.get("batch_tokens"))
        texts, sampling = listed(prompts), _sampling(temperature, top_k, top_p, seed)
        ids = [self._started(ids) for ids in self.tokenizer.encode_lines(texts)]
        given = {name: value for name, value in settings.items() if value is not None}
        searching = [argument(name, given[name]) for name in ("beam_size", "n_best", "length_penalty") if name in given]
        searching += ["`search=`"] if search is not None else []
        if sampling is not None and searching:
            drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
            draws = next(argument(name, value) for name, value in drawing.items() if value is not None)
            raise ConfigError(
                f"{draws} asks for a text that is drawn, {searching[0]} for the most probable one",
                "leave one of them out, or give `temperature=0`, which draws nothing",
            )
        config = replace(self.decode, **{"beam_size": 1, "n_best": 1, "max_length": max_new_tokens} | given)
        by = search if sampling is None else partial(sample, sampling=sampling)
        found = engine.search(self.model, ids, config, by, places=range(before, before + len(ids)))
        room = self.model.config.max_positions
        longest = max(
            (len(i) + len(h.ids) for i, hypotheses in zip(ids, found, strict=True) for h in hypotheses), default=0
        )
        if longest > room + 1:  # the last token is not read any more
            warnings.warn(
                f"the longest text has {longest:,} tokens, prompt included, and the model has {room:,} positions: "
                "where they were all taken, a text went on with its last part alone",
                stacklevel=3,
            )
        continued = []
        for text, prompt, hypotheses in zip(texts, ids, found, strict=True):
            ranked = [self._generation(text, prompt, hypothesis) for hypothesis in hypotheses]
            continued.append(replace(ranked[0], alternatives=ranked))
        return continued

    def answer(self, lines: Sequence[str], place: int, **options: Unpack[GenerateOptions]) -> list[Generation]:
        """Continues some prompts of a stream, of which `place` came before; options as `generate` takes them."""
        return self._continued(lines, place, **options)

    def stream(self, prompts: Iterable[str], **options: Unpack[GenerateOptions]) -> Iterator[Generation]:
        """Continues prompts one after another, however many there are; at most 2,048 are held at a time.

        Options are those of `generate`.
        """
        return super().stream(prompts, **options)

    def evaluate(self, lines: Sequence[str], *, as_lines: bool | None = None) -> "TextScores":
        """Scores the model on the lines of a text: the loss a token, the perplexity, the bits a byte.

        Args:
            as_lines: takes each line for a text of its own, and leaves blank ones out as training does; False takes
                all of them for one running text, in which blank ones count. None: as the model was trained.

        Raises DataError where there is nothing to score.
        """
        from pellucid.evaluation.text_scores import score_texts

        alone = self.reads_lines if as_lines is None else as_lines
        given = [line for line in listed(lines) if line.strip()] if alone else listed(lines)
        num_bytes = sum(len(line.encode("utf-8", "replace")) + 1 for line in given)  # with its end
        texts = given if alone else ["".join(f"{line}\n" for line in given)]
        return score_texts(self.token_scores(texts, as_lines=alone), num_bytes)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Returns the log-probability of each text: the sum over its tokens, each given those before it.

        The first token is given the start token. The end token counts where the model takes each line for a text of
        its own (`reads_lines`). Of a text beyond the model's positions, each token is given at least half as many
        before it.
        """
        return [math.fsum(values) for values in self.token_scores(texts)]

    def scored(self, texts: Sequence[str]) -> list[Scored]:
        """Returns what `score` gives, with the number of tokens."""
        return [Scored(math.fsum(values), len(values)) for values in self.token_scores(texts)]

    def token_scores(self, texts: Sequence[str], *, as_lines: bool | None = None) -> list[list[float]]:
        """Returns the log-probability of each token of each text, with its end token where texts are lines.

        `as_lines` says whether they are; None: as the model was trained (`reads_lines`).
        """
        end = [self.model.config.eos_id] if (self.reads_lines if as_lines is None else as_lines) else []
        ids = [[*ids, *end] for ids in self.tokenizer.encode_lines(listed(texts))]
        start = self._started([])
        values = token_log_probs(self.model, [[*start, *text] for text in ids], self.decode.batch_tokens)
        return [scores[len(start) - 1 :] for scores in values]

    def trace(self, text: str, *, residual: bool = False) -> Trace:
        """Records all attentions of the pass over a text, and what was probable; with `residual`, its stream, too.

        In its sequence "out" the end token is last where the model takes each line for a text of its own
        (`reads_lines`), else what the model finds most probable there. Raises DataError for a text beyond the model's
        positions.
        """
        read = self._started(self.tokenizer.encode(text))
        written = [*read[1:], self.model.config.eos_id] if self.reads_lines else None
        return trace_pass(self.model, tgt=read, out=written, tokenizers=self.tokenizers, residual=residual)

    def _started(self, ids: list[int]) -> list[int]:
        """Returns the ids with what stands before every text; what has no token yet begins with the start token."""
        return [*self.decode.source_prefix, *ids] or [self.model.config.bos_id]

    def _generation(self, text: str, prompt: list[int], hypothesis: Hypothesis) -> Generation:
        decode, new = self.tokenizer.decode, hypothesis.ids
        # A piece may spell its space, or part of a character, only together with what stands before it.
        before, whole = decode(prompt), decode([*prompt, *new])
        written = whole[len(before) :] if whole.startswith(before) else decode(new)
        return Generation(text, written, hypothesis.score, self.tokenizer.tokens(new), hypothesis.ended)


def _sampling(
    temperature: float | None, top_k: int | None, top_p: float | None, seed: int | None
) -> SamplingConfig | None:
    """Returns how to draw; None where nothing asks for it, or the temperature is 0."""
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return SamplingConfig(**given) if given and temperature != 0 else None
