"""Claim: while it translates and while it trains, Pellucid holds less memory than transformers; told beside the others.

    python benchmarks/memory.py --data-dir DATA --model FOLDER > memory.json      (--quick: a trial of a minute)

Each side works in a process of its own, with the memory setting that its users have, in single precision, on the same
sentences. Told are the MiB that the process holds once its model is loaded, the most that it holds from then on, and
the difference, which is the work's. Nothing is timed, so that other work beside does no harm.

Translating, the model of decoding_model.toml, a beam of 5: Pellucid with its default batches and with batches of 64
sentences of similar length, transformers (MarianMTModel.generate) and CTranslate2 with such batches, all as in
decoding_speed.py. Training, as many batches of 4,096 tokens: the step of Pellucid's loop, the loop around
nn.Transformer plain and tuned, all as in training_speed.py, and MarianMTModel with its loss and AdamW. (Linux alone:
/proc/self/clear_refs lets the most that a process held begin anew.)
"""

import argparse
import ctypes
import gc
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from decoding_speed import Ids, in_batches, load_translator, pellucid_engine
from measured_model import load_recipe
from report import circumstances, positive, print_json, refusals_in_words
from training_speed import AS_IN_TORCH, Job, Step, in_groups, make_job, pellucid_step, torch_step

from pellucid.config import DecodeConfig
from pellucid.data.batching import BucketBatchSampler, collate_batch
from pellucid.data.sentences import Indices
from pellucid.process import keep_freed_memory
from pellucid.tasks.translator import Translator

BEAM = 5
TRANSLATING = ["pellucid", "pellucid_64", "transformers_64", "ctranslate2_64"]
TRAINING = ["pellucid", "torch", "torch_tuned", "transformers"]
Work = Callable[[], object]


@dataclass(frozen=True)
class Translating:
    """What the sides translate."""

    model: Path
    sources: Ids
    threads: int

    def pellucid(self) -> Work:
        keep_freed_memory()
        model = Translator.load(self.model, "cpu", "float32").model
        return partial(pellucid_engine(model, DecodeConfig().batch_tokens), self.sources, BEAM)

    def pellucid_64(self) -> Work:
        keep_freed_memory()
        model = Translator.load(self.model, "cpu", "float32").model
        return partial(in_batches(pellucid_engine(model, 2**24)), self.sources, BEAM)

    def transformers_64(self) -> Work:
        import marian

        config = (model := Translator.load(self.model, "cpu", "float32").model).config
        theirs = marian.to_marian(model)
        return partial(in_batches(lambda ids, beam: marian.generate(theirs, config, ids, beam)), self.sources, BEAM)

    def ctranslate2_64(self) -> Work:
        import ct2

        opened = Translator.load(self.model, "cpu", "float32")
        config = opened.model.config
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "ct2")
            theirs = ct2.to_ctranslate2(opened.model, opened.tokenizers.target.unk_id, folder, self.threads)
        return partial(in_batches(lambda ids, beam: ct2.translate(theirs, config, ids, beam)), self.sources, BEAM)


@dataclass(frozen=True)
class Training:
    """What the sides train on."""

    job: Job
    batches: list[Indices]

    def pellucid(self) -> Work:
        return self._all(pellucid_step(self.job))

    def torch(self) -> Work:
        return self._all(torch_step(self.job, tuned=False))

    def torch_tuned(self) -> Work:
        return self._all(torch_step(self.job, tuned=True))

    def transformers(self) -> Work:
        import marian
        from transformers import MarianMTModel

        config = self.job.model
        model = MarianMTModel(marian.marian_config(config)).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        def step(sentences: Indices) -> tuple[float, int]:
            batch = collate_batch(self.job.shard, sentences, config)
            optimizer.zero_grad()
            labels = batch.tgt_out.where(batch.tgt_out.ne(config.pad_id or 0), -100)  # which its loss leaves out
            loss = model(
                input_ids=batch.src, attention_mask=batch.src.ne(config.pad_id or 0).long(),
                decoder_input_ids=batch.tgt_in, labels=labels,
            ).loss  # fmt: skip
            loss.backward()
            optimizer.step()
            return loss.item() * batch.num_tokens, batch.num_tokens

        return self._all(step)

    def _all(self, step: Step) -> Work:
        return lambda: [step(sentences) for sentences in self.batches]


def held(name: str) -> float:
    """Returns the MiB of a line of /proc/self/status: `VmRSS`, what is held now, or `VmHWM`, the most that was."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def work(connection: "Connection[dict[str, float], None]", job: Translating | Training, side: str) -> None:
    """A side's process: loads its model, works, and sends what it held."""
    torch.set_num_threads(job.threads if isinstance(job, Translating) else job.job.threads)
    works: Work = getattr(job, side)()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what loading and converting has freed goes back
    Path("/proc/self/clear_refs").write_text("5")  # the most held begins anew
    loaded = held("VmRSS")
    works()
    most = held("VmHWM")
    connection.send({"loaded": round(loaded, 1), "most": round(most, 1), "for the work": round(most - loaded, 1)})


def beside_each_other(job: Translating | Training, sides: Sequence[str]) -> dict[str, dict[str, float]]:
    """Returns the MiB of each side, and how many times Pellucid's its work takes."""
    context = multiprocessing.get_context("spawn")
    found: dict[str, dict[str, float]] = {}
    for side in sides:
        connection, inner = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(inner, job, side), daemon=True)
        process.start()
        inner.close()  # so that the end of the process ends recv()
        found[side] = connection.recv()
        process.join()
    for side, row in found.items():
        for name in ("most", "for the work"):
            row[f"{name}, times Pellucid's"] = round(row[name] / found["pellucid"][name], 2)
        said = ", ".join(f"{name} {value:,g}" for name, value in row.items())
        print(f"{type(job).__name__.lower()}, {side}: {said}", file=sys.stderr)
    return found


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, the rest on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; without it one is trained into runs/decoding-model")
    parser.add_argument("--data-dir", help="holds multi30k/; else PELLUCID_DATA does")
    parser.add_argument("--batches", type=positive, default=40, help="batches of 4,096 tokens to train on")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="a small model and 100 sentences, a trial of the script")
    args = parser.parse_args(argv)
    args.input = args.reference = None
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, test = load_translator(args, folder)
        translating = Translating(args.model, test.sources, args.threads)
        table: dict[str, Any] = {"sentences": len(test.sources), "batches": args.batches}
        table["translating"] = beside_each_other(translating, TRANSLATING)
        job = make_job(load_recipe(args.data_dir, args.quick, AS_IN_TORCH), folder / "training", args.threads)
        lengths = job.shard.source.lengths, job.shard.target.lengths
        batches = next(in_groups(BucketBatchSampler(*lengths, job.train.batch_tokens, job.train.seed), args.batches))
        table["training"] = beside_each_other(Training(job, batches), TRAINING)
    print_json(circumstances(__file__, argv, ("transformers", "ctranslate2")) | table)


if __name__ == "__main__":
    main()
