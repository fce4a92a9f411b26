"""COMET, a metric that is a neural network itself, run by the Python of an environment of its own."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from pellucid.errors import ConfigError, PellucidError, argument, shown
from pellucid.evaluation import comet_script
from pellucid.evaluation.comparison import Difference, bracket, randomization_p
from pellucid.evaluation.scores import Interval, bootstrap, middle

WMT22 = "Unbabel/wmt22-comet-da"
MOST_SECONDS = 3600.0
_LOOK = 0.02  # seconds between two looks at the other process
_MOST_PRINTED = 64 << 20  # bytes beside the answer
_GRID = 2.0**30
"""Scores are whole numbers of this part of 1, finer than a network's: sums are exact then, in whatever order. Of random
exchanges those that come out exactly as large as what was measured count, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CometScore:
    """The score of a corpus of translations by COMET: the mean of its lines. Most models give 0 to 1, 1 is the best."""

    score: float
    interval: Interval
    """95 %, by bootstrap."""
    lines: tuple[float, ...]
    signature: str
    """The model, the SHA-256 of its checkpoint, whether it reads references, its precision, and versions."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as json.dumps() takes them and json.loads() gives them back."""
        return asdict(self) | {"interval": list(self.interval), "lines": list(self.lines)}

    def report(self) -> str:
        """Returns the score as a line for a terminal."""
        low, high = self.interval
        return (
            f"COMET           {self.score:6.4f} ± {(high - low) / 2:.4f}  [{low:6.4f}, {high:6.4f}]  {self.signature}"
        )


class CometLines(NamedTuple):
    """The score of each line of several systems, and how they were computed."""

    systems: list[list[float]]
    signature: str


@dataclass(frozen=True, kw_only=True)
class CometEnvironment:
    """Scores by the COMET that an environment of its own has; nothing of it comes into this process.

    What it needs is looked for in the cache of Hugging Face's hub alone, unless it may download. COMET's checkpoints
    are pickles, which may run any code: it runs in that environment's process, with the user's rights.
    """

    comet: str
    """The Python of that environment: a path, or a name on PATH."""
    comet_model: str = WMT22
    """A name on the hub; or a checkpoint: its file, or the folder of `checkpoints/model.ckpt` and `hparams.yaml`."""
    comet_download: bool = False
    comet_timeout: float = MOST_SECONDS
    """Seconds that the environment may take for an answer."""
    device: str = "auto"
    threads: int | None = None

    def check(self) -> None:
        """Asks the environment for COMET and its model, in a moment, before anything is translated for it.

        Downloads the model, where it may. Raises ConfigError for a program, a package or a model that is missing,
        PellucidError where the program gives no answer.
        """
        found = self._ask({})
        if not isinstance(found.get("versions"), dict):
            raise self._illegible(json.dumps(found))

    def score(
        self, sources: Sequence[str], systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]] = ()
    ) -> CometLines:
        """Returns the scores of each system's translations of the same sources.

        Args:
            references: sets of them, of which COMET takes one; models that read none need none.

        Raises ConfigError as check() does, or where the model needs one set of references; PellucidError where the
        program dies, takes too long or answers what cannot be read.
        """
        question = {"sources": list(sources), "systems": [list(system) for system in systems]}
        found = self._ask(question | {"references": list(references[0]) if len(references) == 1 else None}, references)
        try:
            lines = [[float(score) for score in system["lines"]] for system in found["systems"]]
            means = [float(system["score"]) for system in found["systems"]]
            versions = {
                name: str(found["versions"][name]) for name in ("unbabel-comet", "torch", "transformers", "python")
            }
            references_read = int(bool(found["reads_references"]))
            fields: dict[str, object] = {
                "model": self._named(),
                "sha256": str(found["digest"])[:12],
                "refs": references_read,
            }
            fields |= {"dtype": str(found["dtype"]), **versions}
        except (KeyError, TypeError, ValueError) as error:
            raise self._illegible(json.dumps(found)) from error
        if [len(system) for system in lines] != [len(sources)] * len(systems):
            counts = ", ".join(f"{len(system):,}" for system in lines) or "none"
            raise self._illegible(f"scores of {counts} lines, not of {len(sources):,}")
        for mean, system in zip(means, lines, strict=True):
            if not math.isfinite(mean) or not math.isclose(mean, math.fsum(system) / len(system), abs_tol=1e-4):
                raise self._illegible(f"{mean} as the mean of lines whose mean is {math.fsum(system) / len(system)}")
        return CometLines(lines, "|".join(f"{name}:{value}" for name, value in fields.items()))

    def _named(self) -> str:
        """Returns the model's name; of a checkpoint its file's or folder's, since paths differ between machines."""
        return Path(self.comet_model).resolve().name if Path(self.comet_model).exists() else self.comet_model

    @property
    def _python_named(self) -> str:
        """Returns the option with its path as a message has it: whole, as far as paths may be long."""
        return argument("comet", Path(self.comet))

    @property
    def _model_named(self) -> str:
        return argument("comet_model", Path(self.comet_model))

    def _ask(self, question: dict[str, Any], references: Sequence[Sequence[str]] = ()) -> dict[str, Any]:
        """Returns what the program answers to a question. Raises what score() does."""
        question = question | {
            "model": self.comet_model, "checkpoint": self._checkpoint(), "download": self.comet_download,
            "device": self.device, "threads": self.threads,
        }  # fmt: skip
        found = self._run(question)
        if "failure" in found:
            raise PellucidError(
                f"COMET in {self._python_named} failed: {shown(found['failure'])}",
                f"try the model in that environment by itself: `{shown(Path(self.comet))} -c 'import comet'` says more",
            )
        refusal = str(found.get("refusal", ""))
        if refusal.startswith("no ") and refusal != "no COMET model":
            raise ConfigError(
                f"{self._python_named} has no package `{shown(refusal[3:])}`",
                f"install it there: `{shown(Path(self.comet))} -m pip install unbabel-comet`, or name another "
                "environment's",
            )
        if refusal == "not here":
            raise ConfigError(
                f"the model {self._model_named} is not in the cache of Hugging Face's hub",
                "allow its download, a few gigabytes, with `comet_download=True`, or name a checkpoint's path",
            )
        if refusal == "no COMET model":
            raise ConfigError(
                f"{self._model_named} has no checkpoints/model.ckpt, as models of COMET do",
                "check the name on Hugging Face's hub",
            )
        if refusal == "references":
            raise ConfigError(
                f"{self._model_named} needs one set of references, not {len(references)}",
                "give `ref=` once, or name a model that reads none, as Unbabel/wmt22-cometkiwi-da",
            )
        return found

    def _checkpoint(self) -> str | None:
        """Returns the checkpoint that a path means; None for a name. Raises ConfigError where there is none."""
        path = Path(self.comet_model)
        if path.is_dir():
            path /= "checkpoints/model.ckpt"
        if path.is_file():
            if not (path.resolve().parents[1] / "hparams.yaml").is_file():
                raise ConfigError(
                    f"beside the checkpoint `{shown(path)}` there is no hparams.yaml, one folder above it",
                    "copy the whole folder that COMET's training wrote, or that was downloaded",
                )
            return str(path.resolve())
        if Path(self.comet_model).exists() or path.suffix == ".ckpt" or self.comet_model.count("/") != 1:
            raise ConfigError(
                f"{self._model_named} is no checkpoint: there is no file `{shown(path)}`",
                f"name a checkpoint, the folder above its `checkpoints`, or a model on the hub, as {WMT22}",
            )
        return None

    def _program(self) -> str:
        """Returns the path of the environment's Python. Raises ConfigError where it cannot be run."""
        found = shutil.which(self.comet)
        if found is not None:
            return str(Path(found).absolute())
        path = Path(self.comet)
        wrong = "is a folder" if path.is_dir() else "is not executable" if path.exists() else "does not exist"
        inside = path / "bin" / "python"
        raise ConfigError(
            f"{self._python_named} {wrong}",
            f"name its Python: {shown(inside)}"
            if inside.exists()
            else "name the Python of an environment that has unbabel-comet, as comet-env/bin/python",
        )

    def _run(self, question: dict[str, Any]) -> dict[str, Any]:
        """Runs the program on a question and returns its answer. Raises ConfigError or PellucidError for none."""
        # -I: neither PYTHONPATH nor this folder is for that Python, which might find other packages there.
        command = [self._program(), "-I", str(Path(comet_script.__file__).absolute())]
        environment = dict(os.environ) | {"HF_HUB_DISABLE_TELEMETRY": "1"}
        if not self.comet_download:
            environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        most = _MOST_PRINTED + 64 * sum(map(len, question.get("systems", ())))
        with TemporaryDirectory(prefix="pellucid-comet-") as folder:
            asked, answer, said = (Path(folder, name) for name in ("question", "answer", "said"))
            asked.write_text(json.dumps(question), encoding="ascii")
            # Files, not pipes: nothing waits for a reader, whatever is printed.
            with asked.open("rb") as stdin, answer.open("wb") as stdout, said.open("wb") as stderr:
                try:
                    process = subprocess.Popen(
                        command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=environment,
                        start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    raise ConfigError(
                        f"{self._python_named} cannot be run: {error.strerror}",
                        "name the Python of an environment that has unbabel-comet",
                    ) from error
                try:
                    self._wait(process, (answer, said), most)
                finally:
                    _end(process)
            return self._read(answer, said, process.returncode)

    def _wait(self, process: "subprocess.Popen[bytes]", printed: Sequence[Path], most: int) -> None:
        """Waits for the program's end. Raises PellucidError where it takes too long, or prints without end."""
        end = time.monotonic() + self.comet_timeout
        while True:
            try:
                process.wait(_LOOK)
                return
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() > end:
                raise PellucidError(
                    f"{self._python_named} gave no answer within {self.comet_timeout:g} seconds",
                    "allow more by `comet_timeout=`, or take a smaller model or a GPU",
                )
            if (size := max(path.stat().st_size for path in printed)) > most:
                raise self._illegible(f"{size:,} bytes")

    def _read(self, answer: Path, said: Path, status: int) -> dict[str, Any]:
        """Returns the answer. Raises PellucidError where there is none, with what the program said last."""
        text = answer.read_bytes().decode("utf-8", "replace")
        begin = text.rfind(comet_script.MARK)
        if begin < 0:
            if status:
                words = said.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
                ended = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
                raise PellucidError(
                    f"{self._python_named} {ended}, without an answer"
                    + (f"; it last said: {shown(words[-1])}" if words else ""),
                    "name the Python of an environment that has unbabel-comet, with enough memory for its model",
                )
            raise self._illegible(text)
        try:
            found = json.loads(text[begin + len(comet_script.MARK) :].partition("\n")[0])
        except ValueError as error:
            raise self._illegible(text[begin:]) from error
        if not isinstance(found, dict):
            raise self._illegible(text[begin:])
        return found

    def _illegible(self, said: str) -> PellucidError:
        return PellucidError(
            f"{self._python_named} answered what cannot be read: {shown(said.strip()) or 'nothing'}",
            "name the Python of an environment that has unbabel-comet, version 2 or later",
        )


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a program and all that it started, where it has not ended."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own
    process.wait()


class _Mean(NamedTuple):
    """The mean of lines' scores, from the sums of _counted()."""

    score: float = 0.0

    def _compute_score_from_stats(self, stats: Sequence[float]) -> "_Mean":
        return _Mean(float(stats[0]) / _GRID / float(stats[1]))


def _counted(lines: Sequence[float]) -> np.ndarray:
    """Returns the score of each line on the grid, and 1; (lines, 2)."""
    return np.stack([np.rint(np.asarray(lines, dtype=float) * _GRID), np.ones(len(lines))], axis=1)


def comet_score(lines: Sequence[float], signature: str, *, resamples: int = 1000, seed: int = 12345) -> CometScore:
    """Returns the score of a corpus, from those of its lines, with the interval that the other scores have.

    Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation" (2004), for the bootstrap.
    """
    counted = _counted(lines)
    return CometScore(
        score=_Mean()._compute_score_from_stats(counted.sum(axis=0)).score,
        interval=middle(bootstrap(_Mean(), counted, resamples, seed)),
        lines=tuple(lines),
        signature=signature,
    )


def compare_comet(
    a: Sequence[float],
    b: Sequence[float],
    signature: str,
    *,
    resamples: int = 1000,
    trials: int = 10_000,
    seed: int = 12345,
) -> Difference:
    """Returns the difference between two systems, from the scores of their lines, tested as the other scores are.

    Sources: those of compare_outputs().
    """
    counted = [_counted(lines) for lines in (a, b)]
    scores = [_Mean()._compute_score_from_stats(counts.sum(axis=0)).score for counts in counted]
    drawn = [bootstrap(_Mean(), counts, resamples, seed) for counts in counted]
    return Difference(
        a=scores[0],
        a_interval=middle(drawn[0]),
        b=scores[1],
        b_interval=middle(drawn[1]),
        difference=scores[0] - scores[1],
        difference_interval=middle(drawn[0] - drawn[1]),
        p_value=randomization_p(_Mean(), counted[1], counted[0], trials, seed),
        signature=f"{signature}|ar:{trials}|bs:{resamples}|seed:{seed}",
    )


def difference_report(d: Difference) -> str:
    """Returns a table of a comparison by COMET for a terminal."""
    a, b = (f"{score:6.4f}  {bracket(ends, '6.4f')}" for score, ends in ((d.a, d.a_interval), (d.b, d.b_interval)))
    difference = f"{d.difference:+6.4f}  {bracket(d.difference_interval, '+6.4f')}"
    header = f"{'':<7}{'A':<26}{'B':<26}{'A - B':<28}p"
    return f"{header}\nCOMET  {a:<26}{b:<26}{difference:<28}{d.p_value:.4f}\nCOMET  {d.signature}"
