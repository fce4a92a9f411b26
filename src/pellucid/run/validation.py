"""Validation within a run: the loss on the validation set, and the scores of the model's outputs."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, collate_batch, make_batch_sampler
from pellucid.data.prepare import TrainingData
from pellucid.evaluation.scores import corpus_scores
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.training.loss import CrossEntropy, smoothed_cross_entropy
from pellucid.training.precision import autocast
from pellucid.training.ranks import SINGLE_PROCESS, DistributedContext
from pellucid.training.validation import Validation

REPEATED = re.compile(r"(.{1,40}?)\1{5,}")
"""A word, or a few, that a model in its first steps repeats many times."""
MOST_CHARACTERS = 300
_T = TypeVar("_T")


@dataclass(frozen=True)
class Validator:
    """Validates a model; the training loop calls it with the model in evaluation mode."""

    model: Model
    texts: TrainingData
    config: TrainConfig
    ranks: DistributedContext = SINGLE_PROCESS
    """Rank r of n validates batches and sentences r, r + n, ...; the result is the same as with one process."""

    def __call__(self) -> Validation:
        """Returns the cross-entropy per token and per byte, whatever loss training minimises.

        For a translator also BLEU and chrF, for a classifier accuracy.
        """
        if isinstance(self.model, SequenceClassifier):
            return self._validate_classifier(self.model)
        of_pairs = self._losses()
        nats, tokens = map(sum, zip(*of_pairs.values(), strict=True))
        size = self.texts.valid_bytes
        pairs = {name: Validation(each / count) for name, (each, count) in of_pairs.items()} if self._names else {}
        found = Validation(nats / tokens, bits_per_byte=nats / math.log(2) / size if size else None, pairs=pairs)
        if not math.isfinite(nats):  # with such weights nothing can be translated
            return found
        if isinstance(self.model, Transformer) and self.config.decode_and_evaluate and self.texts.valid_pairs:
            return self._add_scores(self.model, found)
        return found

    def for_all_text(self) -> Self:
        """Returns a validator that translates the whole validation set; with a time budget, one sentence per two
        seconds."""
        config, count = self.config, len(self.texts.valid_pairs)
        if config.budget:
            count = min(count, max(config.decode_and_evaluate, int(config.budget / 2)))
        return replace(self, config=replace(config, decode_and_evaluate=count if config.decode_and_evaluate else 0))

    def _add_scores(self, model: Transformer, found: Validation) -> Validation:
        """Adds BLEU and chrF of the first `decode_and_evaluate` sentences, translated greedily.

        With several language pairs, that number is divided equally among them."""
        places = self._select_decoded()
        sources, references = zip(*(self.texts.valid_pairs[place] for place in places), strict=True)
        translator = Translator(model, self.texts.tokenizers, self.texts.decode)
        outputs = self._share([t.text for t in translator.translate(self._select_own(sources), beam_size=1)])
        source, reference, output = map(_shorten_for_display, (sources[0], references[0], outputs[0]))
        sample = f"  source     {source}\n  reference  {reference}\n  output     {output}"
        bleu, chrf, tokenizer = corpus_scores(outputs, references)
        pairs = dict(found.pairs)
        for name in pairs:
            of = [row for row, place in enumerate(places) if self.texts.valid_languages[place] == name]
            if of:
                own, _, cut = corpus_scores([outputs[row] for row in of], [references[row] for row in of])
                pairs[name] = replace(pairs[name], bleu=own, tokenizer=cut)
        return replace(found, bleu=bleu, chrf=chrf, tokenizer=tokenizer, sample=sample, pairs=pairs)

    @property
    def _names(self) -> tuple[str, ...]:
        """The language pairs, in the order of the report; empty if there is only one."""
        names = tuple(dict.fromkeys(self.texts.valid_rows_of))
        return names if len(names) > 1 else ()

    def _select_decoded(self) -> list[int]:
        """Returns the indices of the validation pairs that are translated, in ascending order."""
        most, languages = self.config.decode_and_evaluate, self.texts.valid_languages
        if not self._names:
            return list(range(min(most, len(self.texts.valid_pairs))))
        each, taken, places = max(1, most // len({*languages})), Counter[str](), []
        for place, name in enumerate(languages):
            taken[name] += 1
            if taken[name] <= each:
                places.append(place)
        return places

    def _validate_classifier(self, model: SequenceClassifier) -> Validation:
        """Returns the loss and the accuracy of a classifier."""
        found = list[tuple[float, int, int]]()
        for batch in self._batches():
            with autocast(model):
                logits = model(batch.src).float()  # (B, C)
            labels = batch.tgt_out[:, 0]
            loss = float(smoothed_cross_entropy(logits, labels))
            found.append((loss, int((logits.argmax(dim=-1) == labels).sum()), batch.num_tokens))
        total, right, texts = map(sum, zip(*self._share(found), strict=True))
        return Validation(total / texts, accuracy=right / texts)

    def _losses(self) -> dict[str, tuple[float, int]]:
        """Returns the loss summed over target tokens, in nats, and their number: per language pair, or of all ("")."""
        found: dict[str, tuple[float, int]] = {}
        names = np.array(self.texts.valid_rows_of)
        for name in self._names or ("",):
            batches = self._batches(np.flatnonzero(names == name) if name else None)
            own = [(float(CrossEntropy()(self.model, batch).reported), batch.num_tokens) for batch in batches]
            total, tokens = map(sum, zip(*self._share(own), strict=True))
            found[name] = total, tokens
        return found

    def _select_own(self, all_of_them: Sequence[_T]) -> Sequence[_T]:
        """Returns this rank's share of the items."""
        return all_of_them[self.ranks.rank :: self.ranks.world_size]

    def _share(self, own: list[_T]) -> list[_T]:
        """Returns the results of all ranks, in the order of the items."""
        found = self.ranks.gather(own)
        return [each[place] for place in range(max(map(len, found))) for each in found if place < len(each)]

    def _batches(self, rows: "npt.NDArray[np.intp] | None" = None) -> Iterator[Batch]:
        """Yields this rank's batches; if `rows` is given, only with these rows, without empty batches."""
        shard, device = self.texts.valid, next(self.model.parameters()).device
        for drawn in self._select_own(make_batch_sampler(shard, self.config.batch_tokens, seed=0).epoch(0)):
            kept = drawn if rows is None else drawn[np.isin(drawn % len(shard), rows)]
            if len(kept):
                yield collate_batch(shard, kept, self.model.config).to(device)


def _shorten_for_display(text: str) -> str:
    """Returns a sentence for display, with repetitions and excess length cut."""
    cut = REPEATED.sub(lambda found: f"{found[1]}{found[1]}… ({len(found[0]) // len(found[1])} times) ", text[:2000])
    return cut.rstrip() if len(cut) <= MOST_CHARACTERS else cut[: MOST_CHARACTERS - 1] + "…"
