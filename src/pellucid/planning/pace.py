"""Measures the training throughput of a given model on given sentences on this machine."""

import time
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import torch

from pellucid.config import ModelConfig, TrainConfig
from pellucid.data.batching import collate_batch, make_batch_sampler
from pellucid.data.sentences import PackedTexts, Sentences
from pellucid.data.shards import EncodedCorpus
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.model.layers import set_gradient_checkpointing
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.training.loss import make_loss
from pellucid.training.optimizer import make_optimizer
from pellucid.training.precision import autocast, set_compute_dtype

WARM_UP = 3  # steps


@dataclass(frozen=True)
class Throughput:
    """The measured speed of training, in target tokens without padding.

    The tokens are counted in the stored tokenization: with subword sampling, a sentence of more tokens takes longer,
    but counts the same.
    """

    tokens_per_second: float
    tokens_per_batch: float


def sample_shard(
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    source_texts: Sequence[str],
    target_texts: Sequence[str],
) -> EncodedCorpus:
    """Makes an encoded corpus of sentences in memory, given as ids and as text."""
    return EncodedCorpus(_sentences(sources, source_texts), _sentences(targets, target_texts), empty=0, too_long=0)


def measure_throughput(
    config: ModelConfig,
    train: TrainConfig,
    shard: EncodedCorpus,
    sampling: SubwordSampling | None,
    device: torch.device,
    seconds: float = 2.0,
    parts: Parts | None = None,
) -> Throughput:
    """Measures training steps on batches of `shard`, with subword `sampling` and custom `parts`, if given.

    It trains for about `seconds` after a few warmup steps. The state of the random generator is restored.
    """
    with torch.random.fork_rng():
        model = Transformer(config, parts).to(device).train()
        set_compute_dtype(model, train.precision)
        set_gradient_checkpointing(model, train.gradient_checkpointing)
        loss, optimizer = make_loss(train), make_optimizer(model, train)
        order = make_batch_sampler(shard, train.batch_tokens, 0, sampling)
        tokens, started = 0, time.perf_counter()
        for step, (epoch, _, sentences) in zip(count(1), order.iterate_from(0, 0), strict=False):
            batch = collate_batch(shard, sentences, config, sampling, epoch).to(device)
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
        return Throughput(tokens / (_now(device) - started), tokens / (step - WARM_UP))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _sentences(ids: Sequence[list[int]], texts: Sequence[str]) -> Sentences:
    utf8 = [text.encode("utf-8", "replace") for text in texts]
    return Sentences(
        np.concatenate([np.asarray(sentence, np.uint32) for sentence in ids]),
        _starts(ids),
        PackedTexts(np.frombuffer(b"".join(utf8), np.uint8), _starts(utf8)),
    )


def _starts(parts: Sequence[Sized]) -> npt.NDArray[np.int64]:
    """Returns the start offset of each part after concatenation, and the end of the last one."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
