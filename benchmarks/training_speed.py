"""Claim: Pellucid trains more target tokens a second than the same model written around torch.nn.Transformer.

    python benchmarks/training_speed.py --data-dir DATA > training.json        (--quick: a trial of seconds)

Three sides, each in a process of its own, since memory settings hold for a process; only one computes at a time:

    pellucid      the step of pellucid.training's loop, with the memory setting of `pellucid train`
    torch         nn.Transformer, cross_entropy, Adam: the tutorials' loop on Pellucid's batches
    torch-tuned   the same with fused Adam and the same memory setting

All start from the same weights and take the same batches of Multi30k German-English, encoded beforehand, in the same
order, at the same learning rates, in single precision, without clipping; dropout of 0.1 stands at the same places. A
window is a number of batches that one side after the other trains on, so a ratio is of equal work within a minute; each
time another side begins. Before anything is timed, both models must have as many parameters and the same loss.

The share of the peak is what the matrix products of a window come to, three times those of a forward pass, against the
speed of a product of 1,024 x 1,024 matrices that is measured beside each window.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from measured_model import load_recipe
from report import circumstances, format_times, matrix_peak, positive, print_json, refusals_in_words, summarize_times
from torch.utils.flop_counter import FlopCounterMode
from torch_transformer import count_parameters, with_weights_of

from pellucid.config import ModelConfig, Recipe, TrainConfig
from pellucid.data.batching import BucketBatchSampler, collate_batch
from pellucid.data.prepare import open_corpus, prepare, train_tokenizers
from pellucid.data.sentences import Indices
from pellucid.data.shards import EncodedCorpus
from pellucid.model.fast.products import use_torch_matmul
from pellucid.model.transformer import Transformer
from pellucid.planning.settings import fit_to_tokenizers
from pellucid.process import keep_freed_memory
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.loss import CrossEntropy
from pellucid.training.schedule import learning_rate
from pellucid.training.state import Checkpoints
from pellucid.training.validation import Validation

SIDES = ("pellucid", "torch", "torch-tuned")
# nn.Transformer has final norms, and one dropout for all places.
AS_IN_TORCH = ("model.final_norm=true", "model.attention_dropout=0.1", "model.feed_forward_dropout=0.1",
               "train.batch_tokens=4096")  # fmt: skip
Step = Callable[[Indices], tuple[float, int]]
"""Trains on a batch, given as indices of sentences; returns its summed loss and its target tokens."""


@dataclass(frozen=True)
class Job:
    """What all sides work on."""

    model: ModelConfig
    train: TrainConfig
    shard: EncodedCorpus
    folder: Path
    threads: int

    def initial_model(self) -> Transformer:
        """The weights that all sides start from."""
        torch.manual_seed(self.train.seed)
        return Transformer(self.model)


@dataclass(frozen=True)
class Window:
    """What a side did in a window; `loss` is per token, smoothed."""

    tokens: int
    seconds: float
    loss: float
    share_of_peak: float = 0.0

    @property
    def speed(self) -> float:
        """Target tokens a second, without padding."""
        return self.tokens / self.seconds


def pellucid_step(job: Job) -> Step:
    """The real loop's own step; of the Trainer's parts it touches model, shard and configuration alone."""
    keep_freed_memory()
    model = job.initial_model()
    trainer = Trainer(
        model=model, shard=job.shard, config=job.train, checkpoints=Checkpoints(job.folder, 1, 1),
        log=RunLog(job.folder, job.train.steps, quiet=True), validate=lambda: Validation(0.0),
        publish=lambda weights: None,
    )  # fmt: skip

    def step(sentences: Indices) -> tuple[float, int]:
        batch = collate_batch(job.shard, sentences, job.model)
        return trainer.step([batch]).loss.item(), batch.num_tokens

    return step


def torch_step(job: Job, tuned: bool) -> Step:
    """The tutorials' step."""
    if tuned:
        keep_freed_memory()
    config, steps = job.train, 0
    model = with_weights_of(job.initial_model())
    betas = config.adam_beta1, config.adam_beta2
    optimizer = torch.optim.Adam(model.parameters(), betas=betas, eps=config.adam_eps, fused=tuned or None)

    def step(sentences: Indices) -> tuple[float, int]:
        nonlocal steps
        steps += 1
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(steps, config, job.model.d_model)
        batch = collate_batch(job.shard, sentences, job.model)
        model.train()
        optimizer.zero_grad()
        loss = model.loss(batch.src, batch.tgt_in, batch.tgt_out, config.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item() * batch.num_tokens, batch.num_tokens

    return step


def work(connection: "Connection[Window, list[Indices]]", side: str, job: Job) -> None:
    """A side's process: a list of batches comes in, a window goes out; an empty list ends it."""
    torch.set_num_threads(job.threads)
    step = pellucid_step(job) if side == "pellucid" else torch_step(job, tuned=side == "torch-tuned")
    while batches := connection.recv():
        started = time.perf_counter()
        losses, tokens = zip(*(step(sentences) for sentences in batches), strict=True)
        seconds = time.perf_counter() - started
        connection.send(Window(sum(tokens), seconds, sum(losses) / sum(tokens)))


class Worker:
    """A side's process, from outside."""

    def __init__(self, side: str, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, inner = context.Pipe()
        self.process = context.Process(target=work, args=(inner, side, job), daemon=True)
        self.process.start()
        inner.close()  # so that the end of the process ends recv()

    def run(self, batches: list[Indices]) -> Window:
        """Trains on the batches and returns what it took."""
        self.connection.send(batches)
        window: Window = self.connection.recv()
        return window

    def close(self) -> None:
        """Ends the process."""
        self.connection.send([])
        self.process.join()


def prove_equal(job: Job, batches: Sequence[Indices]) -> dict[str, float]:
    """Parameters and largest difference of the loss per token, without dropout. Raises where the models differ."""
    ours = job.initial_model().eval()
    theirs = with_weights_of(ours).eval()
    parameters = count_parameters(ours)
    assert parameters == count_parameters(theirs), (parameters, count_parameters(theirs))
    smoothing, largest = job.train.label_smoothing, 0.0
    for sentences in batches:
        batch = collate_batch(job.shard, sentences, job.model)
        loss = float(CrossEntropy(smoothing)(ours, batch).reported.detach()) / batch.num_tokens
        peer = float(theirs.loss(batch.src, batch.tgt_in, batch.tgt_out, smoothing).detach())
        largest = max(largest, abs(loss - peer))
    assert largest < 1e-4, f"the losses of equal weights differ by {largest:.2g}"
    return {"parameters": parameters, "loss_difference": largest}


def measure(job: Job, stream: Iterator[list[Indices]], windows: int) -> list[dict[str, Window]]:
    """The windows of all sides, after a window of warm-up; each time another side begins."""
    workers, model = {side: Worker(side, job) for side in SIDES}, job.initial_model().eval()
    found = []
    for number in range(windows + 1):
        batches, order = next(stream), [*SIDES[number % len(SIDES) :], *SIDES[: number % len(SIDES)]]
        peak, operations = matrix_peak(), products(job, model, batches)
        ran = {side: workers[side].run(batches) for side in order}
        window = {
            side: replace(one, share_of_peak=round(operations / one.seconds / peak, 4)) for side, one in ran.items()
        }
        speeds = ", ".join(f"{side} {window[side].speed:,.0f}" for side in SIDES)
        print(f"{f'window {number}' if number else 'warm-up'}: {speeds} tokens/s", file=sys.stderr)
        found.append(window)
    for worker in workers.values():
        worker.close()
    return found[1:]


def products(job: Job, model: Transformer, batches: Sequence[Indices]) -> int:
    """Returns the operations of the matrix products of training on batches: three times those of the forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad(), use_torch_matmul():
        for sentences in batches:
            batch = collate_batch(job.shard, sentences, job.model)
            model(batch.src, batch.tgt_in)
    return 3 * counter.get_total_flops()


def make_job(recipe: Recipe, folder: Path, threads: int) -> Job:
    """Trains the tokenizer, encodes the corpus, and sizes the model by it."""
    corpus = open_corpus(recipe.data)
    tokenizers = train_tokenizers(corpus)
    prepared = prepare(corpus, tokenizers, folder, RunLog(folder, 0, quiet=True).log_line, resuming=False)
    return Job(fit_to_tokenizers(recipe.model, tokenizers), recipe.train, prepared.train, folder, threads)


def in_groups(order: BucketBatchSampler, size: int) -> Iterator[list[Indices]]:
    """All batches of the order, `size` at a time."""
    stream = order.iterate_from(0, 0)
    while True:
        yield [next(stream)[2] for _ in range(size)]


def summarise(windows: list[dict[str, Window]]) -> dict[str, object]:
    """Speeds by side, and ratios window by window."""
    peers = [side for side in SIDES if side != "pellucid"]
    speeds = {side: summarize_times([window[side].speed for window in windows]) for side in SIDES}
    shares = {side: summarize_times([window[side].share_of_peak for window in windows]) for side in SIDES}
    ratios = {
        peer: summarize_times([window["pellucid"].speed / window[peer].speed for window in windows]) for peer in peers
    }
    for side in SIDES:
        ratio = f", Pellucid is {format_times(ratios[side])} times as fast" if side in ratios else ""
        share = f"{shares[side]['median']:.0%} of the peak"
        print(f"{side:<12} {format_times(speeds[side])} tokens/s, {share}{ratio}", file=sys.stderr)
    return {
        "tokens_per_second": speeds,
        "share_of_peak": shares,
        "pellucid_times_as_fast_as": ratios,
        "windows": [{side: asdict(window[side]) for side in SIDES} for window in windows],
    }


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, the rest on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="holds multi30k/; else PELLUCID_DATA does")
    parser.add_argument("--windows", type=positive, default=5, help="how often each side is measured")
    parser.add_argument("--batches", type=positive, default=8, help="batches of 4,096 tokens in a window")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="a small model, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.data_dir, args.quick, AS_IN_TORCH)
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(recipe, Path(folder), args.threads)
        lengths = job.shard.source.lengths, job.shard.target.lengths
        stream = in_groups(BucketBatchSampler(*lengths, job.train.batch_tokens, job.train.seed), args.batches)
        proof = prove_equal(job, next(stream)[:4])
        print(f"{proof['parameters']:,} parameters, losses equal to {proof['loss_difference']:.1g}", file=sys.stderr)
        windows = measure(job, stream, args.windows)
    head = circumstances(__file__, argv)
    print_json(
        head | {"model": asdict(job.model), "batch_tokens": job.train.batch_tokens, **proof, **summarise(windows)}
    )


if __name__ == "__main__":
    main()
