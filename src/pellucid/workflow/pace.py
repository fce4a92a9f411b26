"""How fast this machine trains a given model on given sentences, by training it for a moment."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

from pellucid.config import ModelConfig, TrainConfig
from pellucid.data.batching import BatchOrder, make_batch
from pellucid.data.shards import Sentences, Shard
from pellucid.model.transformer import Transformer
from pellucid.training.loop import batch_loss
from pellucid.training.optimizer import make_optimizer
from pellucid.training.precision import multiply_in

WARM_UP = 3  # steps


@dataclass(frozen=True)
class Pace:
    """How training went: target tokens without padding."""

    tokens_per_second: float
    tokens_per_batch: float


def sample_shard(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Shard:
    """Sentences in memory as a shard."""
    return Shard(_sentences(sources), _sentences(targets), empty=0, too_long=0)


def training_pace(
    config: ModelConfig, train: TrainConfig, shard: Shard, device: torch.device, seconds: float = 2.0
) -> Pace:
    """The pace of training steps on batches of `shard`.

    It trains for about `seconds` after a few steps that do not count. The state of the random generator is as before.
    """
    with torch.random.fork_rng():
        model = Transformer(config).to(device).train()
        multiply_in(model, train.precision)
        optimizer = make_optimizer(model, train)
        order = BatchOrder(shard.source.lengths, shard.target.lengths, train.batch_tokens, seed=0)
        tokens, started = 0, time.perf_counter()
        for step, (_, _, sentences) in zip(count(1), order.follow(0, 0), strict=False):
            batch = make_batch(shard, sentences, config).to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = batch_loss(model, batch, train.label_smoothing, train.r_drop)
            (loss / batch.num_tokens).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            tokens += batch.num_tokens
            if step == WARM_UP:
                tokens, started = 0, _now(device)
            elif step > WARM_UP and _now(device) - started >= seconds:
                break
        return Pace(tokens / (_now(device) - started), tokens / (step - WARM_UP))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _sentences(ids: Sequence[list[int]]) -> Sentences:
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in ids])]).astype(np.int64)
    return Sentences(np.concatenate([np.asarray(sentence, np.uint32) for sentence in ids]), offsets)
