"""Claim: a corpus is prepared in a memory that does not grow with it, once, and a run on it starts and resumes at once.

    python benchmarks/corpus_growth.py --pairs 100000 300000 1000000 > corpus-growth.json
    python benchmarks/corpus_growth.py --pairs 100000 10000000 --kill --steps 100 --folder BIG > ten-million.json

Sentence pairs are made up, of words that occur as often as in a language: the n-th as often as 1 / n. Of each size it
measures a training of `--steps` small steps from nothing (`first`), with what it says when a phase begins; the order of
an epoch until its first batch (`order`); a second run on the same texts (`start`), which is interrupted in its first
steps and gone on with (`resume`). Each is a process of its own: seconds of wall time until it is `ready` for its first
step, and in all; and the most memory of its own, without mapped files, that it and each process that it starts have
before it is ready. `nothing` is a start on 1,000 pairs: Python, torch and a model. With --kill the first training is
killed three times while it prepares, and goes on.

For sizes that nobody has measured, `on_paper` says what follows from the largest: disk in proportion, time in
proportion, and the number of files.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from report import circumstances, positive, print_json, refusals_in_words

from pellucid.errors import ConfigError

BLOCK = 100_000
"""Pairs that are made up together."""
ON_PAPER = 1_000_000_000
KILLS = (0.15, 0.45, 0.8)
"""The parts of the time that preparing takes after which it is killed."""
MODEL = ("model.d_model=16", "model.num_heads=2", "model.d_ff=16", "model.num_encoder_layers=1",
         "model.num_decoder_layers=1", "train.batch_tokens=1000", "train.decode_and_evaluate=0")  # fmt: skip
PHASES = {
    "inspect": "inspecting the texts", "tokenizer": "training the tokenizer", "encode": "vocabulary:",
    "ready": "model:",
}  # fmt: skip
"""The beginning of what a training says when a phase begins."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures each size, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=positive, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--steps", type=positive, default=2)
    parser.add_argument("--vocabulary", type=positive, default=8000, help="of the tokenizer, at most")
    parser.add_argument("--tokenizer-pairs", type=positive, default=None, help="data.tokenizer_sample_size")
    parser.add_argument("--folder", type=Path, help="where texts and runs are made and left; else they are removed")
    parser.add_argument("--kill", action="store_true", help="kill the first training three times while it prepares")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        nothing = measured(folder / "nothing", 1000, options)["resume"]["ready"]
        sizes = []
        for pairs in sorted(options.pairs):
            sizes.append(measured(folder / str(pairs), pairs, options))
            print(json.dumps(sizes[-1]), file=sys.stderr, flush=True)
            if options.folder is None:
                shutil.rmtree(folder / str(pairs))
    small, large = sizes[0], sizes[-1]
    print_json(
        circumstances(__file__, argv)
        | {
            "sizes": sizes,
            "memory_ratio": round(large["first"]["megabytes"] / small["first"]["megabytes"], 2),
            "nothing": nothing,
            "seconds_to_start": round(large["start"]["ready"] - nothing, 2),
            "seconds_to_resume": round(large["resume"]["ready"] - nothing, 2),
            "on_paper": on_paper(large),
        }
    )
    return 0


def measured(folder: Path, pairs: int, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what one size takes."""
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder, pairs)
    settings = [*MODEL, f"data.vocab_size={options.vocabulary}", f"data.cache_dir={folder / 'prepared'}"]
    settings += [f"train.save_every={options.steps}", f"train.validate_every={options.steps}"]
    if options.tokenizer_sample_size:
        settings.append(f"data.tokenizer_sample_size={options.tokenizer_sample_size}")
    kills = 0
    if options.kill and pairs > 1000:
        shutil.rmtree(folder / "prepared", ignore_errors=True)
        kills = kill_while_preparing(folder, command(folder, "first", options.steps, settings))
    found: dict[str, Any] = {"pairs": pairs, "kills": kills}
    found["first"] = taken(command(folder, "first", options.steps, settings))
    shutil.rmtree(folder / "second", ignore_errors=True)
    for name in ("start", "resume"):
        found[name] = interrupted(command(folder, "second", 10**6, settings))
    found["order"] = taken([sys.executable, "-c", ORDER, str(next((folder / "prepared").rglob("ids-*/train")))])
    files = [path for path in (folder / "prepared").rglob("*") if path.is_file()]
    found["prepared"] = {"megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1), "files": len(files)}
    found["texts"] = {"megabytes": round(sum((folder / side).stat().st_size for side in ("src", "tgt")) / 1e6, 1)}
    return found


ORDER = """
import json, sys, time
from pathlib import Path
from pellucid.data import shards
from pellucid.data.batching import make_batch_sampler
folder = Path(sys.argv[1])
shard = shards.open_stored(folder)
began = time.perf_counter()
next(make_batch_sampler(shard, 4096, 1).iterate_from(3, 0))
print(json.dumps({"seconds": time.perf_counter() - began}), file=sys.stderr)
"""


def write_texts(folder: Path, pairs: int) -> None:
    """Makes up the sentences, unless they are there; about 100 bytes a pair."""
    if all((folder / side).is_file() for side in ("src", "tgt", "whole")):
        return
    words = np.random.default_rng(1)
    letters = list("abcdefghijklmnop")
    vocabulary = np.array(["".join(words.choice(letters, words.integers(2, 9))) for _ in range(50_000)])
    with (folder / "src").open("w", encoding="utf-8") as src, (folder / "tgt").open("w", encoding="utf-8") as tgt:
        for first in range(0, pairs, BLOCK):
            draw = np.random.default_rng([1, first])
            lengths = draw.integers(5, 20, min(BLOCK, pairs - first))
            chosen = vocabulary[np.minimum(draw.zipf(1.3, int(lengths.sum())) - 1, len(vocabulary) - 1)]
            for line in np.split(chosen, np.cumsum(lengths)[:-1]):
                src.write(" ".join(line) + "\n")
                tgt.write(" ".join(line[::-1]) + "\n")
    (folder / "whole").touch()


def command(folder: Path, run: str, steps: int, settings: Sequence[str]) -> list[str]:
    """Returns the command that trains on the texts of a folder."""
    words = [sys.executable, "-m", "pellucid", "train", "--src", str(folder / "src"), "--tgt", str(folder / "tgt")]
    words += ["--out", str(folder / run)]
    return [*words, *(word for setting in (*settings, f"train.steps={steps}") for word in ("--set", setting))]


def taken(words: Sequence[str]) -> dict[str, Any]:
    """Runs a command to its end. Returns its seconds, those of its phases, and the most megabytes of its processes."""
    process, watch = started(words)
    lines = watch.lines()
    if process.wait():
        raise ConfigError(f"`{' '.join(words)}` failed: {chr(10).join(text for _, text in lines[-20:])}")
    return watch.summary(time.perf_counter())


def interrupted(words: Sequence[str]) -> dict[str, Any]:
    """Runs a training until it trains, then asks it to stop and to save."""
    process, watch = started(words)
    while process.poll() is None and not watch.has_said(PHASES["ready"]):
        time.sleep(0.01)
    time.sleep(1.0)
    process.terminate()  # a shell has what it starts in the background ignore SIGINT
    watch.lines()
    process.wait()
    return watch.summary(time.perf_counter())


def kill_while_preparing(folder: Path, words: Sequence[str]) -> int:
    """Kills a command several times while it prepares, each time later than what was there. Returns how often."""
    shutil.rmtree(folder / "first", ignore_errors=True)
    estimate = (folder / "src").stat().st_size / 1e6
    for part in KILLS:
        process, watch = started(words)
        end = time.perf_counter() + max(2.0, part * estimate / 8)
        while process.poll() is None and time.perf_counter() < end and not watch.has_said(PHASES["ready"]):
            time.sleep(0.01)
        process.kill()
        watch.lines()
        process.wait()
    return len(KILLS)


class Watch:
    """Listens to what a process says, and looks at the memory of it and of those that it starts."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Begins to listen."""
        self.began, self._lines, self._most, self._each = time.perf_counter(), list[tuple[float, str]](), 0.0, 0.0
        self._process = process
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._look)]
        for thread in self._threads:
            thread.start()

    def has_said(self, beginning: str) -> bool:
        """Tells whether a line began so."""
        return any(text.startswith(beginning) for _, text in self._lines)

    def lines(self) -> list[tuple[float, str]]:
        """Returns all that was said, when the process has ended."""
        for thread in self._threads:
            thread.join()
        return self._lines

    def summary(self, ended: float) -> dict[str, Any]:
        """Returns seconds and megabytes."""
        begins = {name: moment for moment, text in reversed(self._lines) for name, start in PHASES.items()
                  if text.startswith(start)}  # fmt: skip
        moments = [*sorted((moment, name) for name, moment in begins.items()), (ended, "end")]
        phases = {name: round(after - at, 2) for (at, name), (after, _) in pairwise(moments)}
        phases.pop("ready", None)
        told = re.search(r'\{"seconds": ([0-9.]+)\}', " ".join(text for _, text in self._lines))
        return {
            "seconds": round(ended - self.began, 2),
            **({"own_seconds": round(float(told[1]), 3)} if told else {}),
            **({"ready": round(begins["ready"] - self.began, 2)} if "ready" in begins else {}),
            **({"phases": phases} if phases else {}),
            "megabytes": round(self._most, 1),
            "megabytes_of_others": round(self._each, 1),
        }

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                self._lines.append((time.perf_counter(), line.rstrip("\n")))

    def _look(self) -> None:
        while self._process.poll() is None:
            if self.has_said(PHASES["ready"]):
                return
            self._most = max(self._most, resident(self._process.pid))
            self._each = max([self._each, *map(resident, children(self._process.pid))])
            time.sleep(0.05)


def started(words: Sequence[str]) -> "tuple[subprocess.Popen[str], Watch]":
    """Starts a command, and who watches it."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
    return process, Watch(process)


def resident(pid: int) -> float:
    """Returns the megabytes that a process has of its own, without the files that it has mapped; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def on_paper(large: dict[str, Any]) -> dict[str, Any]:
    """Returns what ON_PAPER pairs would take, in proportion to a size that was measured."""
    times = ON_PAPER / large["pairs"]
    return {
        "pairs": ON_PAPER,
        "from_pairs": large["pairs"],
        "hours_to_prepare": round(times * (large["first"]["ready"]) / 3600, 1),
        "gigabytes_of_texts": round(times * large["texts"]["megabytes"] / 1e3, 1),
        "gigabytes_prepared": round(times * large["prepared"]["megabytes"] / 1e3, 1),
        "files": large["prepared"]["files"],
        "megabytes_of_an_order": round(32 * ON_PAPER / 256 / 1e6, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
