"""Verifies that a training of one's own goes on where it was cut off: in small, killed at random, compared by bytes."""

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
from pellucid.data.doctor import Check
from pellucid.data.lines import raw_lines
from pellucid.data.locate import TEXT_FIELDS, locate, with_texts
from pellucid.errors import ConfigError, DecodingError, PellucidError, argument
from pellucid.examining.subject import ModelCheck, bad
from pellucid.training.log import METRICS
from pellucid.weights.folder import WEIGHTS
from pellucid.weights.tensors import load_tensors

NAME = "resume"
STEPS, LINES, HELD_OUT, BATCH_TOKENS = 12, 2000, 50, 1024
"""The most that is left of a training: its steps, lines of each text, lines held out, tokens of a batch."""
TRAIN = "import sys, pellucid; recipe, out, device = sys.argv[1:]; pellucid.train(recipe, out, device=device)"
"""The program of a training's process."""
POLL = 0.005
MOST_SAID = 400
KILLED = -99
"""The status of a training that was killed."""


class OutOfTime(DecodingError):
    """The trainings took longer than they may."""


def verify_resume(
    recipe: str | Path = "default",
    *,
    src: str | Sequence[str] = (),
    tgt: str | Sequence[str] = (),
    valid_src: str | Sequence[str] = (),
    valid_tgt: str | Sequence[str] = (),
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    kills: int = 3,
    minutes: float = 10.0,
    seed: int | None = None,
    device: str = "cpu",
    say: Callable[[str], object] = lambda text: None,
) -> list[Check]:
    """Trains a recipe in small, once undisturbed and once killed again and again, and compares the weights by bytes.

        checks = pellucid.verify_resume("my.toml", data_dir="data")

    The texts are cut to their first 2,000 lines and the training to 12 steps with a checkpoint every 2; model,
    tokenizer, optimizer and all that is drawn at random stay as the recipe has them. Each training is a process of its
    own, which is ended by SIGKILL at a random moment.

    Args:
        recipe: a shipped recipe's name or a TOML file.
        src, tgt, valid_src, valid_tgt: texts in place of the recipe's.
        overrides: `section.key=value` settings.
        data_dir: where the recipe's texts are looked for.
        kills: how often the training is killed.
        minutes: the most that all of it may take.
        seed: decides the moments; None: others each time.
        device: where it trains.
        say: is told what is being done.

    Raises ConfigError for numbers that mean nothing, what a recipe raises that cannot be read, and OutOfTime where the
    time does not suffice.
    """
    if kills < 1 or not minutes > 0:
        name, value = ("kills", kills) if kills < 1 else ("minutes", minutes)
        raise ConfigError(f"{argument(name, value)} must be above 0", "the defaults are 3 kills and 10 minutes")
    loaded = Recipe.load(recipe, list(overrides))
    data = with_texts(loaded.data, src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
    data = locate(data, data_dir)
    with TemporaryDirectory(prefix="pellucid-resume-") as name:
        folder = Path(name)
        (folder / "recipe.toml").write_text(in_small(replace(loaded, data=data), folder).to_toml(), encoding="utf-8")
        trial = _Trial(folder, device, time.monotonic() + 60 * minutes, minutes, random.Random(seed), say)
        return [trial.check(kills)]


def in_small(recipe: Recipe, folder: Path) -> Recipe:
    """Returns a recipe with its texts cut into `folder`, and few steps; what it computes with stays."""
    train, steps = recipe.train, min(recipe.train.steps, STEPS)
    data = _cut(recipe.data, folder)
    small = replace(
        train, steps=steps, batch_tokens=min(train.batch_tokens, max(BATCH_TOKENS, 2 * data.max_length)),
        warmup_steps=min(train.warmup_steps, max(1, steps // 2)), validate_every=max(1, steps // 3),
        validate_decode=min(train.validate_decode, 8), save_every=max(1, steps // 6), keep_every=0,
        average=min(train.average, 3), log_every=1, budget=0.0, patience=0,
    )  # fmt: skip
    return replace(recipe, data=data, train=small)


def _cut(data: DataConfig, folder: Path) -> DataConfig:
    """Writes the first lines of each text into `folder`; returns `data` with these."""
    cut: dict[str, Any] = {}
    for field in TEXT_FIELDS[:4]:
        most = LINES if field in ("src", "tgt") else HELD_OUT
        paths = []
        for number, path in enumerate(data.files(field)):
            place = folder / f"{field}-{number}-{Path(path).name.removesuffix('.gz')}"
            with open(path, "rb") as file, place.open("wb") as part:
                part.writelines(line + b"\n" for line in islice(raw_lines(file, path), most))
            paths.append(str(place))
        cut[field] = tuple(paths) if len(paths) > 1 else (paths or [""])[0]
    return replace(data, **cut, test_src="", test_tgt="", valid_size=min(data.valid_size, HELD_OUT))


class _Trial:
    """The undisturbed training and the one that is killed."""

    def __init__(
        self, folder: Path, device: str, until: float, minutes: float, generator: random.Random,
        say: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.folder, self.device, self.until, self.minutes = folder, device, until, minutes
        self.random, self.say = generator, say
        self._to_first_step = self._a_step = 0.0
        self._seen = 0

    def check(self, kills: int) -> Check:
        """Trains, kills and compares."""
        self.say("training in small, undisturbed")
        status = self._train("undisturbed", None)
        if status:
            return bad(
                NAME, f"the small training failed by itself, with status {status}", self._last_said("undisturbed")
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
                    return bad(NAME, f"killed after steps {_listed(killed)}, it does not go on: status {status}", said)
                killed.append(self._last_step(run))
                self.say(f"kill {len(killed)} of {kills}: at step {killed[-1]}")
            equal.append(self._difference(run))
            if equal[-1]:
                break
        if difference := next(filter(None, equal), ""):
            text = f"killed after steps {_listed(killed)} and continued, {difference}"
            return bad(NAME, text, "what a hook, a loss or a part keeps outside of the model is not saved with it")
        digest = sha256((self.folder / "undisturbed" / WEIGHTS).read_bytes()).hexdigest()
        size = (self.folder / "undisturbed" / WEIGHTS).stat().st_size
        text = (
            f"killed {len(killed)} times (after steps {_listed(killed)}) and continued, the weights are those of the "
            f"undisturbed training, byte for byte: {size:,} bytes, sha256 {digest[:12]}"
        )
        return ModelCheck("ok", f"{NAME}: {text}", "", NAME, 0.0, 0.0)

    def _moment(self, run: str, last: int, part: float, start: float, a_step: float) -> tuple[int, float]:
        """Draws a moment to kill at: a step that is told of, and seconds since then; before the first, since the start.

        The step lies within the first `part` of them, so that the first kill leaves some for the others.
        One in four lies before the first step: while texts are encoded, or a checkpoint is read.
        """
        told = self._last_step(run)
        if self.random.random() < 0.25 or told >= last - 1:
            return 0, self.random.uniform(0, start)
        furthest = max(told + 1, round(part * (last - 1)))
        return self.random.randint(told + 1, furthest), self.random.uniform(0, a_step)

    def _train(self, run: str, moment: tuple[int, float] | None) -> int:
        """Gives the command; returns its status, KILLED where it was killed at a moment."""
        started, told = time.monotonic(), self._last_step(run)
        begun = reached = ended = 0.0
        with self._process(run) as process:
            while process.poll() is None:
                now, step = time.monotonic(), self._last_step(run)
                if now > self.until:
                    raise OutOfTime(
                        f"the trainings take longer than {self.minutes:g} minutes (`minutes=`)",
                        "allow more, or make the model smaller with `overrides=`, as in model.num_encoder_layers=1",
                    )
                if step > told:
                    begun, ended = begun or now, ended if step == self._seen else now
                    self._seen = step
                if moment is not None:
                    reached = reached or (now if step >= moment[0] > told else 0.0)
                    if now - (reached if moment[0] else started) >= moment[1] and (reached or not moment[0]):
                        process.kill()
                        process.wait()
                        return KILLED
                time.sleep(POLL)
        self._to_first_step = (begun or time.monotonic()) - started
        self._a_step = (ended - begun) / max(1, self._last_step(run) - told)  # without what follows the last one
        return int(process.returncode)

    @contextmanager
    def _process(self, run: str) -> Iterator["subprocess.Popen[bytes]"]:
        """The training as a process; what it says goes into a file beside its folder."""
        command = [sys.executable, "-c", TRAIN, "recipe.toml", run, self.device]
        with (self.folder / f"{run}.said").open("wb") as said:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _last_step(self, run: str) -> int:
        """Returns the last step that a run has told of."""
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
        """Says how a run's weights are unlike those of the undisturbed one; empty where they are the same bytes."""
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


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps)) or "none"
