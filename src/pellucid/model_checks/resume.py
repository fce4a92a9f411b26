"""Verifies that a training resumes exactly: a small run, killed at random, is compared byte for byte."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pellucid.config import DataConfig, Recipe
from pellucid.data.doctor import CorpusCheck
from pellucid.data.lines import read_raw_lines
from pellucid.data.locate import TEXT_FIELDS, override_paths, resolve_paths
from pellucid.errors import ConfigError, DecodingError, PellucidError, format_argument
from pellucid.properties.subject import ModelCheck, report_bad
from pellucid.training.log import METRICS
from pellucid.waits import end
from pellucid.weights.folder import WEIGHTS
from pellucid.weights.tensors import load_tensors

NAME = "resume"
STEPS, LINES, HELD_OUT, BATCH_TOKENS = 12, 2000, 50, 1024
"""The limits of the small training: its steps, lines of each text, validation lines, tokens per batch."""
TRAIN = "import sys, pellucid; recipe, out, device = sys.argv[1:]; pellucid.train(recipe, out, device=device)"
"""The program of a training's process."""
POLL = 0.005
MOST_SAID = 400
KILLED = -99
"""The status of a training that was killed."""


class OutOfTime(DecodingError):
    """Raised if the trainings exceed their time limit."""


def verify_resume(
    recipe: str | Path = "default",
    *,
    src: str | Sequence[str] = (),
    tgt: str | Sequence[str] = (),
    valid_src: str | Sequence[str] = (),
    valid_tgt: str | Sequence[str] = (),
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    num_kills: int = 3,
    max_minutes: float = 10.0,
    seed: int | None = None,
    device: str = "cpu",
    log_line: Callable[[str], object] = lambda text: None,
) -> list[CorpusCheck]:
    """Trains a small version of a recipe, once uninterrupted and once killed repeatedly, and compares the weights by
    bytes.

        checks = pellucid.verify_resume("my.toml", data_dir="data")

    The texts are cut to their first 2,000 lines and the training to 12 steps with a checkpoint every 2; model,
    tokenizer, optimizer and all random numbers stay as in the recipe. Each training is a separate process, which is
    killed by SIGKILL at a random moment.

    Args:
        recipe: a shipped recipe's name or a TOML file.
        src, tgt, valid_src, valid_tgt: texts in place of the recipe's.
        overrides: `section.key=value` settings.
        data_dir: the folder of the recipe's texts.
        num_kills: the number of times the training is killed.
        max_minutes: the time limit for all trainings.
        seed: the seed of the random moments; None: other moments on each call.
        device: the device of the trainings.
        log_line: called with each line of the log.

    Raises ConfigError for numbers out of range, the errors of a recipe that cannot be read, and OutOfTime if the time
    limit is exceeded.
    """
    if num_kills < 1 or not max_minutes > 0:
        name, value = ("num_kills", num_kills) if num_kills < 1 else ("max_minutes", max_minutes)
        raise ConfigError(f"{format_argument(name, value)} must be above 0", "the defaults are 3 kills and 10 minutes")
    loaded = Recipe.load(recipe, list(overrides))
    data = override_paths(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
    data = resolve_paths(data, data_dir)
    with TemporaryDirectory(prefix="pellucid-resume-") as name:
        folder = Path(name)
        (folder / "recipe.toml").write_text(
            make_small_recipe(replace(loaded, data=data), folder).to_toml(), encoding="utf-8"
        )
        trial = _Trial(folder, device, time.monotonic() + 60 * max_minutes, max_minutes, random.Random(seed), log_line)
        return [trial.check(num_kills)]


def make_small_recipe(recipe: Recipe, folder: Path) -> Recipe:
    """Returns a recipe with its texts cut into `folder`, and few steps; all computations stay the same."""
    train, steps = recipe.train, min(recipe.train.steps, STEPS)
    data = _write_excerpts(recipe.data, folder)
    small = replace(
        train, steps=steps, batch_tokens=min(train.batch_tokens, max(BATCH_TOKENS, 2 * data.max_length)),
        warmup_steps=min(train.warmup_steps, max(1, steps // 2)), validate_every=max(1, steps // 3),
        decode_and_evaluate=min(train.decode_and_evaluate, 8), save_every=max(1, steps // 6), keep_every=0,
        average=min(train.average, 3), log_every=1, budget=0.0, patience=0,
    )  # fmt: skip
    return replace(recipe, data=data, train=small)


def _write_excerpts(data: DataConfig, folder: Path) -> DataConfig:
    """Writes the first lines of each text into `folder`; returns `data` with these files."""
    cut: dict[str, Any] = {}
    for field in TEXT_FIELDS[:4]:
        most = LINES if field in ("src", "tgt") else HELD_OUT
        paths = []
        for number, path in enumerate(data.files(field)):
            place = folder / f"{field}-{number}-{Path(path).name.removesuffix('.gz')}"
            with open(path, "rb") as file, place.open("wb") as part:
                part.writelines(line + b"\n" for line in islice(read_raw_lines(file, path), most))
            paths.append(str(place))
        cut[field] = tuple(paths) if len(paths) > 1 else (paths or [""])[0]
    return replace(data, **cut, test_src="", test_tgt="", valid_size=min(data.valid_size, HELD_OUT))


class _Trial:
    """The uninterrupted training and the training that is killed."""

    def __init__(
        self, folder: Path, device: str, until: float, minutes: float, generator: random.Random,
        log_line: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.folder, self.device, self.until, self.minutes = folder, device, until, minutes
        self.random, self.log_line = generator, log_line
        self._to_first_step = self._a_step = 0.0
        self._seen = 0

    def check(self, kills: int) -> CorpusCheck:
        """Trains, kills and compares."""
        self.log_line("training a small model without interruption")
        status = self._train("undisturbed", None)
        if status:
            return report_bad(
                NAME, f"the training without interruption failed with status {status}", self._last_said("undisturbed")
            )
        start, a_step, last = self._to_first_step, self._a_step, self._last_step("undisturbed")
        killed, equal = list[int](), list[str]()
        while len(killed) < kills or not equal:
            run = f"killed-{len(equal) + 1}"
            while status := self._train(
                run, self._moment(run, last, (len(killed) + 1) / kills, start, a_step) if len(killed) < kills else None
            ):
                if status != KILLED:
                    said = self._last_said(run)
                    return report_bad(
                        NAME, f"killed after steps {_format_steps(killed)}, it does not resume: status {status}", said
                    )
                killed.append(self._last_step(run))
                self.log_line(f"kill {len(killed)} of {kills}: at step {killed[-1]}")
            equal.append(self._difference(run))
            if equal[-1]:
                break
        if difference := next(filter(None, equal), ""):
            text = f"killed after steps {_format_steps(killed)} and resumed, {difference}"
            return report_bad(NAME, text, "state of a hook, a loss or a part outside of the model is not saved")
        digest = sha256((self.folder / "undisturbed" / WEIGHTS).read_bytes()).hexdigest()
        size = (self.folder / "undisturbed" / WEIGHTS).stat().st_size
        text = (
            f"killed {len(killed)} times (after steps {_format_steps(killed)}) and resumed, the weights equal the "
            f"ones of the training without interruption, byte for byte: {size:,} bytes, sha256 {digest[:12]}"
        )
        return ModelCheck("ok", f"{NAME}: {text}", "", NAME, 0.0, 0.0)

    def _moment(self, run: str, last: int, part: float, start: float, a_step: float) -> tuple[int, float]:
        """Samples a moment to kill at: a logged step, and seconds after it; before the first step, seconds after the
        start.

        The step is within the first `part` of the steps, so that some remain for the next kills. One in four moments is
        before the first step: while texts are encoded, or a checkpoint is read.
        """
        told = self._last_step(run)
        if self.random.random() < 0.25 or told >= last - 1:
            return 0, self.random.uniform(0, start)
        furthest = max(told + 1, round(part * (last - 1)))
        return self.random.randint(told + 1, furthest), self.random.uniform(0, a_step)

    def _train(self, run: str, moment: tuple[int, float] | None) -> int:
        """Runs the command; returns its status, or KILLED if it was killed."""
        started, told = time.monotonic(), self._last_step(run)
        begun = reached = ended = 0.0
        with self._process(run) as process:
            while process.poll() is None:
                now, step = time.monotonic(), self._last_step(run)
                if now > self.until:
                    raise OutOfTime(
                        f"the training runs take longer than {self.minutes:g} minutes (`max_minutes=`)",
                        "increase the limit, or make the model smaller with `overrides=`, as in "
                        "model.num_encoder_layers=1",
                    )
                if step > told:
                    begun, ended = begun or now, ended if step == self._seen else now
                    self._seen = step
                if moment is not None:
                    reached = reached or (now if step >= moment[0] > told else 0.0)
                    if now - (reached if moment[0] else started) >= moment[1] and (reached or not moment[0]):
                        end(process, 0.0)
                        return KILLED
                time.sleep(POLL)
        self._to_first_step = (begun or time.monotonic()) - started
        self._a_step = (ended - begun) / max(1, self._last_step(run) - told)  # without the work after the last step
        return int(process.returncode)

    @contextmanager
    def _process(self, run: str) -> Iterator["subprocess.Popen[bytes]"]:
        """The training as a process, whose output goes into a file next to its folder."""
        command = [sys.executable, "-c", TRAIN, "recipe.toml", run, self.device]
        with (self.folder / f"{run}.said").open("wb") as said:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                yield process
            finally:
                end(process, 0.0)

    def _last_step(self, run: str) -> int:
        """Returns the last step that a run has logged."""
        step = 0
        with suppress(OSError, ValueError, KeyError):
            for line in (self.folder / run / METRICS).read_text(encoding="utf-8").splitlines():
                step = max(step, int(json.loads(line)["step"]))
        return step

    def _last_said(self, run: str) -> str:
        """Returns the last line that a training wrote: the error that it ended with."""
        said = (self.folder / f"{run}.said").read_text(encoding="utf-8", errors="replace")
        return said.strip().rpartition("\n")[2][:MOST_SAID]

    def _difference(self, run: str) -> str:
        """Describes how a run's weights differ from the uninterrupted run's; empty if they are equal byte for byte."""
        one, other = self.folder / "undisturbed" / WEIGHTS, self.folder / run / WEIGHTS
        if one.read_bytes() == other.read_bytes():
            return ""
        try:
            first, second = load_tensors(one), load_tensors(other)
        except PellucidError as error:
            return str(error)
        if first.keys() != second.keys():
            return "the weights have other names"
        count = sum(int((first[name] != second[name]).sum()) for name in first)
        worst = max(float((first[name].double() - second[name].double()).abs().max()) for name in first)
        total = sum(tensor.numel() for tensor in first.values())
        return f"{count:,} of {total:,} weights differ, by at most {worst:.1e}"


def _format_steps(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps)) or "none"
