"""Claim: a change of the code costs no speed: another checkout and this one take turns at training and at translating.

    git worktree add /tmp/before COMMIT
    python benchmarks/two_trees.py --before /tmp/before --data-dir DATA --model runs/multi30k-de-en > two_trees.json

Each side is a process of its own that imports its checkout's `src`, and only one computes at a time. Training is
`pellucid train multi30k-de-en` for some steps, by the speed that its metrics tell of all but the first of them.
Translating is `Translator.translate` of the first sentences of test 2016 with the weights of `--model`, in batches and
alone; processes that do equal work differ by some percent for as long as they live, so each round starts new ones.
Ratios are of neighbours in time, with the order changed each round: above 1, this checkout is the faster one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from report import circumstances, format_times, positive, print_json, summarize_times

import pellucid

HERE = Path(__file__).resolve().parents[1]
RECIPE = "multi30k-de-en"
CASES = {  # beam size, sentences, tokens of a batch
    "beam of 5, in batches": (5, 60, 4096),
    "greedy, in batches": (1, 150, 4096),
    "beam of 5, one at a time": (5, 6, 1),
    "greedy, one at a time": (1, 12, 1),
}
# What both checkouts understand: public names alone.
TRANSLATES = """
import json, sys, time, torch, pellucid
torch.set_num_threads(int(sys.argv[2]))
translator = pellucid.Translator.load(sys.argv[1], "cpu")
for line in sys.stdin:
    texts, options = json.loads(line)
    started = time.perf_counter()
    found = translator.translate(texts, **options)
    print(json.dumps([time.perf_counter() - started, [translation.text for translation in found]]), flush=True)
"""


class Side:
    """A checkout, and the processes that compute with it."""

    def __init__(self, tree: Path, threads: int) -> None:
        self.environment = {
            **os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": str(threads), "PELLUCID_OFFLINE": "1",
        }  # fmt: skip
        self.threads = threads
        self.translator: subprocess.Popen[str] | None = None

    def train(self, data_dir: Path, steps: int, settings: Sequence[str]) -> float:
        """Trains anew and returns target tokens a second, the median of all windows but the first."""
        window = max(1, steps // 6)
        keys = {
            "steps": steps, "log_every": window, "validate_every": steps, "save_every": steps, "decode_and_evaluate": 2,
            "optimizer": "adam", "precision": "float32",
        }  # fmt: skip
        options = [word for key, value in keys.items() for word in ("--set", f"train.{key}={value}")]
        options += [word for setting in settings for word in ("--set", setting)]
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pellucid", "train", RECIPE, "--data-dir", str(data_dir)]
            command += ["--out", f"{folder}/run", "--device", "cpu", *options]
            done = subprocess.run(
                command, env=self.environment, cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"error: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
            rows = map(json.loads, Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").splitlines())
            speeds = [row["tokens_per_second"] for row in rows if row["event"] == "train"]
        return statistics.median(speeds[1:] or speeds)

    def translate(self, model: Path, texts: list[str], **options: int) -> tuple[float, list[str]]:
        """Returns the seconds that a call takes, and the translations."""
        if self.translator is None:
            self.translator = subprocess.Popen(
                [sys.executable, "-c", TRANSLATES, str(model.resolve()), str(self.threads)],
                env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self.translator.stdin is not None
        assert self.translator.stdout is not None
        self.translator.stdin.write(json.dumps([texts, options]) + "\n")
        self.translator.stdin.flush()
        answer = self.translator.stdout.readline()
        if not answer:
            raise SystemExit("error: a side could not translate; what it said stands above")
        taken, found = json.loads(answer)
        return taken, found

    def close(self) -> None:
        """Ends the process that translates; the next call starts another."""
        if self.translator is not None:
            self.translator.communicate()
            self.translator = None


def compare(call: Callable[[Side], float], sides: dict[str, Side], rounds: int) -> list[dict[str, float]]:
    """Returns what each side measures in each round; who begins changes."""
    found = []
    for number in range(rounds):
        names = [*sides] if number % 2 == 0 else [*sides][::-1]
        row = {name: call(sides[name]) for name in names}
        found.append(row)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, a line a case on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--data-dir", type=Path, required=True, help="holds multi30k/")
    parser.add_argument("--model", type=Path, help="a translator's folder; without it, only training is compared")
    parser.add_argument("--rounds", type=positive, default=6, help="of training, and twice as many of translating")
    parser.add_argument("--steps", type=positive, default=60, help="of a round of training")
    parser.add_argument("--searches", type=positive, default=6, help="in a round of translating")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for `pellucid train`")
    parser.add_argument("--threads", type=positive, default=1)
    args = parser.parse_args(argv)
    source = args.data_dir / "multi30k" / "test_2016_flickr.de.gz"
    for needed in (args.before / "src" / "pellucid", source, *([args.model] if args.model else [])):
        if not needed.exists():
            print(
                f"error: there is no `{needed}`\nhint: --before is a checkout, --data-dir holds multi30k/",
                file=sys.stderr,
            )
            raise SystemExit(2)
    torch.set_num_threads(args.threads)
    sides = {"before": Side(args.before.resolve(), args.threads), "now": Side(HERE, args.threads)}
    try:
        table: dict[str, Any] = {"training": _training(sides, args)}
        if args.model:
            table["translating"] = _translating(sides, args, list(pellucid.read_lines(source)))
    finally:
        for side in sides.values():
            side.close()
    print_json(circumstances(__file__, argv) | table)


def _training(sides: dict[str, Side], args: argparse.Namespace) -> dict[str, Any]:
    rows = compare(lambda side: side.train(args.data_dir.resolve(), args.steps, args.set), sides, args.rounds)
    ratios = summarize_times([row["now"] / row["before"] for row in rows])
    print(f"training: {format_times(ratios)} times as fast", file=sys.stderr)
    speeds = {name: summarize_times([row[name] for row in rows]) for name in sides}
    return {"times as fast": ratios, "tokens a second": speeds}


def _ask(model: Path, texts: list[str], side: Side, **options: int) -> tuple[float, list[str]]:
    return side.translate(model, texts, **options)


def _seconds(ask: Callable[[Side], tuple[float, list[str]]], side: Side) -> float:
    return ask(side)[0]


def _translating(sides: dict[str, Side], args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    rows: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    equal: dict[str, int] = {}
    for _ in range(2 * args.rounds):
        for case, (beam_size, count, batch_tokens) in CASES.items():
            ask = partial(_ask, args.model, texts[:count], beam_size=beam_size, batch_tokens=batch_tokens)
            before, now = (ask(side)[1] for side in sides.values())  # which warms both up
            equal[case] = sum(one == other for one, other in zip(before, now, strict=True))
            found = compare(partial(_seconds, ask), sides, args.searches)
            rows[case].append({name: statistics.median(row[name] for row in found) for name in sides})
        for side in sides.values():
            side.close()
    table = {}
    for case, (_, count, _) in CASES.items():
        ratios = summarize_times([row["before"] / row["now"] for row in rows[case]])
        print(
            f"{case}: {format_times(ratios)} times as fast, {equal[case]} of {count} translations equal",
            file=sys.stderr,
        )
        seconds = {name: summarize_times([row[name] for row in rows[case]]) for name in sides}
        table[case] = {
            "times as fast": ratios, "seconds": seconds, "sentences": count, "equal translations": equal[case]
        }  # fmt: skip
    return table


if __name__ == "__main__":
    main()
