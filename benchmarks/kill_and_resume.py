"""Claim: killed at any moment, in any phase, the same command ends in the same bytes.

    python benchmarks/kill_and_resume.py --kills 25 > kills.json
    python benchmarks/kill_and_resume.py --kills 20 --ranks 2 > kills-of-ranks.json

A small training on two corpora of dates, with dropout, accumulation, subwords drawn anew each epoch, a moving average
and an average of checkpoints, runs once undisturbed. Then the same command is given again and again, and its process is
killed (SIGKILL): each time a phase is chosen that has had the fewest kills so far, and a random moment within it. What
phase was hit is read off what the dead process has left. Whenever a run comes to its end, its files are compared byte
for byte with those of the undisturbed one, its metrics line by line (but for times), and another run is begun, until
there were so many kills and the last run is finished. Exit status 1 where anything differs.

With `--ranks N` the command starts N processes that train together, and each kill hits one of them or the launcher, by
chance; what is left then ends by itself, which is waited for. (Linux alone: the processes are found in /proc.)
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json

from pellucid.data.dates import split_dates, write_parallel

TOKENIZER, ENCODING, STARTING, STEPS = "training the tokenizer", "encoding", "starting", "training"
FIRST_STEP, VALIDATING, CHECKPOINT = "first step", "validating", "writing a checkpoint"
MODEL, AVERAGING, FINISHING = "writing the model", "averaging", "finishing"
PHASES = (
    STARTING, TOKENIZER, ENCODING, FIRST_STEP, STEPS, VALIDATING, MODEL, CHECKPOINT, AVERAGING, FINISHING,
)  # fmt: skip
"""In the order in which they first come."""

SETTINGS = {
    "data.tokenizer": "bpe", "data.vocab_size": 1000, "data.subword_regularization": 0.1,
    "data.corpus_weights": "[0.5, 1.0]",
    "model.d_model": 64, "model.d_ff": 256, "model.num_encoder_layers": 2, "model.num_decoder_layers": 2,
    "model.dropout": 0.1, "train.steps": 40, "train.batch_tokens": 1000, "train.accumulate": 2,
    "train.warmup_steps": 10, "train.ema_decay": 0.99, "train.validate_every": 10, "train.decode_and_evaluate": 50,
    "train.save_every": 8, "train.average": 3, "train.log_every": 1,
}  # fmt: skip
QUICK = {
    "data.vocab_size": 400,
    "model.d_model": 16,
    "model.d_ff": 32,
    "train.steps": 20,
    "train.decode_and_evaluate": 4,
}
PAIRS, QUICK_PAIRS = 20_000, 600
TIMING = ("seconds", "tokens_per_second")
MODEL_FILES = ("model.safetensors", "config.json", "README.md", "recipe.toml", "tokenizer.model")
RANKS = "ranks_"
"""Begins the names of what the metrics say of single ranks: times and memory."""
MOST_TO_END = 60.0
"""Seconds after which a job is over of which one process was killed."""
POLL = 0.002
"""Seconds between two looks at what a process has written."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs, kills, compares, and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=positive, default=25)
    parser.add_argument("--seed", type=int, default=1, help="decides phases and moments")
    parser.add_argument("--ranks", type=positive, default=1, help="processes that train together")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one process may take")
    parser.add_argument("--quick", action="store_true", help="a smaller model and corpus")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as name:
        trial = Trial(Path(name), options.quick, options.limit, random.Random(options.seed), options.ranks)
        found = trial.run(options.kills)
    print_json(circumstances(__file__, argv) | found)
    return 0 if found["equal_bytes"] and found["equal_metrics"] else 1


@dataclass
class Trial:
    """The undisturbed run, and those that are killed."""

    folder: Path
    quick: bool
    limit: float
    random: random.Random
    ranks: int = 1
    kills: list[dict[str, Any]] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=dict)
    """How long the undisturbed run was in each phase, at most: within that the moment is drawn."""

    def run(self, kills: int) -> dict[str, Any]:
        """All of it; returns what the JSON says."""
        self.settings = SETTINGS | (QUICK if self.quick else {})
        pairs, _ = split_dates(QUICK_PAIRS if self.quick else PAIRS, 1, 10)
        for name, part in (("a", pairs[::3]), ("b", pairs[1::3])):
            write_parallel(part, self.folder, name)
        expected, seconds = self._undisturbed()
        starts, differences = 0, list[list[str]]()
        while len(self.kills) < kills or not differences:
            run = self.folder / f"run-{len(differences)}"
            starts += self._to_its_end(run, kills)
            differences.append(expected.differences(Outcome.of(run)))
            log_line(f"{run.name}: {', '.join(differences[-1]) or 'equal'}")
            shutil.rmtree(run)
        return {
            "settings": self.settings,
            "undisturbed_seconds": round(seconds, 1),
            "kills": len(self.kills),
            "kills_by_phase": dict(Counter(kill["phase"] for kill in self.kills)),
            "starts": starts,
            "runs_compared": len(differences),
            "equal_bytes": not any(set(found) - {"metrics"} for found in differences),
            "equal_metrics": not any("metrics" in found for found in differences),
            "each_kill": self.kills,
        }

    def _undisturbed(self) -> tuple["Outcome", float]:
        run, started = self.folder / "undisturbed", time.perf_counter()
        entered, before = started, STARTING
        with self._process(run) as process:
            while process.poll() is None:
                self._check_time(process, started)
                now = phase_of(run, said(run), self.settings)
                if now != before:
                    self._note(before, time.perf_counter() - entered)
                    entered, before = time.perf_counter(), now
                time.sleep(POLL)
        if process.returncode:
            raise SystemExit(f"the undisturbed run failed:\n{said(run)}")
        return Outcome.of(run), time.perf_counter() - started

    def _note(self, phase: str, seconds: float) -> None:
        self.durations[phase] = max(seconds, self.durations.get(phase, 0.0))

    def _to_its_end(self, run: Path, kills: int) -> int:
        """Gives the command until the run is finished, killing as long as there are kills left; returns the starts."""
        starts = 0
        while True:
            starts += 1
            target = self._target(run) if len(self.kills) < kills else None
            if self._start(run, target):
                return starts

    def _target(self, run: Path) -> str | None:
        """One of the phases with the fewest kills that is still to come; the end of the run only after all others."""
        last = run / "checkpoints" / f"step-{self.settings['train.steps']:08d}"
        gone = {TOKENIZER: run / "config.json", ENCODING: run / "data" / "valid"}
        gone |= dict.fromkeys((STARTING, FIRST_STEP, STEPS, VALIDATING, MODEL, CHECKPOINT), last)
        counts = Counter(kill["phase"] for kill in self.kills)
        fewest = min(counts[phase] for phase in PHASES)
        possible = [p for p in PHASES if counts[p] == fewest and not (p in gone and gone[p].exists())]
        early = [phase for phase in possible if phase not in (AVERAGING, FINISHING)]
        return self.random.choice(early or possible) if possible else None

    def _start(self, run: Path, target: str | None) -> bool:
        """Gives the command once; kills it in the target phase. Returns whether it came to its end."""
        started, victim = time.perf_counter(), ""
        with self._process(run) as process:
            while process.poll() is None:
                self._check_time(process, started)
                if target and phase_of(run, said(run), self.settings) == target:
                    time.sleep(self.random.uniform(0, self.durations.get(target, 0.0)))
                    victim = self._kill_one(process)
                    break
                time.sleep(POLL)
            process.wait()
        if process.returncode == 0:
            return True
        if not victim or process.returncode != (1 if victim.startswith("rank") else -9):
            raise SystemExit(f"status {process.returncode}:\n{said(run)}")
        hit = {"phase": phase_of(run, said(run), self.settings), "step": last_step(run), "aimed_at": target}
        if self.ranks > 1:
            hit["killed"] = victim
        self.kills.append(hit)
        log_line(f"kill {len(self.kills)}: {hit['phase']} (step {hit['step']})")
        return False

    def _kill_one(self, process: subprocess.Popen[bytes]) -> str:
        """Kills the process, or one of the ranks that it has started; waits for the end of all; says which it was."""
        ranks, killed = started_by(process.pid), time.perf_counter()
        names = ["launcher", *(f"rank {rank}" for rank in range(len(ranks)))] if self.ranks > 1 else ["process"]
        victim = self.random.randrange(len(names))
        with contextlib.suppress(ProcessLookupError):
            os.kill([process.pid, *ranks][victim], signal.SIGKILL)
        process.wait()
        while any(map(is_running, ranks)):
            if time.perf_counter() - killed > MOST_TO_END:
                raise SystemExit(f"ranks run on {MOST_TO_END} s after the end of {names[victim]}")
            time.sleep(POLL)
        return names[victim]

    @contextlib.contextmanager
    def _process(self, run: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The command, the same each time; what it says goes to a file beside the run folder."""
        texts = [part for name in "ab" for part in ("--src", f"{name}.written", "--tgt", f"{name}.iso")]
        settings = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "pellucid", "train", *texts, "--out", run.name, *settings, "--device", "cpu"]
        command += ["--ranks", str(self.ranks)] if self.ranks > 1 else []
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with run.with_suffix(".said").open("wb") as stderr:
            process = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=stderr, stdout=stderr)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _check_time(self, process: subprocess.Popen[bytes], started: float) -> None:
        if time.perf_counter() - started > self.limit:
            raise SystemExit(f"process {process.pid} took more than {self.limit:,.0f} s")


@dataclass(frozen=True)
class Outcome:
    """What a finished run has left."""

    files: dict[str, bytes]
    metrics: list[dict[str, Any]]

    @classmethod
    def of(cls, run: Path) -> "Outcome":
        """Reads a run folder."""
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        tables = [json.loads(line) for line in lines]
        metrics = [{k: v for k, v in t.items() if k not in TIMING and not k.startswith(RANKS)} for t in tables]
        return cls({name: (run / name).read_bytes() for name in MODEL_FILES}, metrics)

    def differences(self, other: "Outcome") -> list[str]:
        """The names of what differs."""
        return [name for name in MODEL_FILES if self.files[name] != other.files[name]] + (
            [] if self.metrics == other.metrics else ["metrics"]
        )


def started_by(pid: int) -> list[int]:
    """The processes that a process has started, in their order."""
    with contextlib.suppress(OSError):
        return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
    return []


def is_running(pid: int) -> bool:
    """Whether a process runs; not one that is dead and waits for its parent."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    return False


def phase_of(run: Path, said: str, settings: dict[str, Any]) -> str:
    """In which phase a process is, or was when it died, by what it has written and said."""
    if (run / "result.json").exists():
        return FINISHING
    if any(run.glob(".model.safetensors.*")):
        return MODEL
    if any(run.glob("checkpoints/*.partial")):
        return CHECKPOINT
    if any(run.glob("data/*.partial")):
        return ENCODING
    if "model: " not in said:
        return TOKENIZER if "training the tokenizer" in said and "vocabulary: " not in said else STARTING
    events = metrics_of(run)
    event, step = events[-1] if events else ("", 0)
    if event == "candidate":
        return FINISHING
    if (run / "checkpoints" / f"step-{settings['train.steps']:08d}").is_dir():
        return AVERAGING
    if event == "train" and (step % settings["train.validate_every"] == 0 or step == settings["train.steps"]):
        return VALIDATING
    return STEPS if "\nstep " in said else FIRST_STEP


def metrics_of(run: Path) -> list[tuple[str, int]]:
    """The whole lines of the metrics, as (event, step)."""
    with contextlib.suppress(OSError):
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        tables = [json.loads(line) for line in lines if line.endswith("\n")]
        return [(table["event"], table["step"]) for table in tables]
    return []


def last_step(run: Path) -> int:
    """The last step in the metrics."""
    return max((step for _, step in metrics_of(run)), default=0)


def said(run: Path) -> str:
    """What the process has said so far."""
    return run.with_suffix(".said").read_text(encoding="utf-8", errors="replace")


def log_line(text: str) -> None:
    """A line for the reader."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
