"""The pace at which this machine trains a given model on given sentences, by training it for a moment."""

import time
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import torch

from pellucid.config import ModelConfig, TrainConfig
from pellucid.data.batching import batch_order, draw_batch
from pellucid.data.sentences import Sentences, Texts
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.model.layers import recompute_in
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.training.loss import make_loss
from pellucid.training.optimizer import make_optimizer
from pellucid.training.precision import autocast, multiply_in

WARM_UP = 3  # steps


@dataclass(frozen=True)
class Pace:
    """Says how fast training went, in target tokens without padding.

    They are those of the stored pieces: a sentence that is cut into more pieces each time takes longer, and counts the
    same.
    """

    tokens_per_second: float
    tokens_per_batch: float


def sample_shard(
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    source_texts: Sequence[str],
    target_texts: Sequence[str],
) -> Shard:
    """Makes a shard of sentences in memory, given as ids and as text."""
    return Shard(_sentences(sources, source_texts), _sentences(targets, target_texts), empty=0, too_long=0)


def measure_pace(
    config: ModelConfig,
    train: TrainConfig,
    shard: Shard,
    sampling: SubwordSampling | None,
    device: torch.device,
    seconds: float = 2.0,
    parts: Parts | None = None,
) -> Pace:
    """Measures training steps on batches of `shard`, of pieces that `sampling` draws, if it is given.

    The model has `parts` in place of Pellucid's, where there are some.

    It trains for about `seconds` after a few steps that do not count. The state of the random generator is as before.
    """
    with torch.random.fork_rng():
        model = Transformer(config, parts).to(device).train()
        multiply_in(model, train.precision)
        recompute_in(model, train.recompute)
        loss, optimizer = make_loss(train), make_optimizer(model, train)
        order = batch_order(shard, train.batch_tokens, 0, sampling)
        tokens, started = 0, time.perf_counter()
        for step, (epoch, _, sentences) in zip(count(1), order.follow(0, 0), strict=False):
            batch = draw_batch(shard, sentences, config, sampling, epoch).to(device)
            optimizer.zero_grad(set_to_none=True)
            with autocast(model):
                minimised = loss(model, batch).minimised
            (minimised / batch.num_tokens).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            tokens += int((shard.target.lengths[sentences] + 1).sum())
            if step == WARM_UP:
                tokens, started = 0, _now(device)
            elif step > WARM_UP and _now(device) - started >= seconds:
                break
        return Pace(tokens / (_now(device) - started), tokens / (step - WARM_UP))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _sentences(ids: Sequence[list[int]], texts: Sequence[str]) -> Sentences:
    utf8 = [text.encode("utf-8", "replace") for text in texts]
    return Sentences(
        np.concatenate([np.asarray(sentence, np.uint32) for sentence in ids]),
        _starts(ids),
        Texts(np.frombuffer(b"".join(utf8), np.uint8), _starts(utf8)),
    )


def _starts(parts: Sequence[Sized]) -> npt.NDArray[np.int64]:
    """Returns where each of them begins when they stand back to back, and where the last one ends."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
