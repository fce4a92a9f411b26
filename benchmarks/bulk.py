"""Claim: a folder that several processes translate, some of which are killed, becomes what one process writes.

    python benchmarks/bulk.py > bulk.json                      (Linux; --by workers, --by ray; --quick: a trial)
    python benchmarks/bulk.py --minutes 120 > memory.json      what the processes hold, for so long

200,000 lines in 40 files, plain and gzip, some in folders, are translated by one process as one file, then as a folder
by three commands with `--worker i/3`. Twice, whenever some files more are done, two processes that have a half-made
output open are killed (SIGKILL), and begun again. `--by workers` kills processes of `--workers 3`, which the command
replaces by itself, `--by ray` actors, which Ray does. At the end the merged outputs must be those of one process, byte
for byte; no output that was done before a kill may have been written again; one more command must find all done.

With `--minutes` one command with its workers goes through the files again and again, and what each of its processes
holds in memory is looked at: after a third of the time for warming up, the most of the last third against that of the
second. Exit status 1 where anything differs, or memory grows by more than 2 %.
"""

import argparse
import contextlib
import gzip
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from held_memory import children, is_flat, watch
from report import circumstances, positive, print_json, refusals_in_words

from pellucid import read_lines
from pellucid.data.dates import split_dates, write_parallel
from pellucid.streams.folder_files import OWN

SETTINGS = {
    "data.tokenizer": "characters", "model.d_model": 32, "model.d_ff": 64, "model.num_heads": 2,
    "model.num_encoder_layers": 1, "model.num_decoder_layers": 1, "train.steps": 300, "train.batch_tokens": 2000,
    "train.warmup_steps": 30, "train.learning_rate": 5e-3, "train.validate_every": 300, "train.decode_and_evaluate": 10,
}  # fmt: skip
OPTIONS = ("--beam-size", "1", "--max-length", "16", "--device", "cpu", "--threads", "1")
POLL = 0.02
LIMIT = 3600.0
"""Seconds without a file more, after which something hangs."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Translates, kills, compares, and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a run or model folder; without it a tiny one is trained")
    parser.add_argument("--input", type=Path, help="lines for it, again and again; without it written dates")
    parser.add_argument("--lines", type=positive, default=200_000)
    parser.add_argument("--files", type=positive, default=40)
    parser.add_argument("--workers", type=positive, default=3)
    parser.add_argument("--by", choices=["commands", "workers", "ray"], default="commands", help="who shares the files")
    parser.add_argument("--kills", type=positive, default=2, help="processes that are killed at a time")
    parser.add_argument("--times", type=positive, default=2)
    parser.add_argument("--seed", type=int, default=1, help="decides which are killed")
    parser.add_argument("--minutes", type=float, help="look at the memory for so long, and kill nothing")
    parser.add_argument("--quick", action="store_true", help="3,000 lines in 9 files")
    args = parser.parse_args(argv)
    if args.quick:
        args.lines, args.files = 3000, 9
    with tempfile.TemporaryDirectory(prefix="bulk-") as name:
        folder = Path(name)
        model = args.model or train(folder)
        write_files(lines_of(args), args.files, folder / "in")
        if args.minutes:
            found, good = watch_memory(args, model, folder)
        else:
            found, good = Trial(args, model, folder).run()
    print_json(circumstances(__file__, argv, ["ray"] if args.by == "ray" else []) | found)
    return int(not good)


def train(folder: Path) -> Path:
    """Trains a tiny model of dates, and returns its run folder."""
    src, tgt = write_parallel(split_dates(3000, seed=1, held_out=50)[0], folder, "train")
    words = ["train", "--src", src, "--tgt", tgt, "--out", folder / "run", "--device", "cpu"]
    settings = itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in SETTINGS.items())
    subprocess.run(pellucid(*words, *settings), check=True, capture_output=True)
    return folder / "run"


def lines_of(args: argparse.Namespace) -> list[str]:
    """Returns the lines to translate."""
    if args.input:
        return list(itertools.islice(itertools.cycle(read_lines(args.input)), args.lines))
    return [source for source, _ in split_dates(args.lines + 1, seed=2, held_out=1)[0]]


def write_files(lines: list[str], count: int, folder: Path) -> None:
    """Writes the lines into so many files of unequal lengths, in the order of their names."""
    chance = random.Random(len(lines))
    cuts = [0, *sorted(chance.sample(range(1, len(lines)), count - 1)), len(lines)]
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        path = folder / f"part {number // 10}" / f"{number:05}{'.gz' if number % 4 == 3 else ''}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(f"{line}\n" for line in lines[begin:end]).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def merged(folder: Path) -> bytes:
    """Returns the contents of all files of a folder, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and OWN not in path.parts)
    return b"".join(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files)


def pellucid(*words: object) -> list[str]:
    """Returns a command."""
    return [sys.executable, "-m", "pellucid", *map(str, words)]


class Trial:
    """One process, then several that are killed."""

    def __init__(self, args: argparse.Namespace, model: Path, folder: Path) -> None:
        self.args, self.folder, self.random = args, folder, random.Random(args.seed)
        self.own = folder / "out" / OWN
        folders = "--input-dir", folder / "in", "--output-dir", folder / "out"
        self.whole = pellucid("translate", model, "--input", folder / "all", "--output", folder / "whole", *OPTIONS)
        self.command = pellucid("translate", model, *folders, *OPTIONS)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        """The commands under way, by the number of their share."""
        self.killed: list[str] = []
        self.before: dict[str, tuple[int, int]] = {}
        """What was done before some kill, and when it was written."""

    def run(self) -> tuple[dict[str, Any], bool]:
        """Returns what was found, and whether all is as claimed."""
        (self.folder / "all").write_bytes(merged(self.folder / "in"))
        started = time.monotonic()
        subprocess.run(self.whole, check=True, capture_output=True)
        alone = time.monotonic() - started
        shares = range(1, self.args.workers + 1) if self.args.by == "commands" else [0]
        try:
            for number in shares:
                self._start(number)
            for _ in range(self.args.times):
                self._wait_for(self.args.files // (4 * self.args.times))
                self._kill()
            self._wait_for(None)
        finally:
            for process in self.running.values():
                process.kill()
                process.wait()
        last = subprocess.run(self.command, capture_output=True, text=True, check=False)
        whole = (self.folder / "whole").read_bytes()
        found = {
            "lines": self.args.lines, "different": len(set(whole.splitlines())),
            "files": self.args.files, "by": self.args.by, "kills": len(self.killed),
            "killed while they wrote": self.killed, "done before a kill": len(self.before),
            "equal bytes": merged(self.folder / "out") == whole,
            "written again": sum(self._stamp(path) != stamp for path, stamp in self.before.items()),
            "all found done": last.stderr.endswith(f"none translated, {self.args.files:,} done before\n"),
            "left over": len([*self.own.rglob("*.partial*")]), "seconds of one process": round(alone, 1),
        }  # fmt: skip
        good = found["equal bytes"] and found["all found done"] and not found["written again"] + found["left over"]
        return found, bool(good and self.killed)

    def _start(self, number: int) -> None:
        ways = {"commands": ("--worker", f"{number}/{self.args.workers}"), "workers": (), "ray": ("--ray", "local")}
        several = () if self.args.by == "commands" else ("--workers", self.args.workers)
        words = [*self.command, *ways[self.args.by], *map(str, several)]
        log = (self.folder / f"log {number}").open("ab")
        with log:
            self.running[number] = subprocess.Popen(words, stdout=log, stderr=log)

    def _kill(self) -> None:
        """Kills some that are at work, and begins again those that nobody else does."""
        for path in self.own.rglob("*.json"):
            if not path.name.endswith(".partial.json"):
                output = str(self.folder / "out" / path.relative_to(self.own).with_suffix(""))
                self.before[output] = self._stamp(output)
        killed = 0
        while killed < self.args.kills and any(process.poll() is None for process in self.running.values()):
            at_work = self._at_work()
            if at_work:
                process = self.random.choice([*at_work])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    self.killed.append(at_work[process])
                    killed += 1
                    self._await(lambda process=process: not _is_alive(process))  # type: ignore[misc]
            time.sleep(POLL)
        for number, running in [*self.running.items()]:
            if running.poll() == -signal.SIGKILL:
                self._start(number)

    def _at_work(self) -> dict[int, str]:
        """Returns the processes that may be killed, each with what it writes."""
        if self.args.by == "workers":
            return dict.fromkeys(children(self.running[0].pid), "as a worker")
        return writers(self.own)

    def _wait_for(self, more: int | None) -> None:
        """Waits until so many files more are done, or all; what ends badly is an error."""
        count = self._done()
        self._await(
            lambda: (
                (more is not None and self._done() >= count + max(1, more))
                or all(process.poll() is not None for process in self.running.values())
            )
        )
        for number, process in self.running.items():
            if process.poll() not in (None, 0):
                raise SystemExit(
                    f"error: status {process.poll()}: {(self.folder / f'log {number}').read_text()[-2000:]}"
                )

    def _done(self) -> int:
        return sum(not path.name.endswith(".partial.json") for path in self.own.rglob("*.json"))

    def _await(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not is_so():
            if time.monotonic() > end:
                raise SystemExit(f"error: nothing has happened for {LIMIT:,.0f} seconds")
            time.sleep(POLL)

    def _stamp(self, path: str) -> tuple[int, int]:
        status = Path(path).stat()
        return status.st_ino, status.st_mtime_ns


def watch_memory(args: argparse.Namespace, model: Path, folder: Path) -> tuple[dict[str, Any], bool]:
    """Returns what the processes of one command held over so many minutes, and whether it stayed flat."""
    rounds = folder / "rounds"
    for number, path in itertools.product(range(2000), sorted((folder / "in").rglob("*"))):
        if path.is_file():
            link = rounds / f"{number:05}" / path.name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    words = ["--input-dir", rounds, "--output-dir", folder / "out", "--workers", args.workers]
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(pellucid("translate", model, *words, *OPTIONS), stdout=file, stderr=file)
    try:
        while not any((folder / "out").rglob("*.partial")) and process.poll() is None:  # it opens the model
            time.sleep(POLL)
        found = watch(process, args.minutes)
    finally:
        process.terminate()
        status = process.wait()
    if status not in (0, 128 + signal.SIGTERM):
        raise SystemExit(f"error: status {status}: {log.read_text()[-2000:]}")
    found["files written"] = sum(path.is_file() and OWN not in path.parts for path in (folder / "out").rglob("*"))
    return found, is_flat(found)


def writers(folder: Path) -> dict[int, str]:
    """Returns the processes that have a half-made output of a folder open, each with its name."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            names = [os.readlink(handle) for handle in (process / "fd").iterdir()]
            open_ = [name for name in names if name.startswith(f"{folder}/") and name.endswith(".partial")]
            if open_:
                found[int(process.name)] = open_[0].removeprefix(f"{folder}/").removesuffix(".partial")
    return found


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
