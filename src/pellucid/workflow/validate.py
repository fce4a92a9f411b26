"""Validation within training: the loss of held-out pairs, and BLEU of a part of them, translated greedily."""

from dataclasses import dataclass

import torch

from pellucid.config import TrainConfig
from pellucid.data.batching import BatchOrder, make_batch
from pellucid.evaluation.scores import corpus_bleu
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.training.loop import batch_loss
from pellucid.training.validation import Validation
from pellucid.workflow.prepare import Prepared


@dataclass(frozen=True)
class Validator:
    """Called by the loop with the model in evaluation mode."""

    model: Transformer
    prepared: Prepared
    config: TrainConfig

    def __call__(self) -> Validation:
        """Loss without label smoothing, per token; BLEU of the first `validate_decode` sentences."""
        loss = self._loss()
        count = self.config.validate_decode
        if not count or not self.prepared.valid_pairs:
            return Validation(loss)
        sources, references = zip(*self.prepared.valid_pairs[:count], strict=True)
        translator = Translator(self.model, self.prepared.tokenizers)
        outputs = [t.text for t in translator.translate(sources, beam_size=1)]
        sample = f"  source     {sources[0]}\n  reference  {references[0]}\n  output     {outputs[0]}"
        return Validation(loss, corpus_bleu(outputs, references), sample)

    def _loss(self) -> float:
        shard, device = self.prepared.valid, next(self.model.parameters()).device
        order = BatchOrder(shard.source.lengths, shard.target.lengths, self.config.batch_tokens, seed=0)
        batches = (make_batch(shard, sentences, self.model.config) for sentences in order.epoch(0))
        total, tokens = torch.zeros((), dtype=torch.float64), 0
        for batch in batches:
            total += batch_loss(self.model, batch.to(device), label_smoothing=0.0).cpu()
            tokens += batch.num_tokens
        return float(total) / tokens
