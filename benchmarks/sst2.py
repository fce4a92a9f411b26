"""Claim: on SST-2, from scratch we are no worse than a bag of words; fine-tuned, no worse than transformers itself.

    python benchmarks/sst2.py --data-dir DATA --seeds 1 2 3 > sst2.json
    python benchmarks/sst2.py --data-dir DATA --seeds 1 2 3 --checkpoint FOLDER > sst2.json

The recipe `sst2`, once for each seed; a logistic regression on the words that occur in a sentence, which has no seed,
its penalty chosen on the development text; with --checkpoint the recipe fine-tuned from a BERT-shaped model, and
transformers' own classification model from the same checkpoint with the same settings. Accuracies are those of the
development text, on which everything here was chosen, the bag of words, too: what is chosen on a text scores a little
too high on it, on both sides. `--on test` is for the one time when nothing is left to choose. --checkpoint needs the
extra `verify`. One thread on a core of its own.
"""

import argparse
import gzip
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from report import circumstances, print_json
from torch import Tensor, nn

from pellucid.evaluation.label_scores import wilson_interval
from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier

Rows = list[tuple[str, str]]
PENALTIES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
SENTENCES, EPOCHS, RATE, WARMUP = 32, 3, 1e-4, 0.1  # of fine-tuning
FINE_TUNING = (
    "train.batch_tokens=900", f"train.learning_rate={RATE}", "train.average=1", "model.dropout=0.1",
    "model.attention_dropout=0.1", "model.classifier_activation=tanh", "model.pooling=first", "train.r_drop=0",
    "train.weight_decay=0.01",
    "train.adam_beta2=0.999", "train.adam_eps=1e-8",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Trains all, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds sst2/")
    parser.add_argument("--checkpoint", type=Path, help="a BERT-shaped Hugging Face folder")
    parser.add_argument("--out", type=Path, default=Path("runs/sst2"), help="the run folders go below it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe, section.key=value")
    parser.add_argument("--on", choices=("dev", "test"), default="dev", help="the text that accuracies are of")
    argv = list(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(argv)
    rows = {name: read(options.data_dir / "sst2" / f"{name}.tsv.gz") for name in ("train", "dev", "test")}
    found: dict[str, Any] = {
        "scratch": over_seeds([ours(options, rows, "scratch", seed) for seed in options.seeds]),
        "bag_of_words": timed(bag_of_words, rows, options.on),
    }
    if options.checkpoint:
        steps = EPOCHS * len(rows["train"]) // SENTENCES
        settings = [*FINE_TUNING, f"train.steps={steps}", f"train.warmup_steps={round(WARMUP * steps)}"]
        tuned = [ours(options, rows, "fine-tuned", seed, *settings) for seed in options.seeds]
        theirs = [timed(transformers_own, rows, options.on, options.checkpoint, seed, steps) for seed in options.seeds]
        found |= {"fine_tuned": over_seeds(tuned), "transformers": over_seeds(theirs)}
    packages = ["transformers"] if options.checkpoint else []
    print_json(circumstances(__file__, argv, packages) | {"seeds": options.seeds, "on": options.on} | found)
    return 0


def read(path: Path) -> Rows:
    """Sentences and labels."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file]
    return [(text, label) for text, label in pairs]


def ours(options: argparse.Namespace, rows: dict[str, Rows], name: str, seed: int, *settings: str) -> dict[str, Any]:
    """The recipe's accuracy with a seed, all of its command counted."""
    start: Any = options.checkpoint if name == "fine-tuned" else ""
    started, out = time.perf_counter(), options.out / f"{name}-{seed}"
    train(
        "sst2", out, overrides=[f"train.seed={seed}", *options.set, *settings], data_dir=options.data_dir,
        init_from=start, fresh=True, device="cpu",
    )  # fmt: skip
    seconds = time.perf_counter() - started
    texts, labels = zip(*rows[options.on], strict=True)
    labelled = Classifier.load(out, "cpu").classify(texts)
    hits = sum(one.label == label for one, label in zip(labelled, labels, strict=True))
    return summary(hits, len(labels), seconds)


def over_seeds(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation of the runs' accuracies, and each run."""
    accuracies = [run["accuracy"] for run in runs]
    deviation = round(statistics.stdev(accuracies), 2) if len(runs) > 1 else None
    return {"mean": round(statistics.mean(accuracies), 2), "deviation": deviation, "runs": runs}


def bag_of_words(rows: dict[str, Rows], on: str) -> int:
    """Right answers of the logistic regression that is best on the development text."""
    words = sorted({word for text, _ in rows["train"] for word in text.split()})
    numbers = {word: number for number, word in enumerate(words)}
    features = {name: occurrences(some, numbers) for name, some in rows.items()}
    labels = {name: torch.tensor([float(label) for _, label in some]) for name, some in rows.items()}
    found = [logistic_regression(features, labels, penalty) for penalty in PENALTIES]
    return max(found, key=lambda hits: hits["dev"])[on]


def occurrences(rows: Rows, numbers: dict[str, int]) -> Tensor:
    """(sentences, words): 1 where a word occurs."""
    table = torch.zeros(len(rows), len(numbers))
    for row, (text, _) in zip(table, rows, strict=True):
        row[[numbers[word] for word in text.split() if word in numbers]] = 1.0
    return table


def logistic_regression(x: dict[str, Tensor], y: dict[str, Tensor], penalty: float) -> dict[str, int]:
    """Right answers on the texts."""
    weights, bias = torch.zeros(x["train"].size(1), requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(x["train"] @ weights + bias, y["train"])
        loss = loss + penalty * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return {name: int((((x[name] @ weights + bias) > 0) == (y[name] > 0)).sum()) for name in ("dev", "test")}


def transformers_own(rows: dict[str, Rows], on: str, checkpoint: Path, seed: int, steps: int) -> int:
    """Right answers of the weights that are best on the development text."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
    decayed = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed[0], "weight_decay": 0.01}, {"params": decayed[1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0)
    best, order, warmup = (0, 0), list[int](), round(WARMUP * steps)
    for step in range(1, steps + 1):
        if len(order) < SENTENCES:
            order += torch.randperm(len(rows["train"])).tolist()
        batch, order = [rows["train"][i] for i in order[:SENTENCES]], order[SENTENCES:]
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(step / warmup, (steps + 1 - step) / (steps + 1 - warmup))
        model.train()
        loss = model(**encoded(tokenizer, batch), labels=torch.tensor([int(label) for _, label in batch])).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == steps:
            best = max(best, (right(model, tokenizer, rows["dev"]), right(model, tokenizer, rows[on])))
    return best[1]


def encoded(tokenizer: Any, rows: Rows) -> Any:
    """A batch as the model takes it."""
    return tokenizer([text for text, _ in rows], padding=True, truncation=True, max_length=128, return_tensors="pt")


@torch.no_grad()
def right(model: Any, tokenizer: Any, rows: Rows) -> int:
    """How many labels are right."""
    model.eval()
    parts = [rows[start : start + 64] for start in range(0, len(rows), 64)]
    labels = [label for part in parts for label in model(**encoded(tokenizer, part)).logits.argmax(-1).tolist()]
    return sum(str(found) == label for found, (_, label) in zip(labels, rows, strict=True))


def timed(method: Any, rows: dict[str, Rows], on: str, *rest: Any) -> dict[str, Any]:
    """What a method got right on a text, and how long it took."""
    started = time.perf_counter()
    hits = method(rows, on, *rest)
    return summary(hits, len(rows[on]), time.perf_counter() - started)


def summary(hits: int, texts: int, seconds: float) -> dict[str, Any]:
    """Accuracy in percent with its interval, and seconds."""
    interval = [round(end, 2) for end in wilson_interval(hits, texts)]
    return {"accuracy": round(100 * hits / texts, 2), "interval": interval, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    sys.exit(main())
