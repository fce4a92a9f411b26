"""Validation within a run: the loss of what is held out, and how good the model's own outputs are."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, batch_order, draw_batch
from pellucid.data.prepare import TrainingData
from pellucid.evaluation.scores import corpus_scores
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.training.loss import CrossEntropy, smoothed_cross_entropy
from pellucid.training.precision import autocast
from pellucid.training.ranks import ALONE, Ranks
from pellucid.training.validation import Validation

REPEATED = re.compile(r"(.{1,40}?)\1{5,}")
"""A word, or a few, that a model in its first steps writes again and again."""
MOST_CHARACTERS = 300
_T = TypeVar("_T")


@dataclass(frozen=True)
class Validator:
    """Looks at a model on what is held out; the loop calls it with the model in evaluation mode."""

    model: Model
    texts: TrainingData
    config: TrainConfig
    ranks: Ranks = ALONE
    """The processes that share it: each takes every so-manieth batch and sentence, and finds what one would."""

    def __call__(self) -> Validation:
        """Returns the cross-entropy, by the token and by the byte, whatever the loss that training minimises.

        For a translator it also has BLEU and chrF, for a classifier accuracy.
        """
        if isinstance(self.model, SequenceClassifier):
            return self._classified(self.model)
        of_pairs = self._losses()
        nats, tokens = map(sum, zip(*of_pairs.values(), strict=True))
        size = self.texts.valid_bytes
        pairs = {name: Validation(each / count) for name, (each, count) in of_pairs.items()} if self._names else {}
        found = Validation(nats / tokens, bits_per_byte=nats / math.log(2) / size if size else None, pairs=pairs)
        if not math.isfinite(nats):  # with such weights nothing can be translated
            return found
        if isinstance(self.model, Transformer) and self.config.validate_decode and self.texts.valid_pairs:
            return self._translated(self.model, found)
        return found

    def of_all(self) -> Self:
        """Returns a validator that translates all of the validation text, of a run with a time budget a sentence for
        each two of its seconds."""
        config, count = self.config, len(self.texts.valid_pairs)
        if config.budget:
            count = min(count, max(config.validate_decode, int(config.budget / 2)))
        return replace(self, config=replace(config, validate_decode=count if config.validate_decode else 0))

    def _translated(self, model: Transformer, found: Validation) -> Validation:
        """Adds BLEU and chrF of the first `validate_decode` sentences, translated greedily; of several pairs of
        languages the first ones of each, as many together."""
        places = self._decoded()
        sources, references = zip(*(self.texts.valid_pairs[place] for place in places), strict=True)
        translator = Translator(model, self.texts.tokenizers, self.texts.decode)
        outputs = self._shared([t.text for t in translator.translate(self._own(sources), beam_size=1)])
        source, reference, output = map(_shown, (sources[0], references[0], outputs[0]))
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
        """The pairs of languages, in the order in which they are told; none where there is one."""
        names = tuple(dict.fromkeys(self.texts.valid_rows_of))
        return names if len(names) > 1 else ()

    def _decoded(self) -> list[int]:
        """Returns the places of the validation pairs that are translated, in their order."""
        most, languages = self.config.validate_decode, self.texts.valid_languages
        if not self._names:
            return list(range(min(most, len(self.texts.valid_pairs))))
        each, taken, places = max(1, most // len({*languages})), Counter[str](), []
        for place, name in enumerate(languages):
            taken[name] += 1
            if taken[name] <= each:
                places.append(place)
        return places

    def _classified(self, model: SequenceClassifier) -> Validation:
        """Returns the loss of a classifier, and the part of the texts whose most probable label is theirs."""
        found = list[tuple[float, int, int]]()
        for batch in self._batches():
            with autocast(model):
                logits = model(batch.src).float()  # (B, C)
            labels = batch.tgt_out[:, 0]
            loss = float(smoothed_cross_entropy(logits, labels))
            found.append((loss, int((logits.argmax(dim=-1) == labels).sum()), batch.num_tokens))
        total, right, texts = map(sum, zip(*self._shared(found), strict=True))
        return Validation(total / texts, accuracy=right / texts)

    def _losses(self) -> dict[str, tuple[float, int]]:
        """Returns the sum over target tokens, in nats, and their number: of each pair of languages, or of all ("")."""
        found: dict[str, tuple[float, int]] = {}
        names = np.array(self.texts.valid_rows_of)
        for name in self._names or ("",):
            batches = self._batches(np.flatnonzero(names == name) if name else None)
            own = [(float(CrossEntropy()(self.model, batch).reported), batch.num_tokens) for batch in batches]
            total, tokens = map(sum, zip(*self._shared(own), strict=True))
            found[name] = total, tokens
        return found

    def _own(self, all_of_them: Sequence[_T]) -> Sequence[_T]:
        """Returns what this rank takes of it."""
        return all_of_them[self.ranks.rank :: self.ranks.count]

    def _shared(self, own: list[_T]) -> list[_T]:
        """Returns what all ranks have found, in the order of what they took."""
        found = self.ranks.gather(own)
        return [each[place] for place in range(max(map(len, found))) for each in found if place < len(each)]

    def _batches(self, rows: "npt.NDArray[np.intp] | None" = None) -> Iterator[Batch]:
        """Yields the batches that this rank takes; with `rows` what each has of those, where it has some."""
        shard, device = self.texts.valid, next(self.model.parameters()).device
        for drawn in self._own(batch_order(shard, self.config.batch_tokens, seed=0).epoch(0)):
            kept = drawn if rows is None else drawn[np.isin(drawn % len(shard), rows)]
            if len(kept):
                yield draw_batch(shard, kept, self.model.config).to(device)


def _shown(text: str) -> str:
    """Returns a sentence for the reader, with what is repeated and what is too long cut."""
    cut = REPEATED.sub(lambda found: f"{found[1]}{found[1]}… ({len(found[0]) // len(found[1])} times) ", text[:2000])
    return cut.rstrip() if len(cut) <= MOST_CHARACTERS else cut[: MOST_CHARACTERS - 1] + "…"
