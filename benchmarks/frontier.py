"""Claim: a student within half a BLEU of its teacher is at least 3 times as fast, in at most a third of its bytes.

    python benchmarks/frontier.py TEACHER STUDENT [STUDENT ...] --src test.de --ref test.en --picture frontier.svg
    python benchmarks/frontier.py TEACHER STUDENT --ensemble TEACHER-2 TEACHER-3 --src test.de --ref test.en

Model folders, from the teacher to the smallest: of each the bytes of its weights, sentences a second with a beam of 5
and greedily, and BLEU with its 95 % interval; of each student, beside the teacher, the difference of BLEU by paired
bootstrap with its p, and how many times as fast it is. A time is that of `Translator.translate`, tokenization included,
on all sentences. The models take turns, each round another first, and a ratio is of one round. Engines are Pellucid's
own in float32 and, where `Translator.load` knows it and it is installed, CTranslate2 in int8, which has no ensemble:
with one as the teacher its students stand there by themselves.

The picture has a chart for each engine and beam, BLEU against sentences a second, and one against megabytes: a dot a
model, between the ends of its interval. JSON goes to standard output, a table to standard error.
"""

import argparse
import inspect
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from report import circumstances, format_times, matrix_peak, positive, print_json, refusals_in_words, summarize_times

from pellucid.data.lines import read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.comparison import compare_outputs
from pellucid.evaluation.scores import score_corpus
from pellucid.process import keep_freed_memory
from pellucid.tasks.translator import Translator
from pellucid.views.canvas.chart import Panel, Series, draw_panel
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing
from pellucid.weights import to_ctranslate2

ENGINES: Mapping[str, Mapping[str, Any]] = {
    "pellucid float32": {"dtype": "float32"},
    "ctranslate2 int8": {"engine": "ctranslate2", "dtype": "int8"},
}
"""How `Translator.load` opens a model for each engine."""
WARM_UP = 64
GAP = 18.0
TRIALS, RESAMPLES = 10_000, 1_000


@dataclass
class Case:
    """A model in an engine with a beam, and what was measured of it."""

    model: str
    engine: str
    beam_size: int
    translator: Any
    outputs: list[str]
    seconds: list[float]

    def translate(self, sources: Sequence[str]) -> float:
        """Translates, and returns the seconds that it took."""
        started = time.perf_counter()
        found = self.translator.translate(sources, beam_size=self.beam_size)
        taken = time.perf_counter() - started
        self.outputs = [translation.text for translation in found]
        return taken


def engines_here() -> list[str]:
    """The engines that this version knows and this machine has."""
    others = "engine" in inspect.signature(Translator.load).parameters and find_spec("ctranslate2") is not None
    return list(ENGINES) if others else list(ENGINES)[:1]


def names_of(folders: Sequence[Path]) -> list[str]:
    """What the models are called: their folders. Raises ConfigError where two would be called alike."""
    names = [folder.absolute().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"`{repeated}` is named twice", "name each model once")
    return names


def bytes_of(folder: Path, engine: str) -> int:
    """The size of the weights as the engine reads them: the folder's own, or those of the int8 conversion."""
    if engine == "pellucid float32":
        weights = [*folder.glob("*.safetensors")] or [*folder.glob("pytorch_model*.bin")]
        return sum(path.stat().st_size for path in weights)
    translator = Translator.load(folder, "cpu", "float32")
    with tempfile.TemporaryDirectory() as temporary:
        return (to_ctranslate2(translator.model, None, Path(temporary) / "ct2", "int8") / "model.bin").stat().st_size


def measure(cases: Sequence[Case], sources: Sequence[str], rounds: int) -> list[float]:
    """Has the cases take turns; returns the peak of the machine in each round, in GFLOP/s."""
    for case in cases:
        case.translate(sources[:WARM_UP])
    peaks = []
    for number in range(rounds):
        peaks.append(matrix_peak() / 1e9)
        start = number % len(cases)
        for case in (*cases[start:], *cases[:start]):
            case.seconds.append(case.translate(sources))
            print(
                f"round {number + 1}: {case.model}, {case.engine}, beam {case.beam_size}: "
                f"{len(sources) / case.seconds[-1]:,.1f} sentences/s",
                file=sys.stderr,
            )
    return peaks


def row_of(case: Case, teacher: Case | None, sizes: Mapping[tuple[str, str], int], test: tuple[list[str], list[str]],
           quick: bool) -> dict[str, Any]:  # fmt: skip
    """Returns speed, size and BLEU of a case, beside the teacher's in the same engine and beam, where it has those."""
    sources, references = test
    resamples = 100 if quick else RESAMPLES
    scores = score_corpus(case.outputs, references, resamples=resamples)
    row: dict[str, Any] = {
        "model": case.model,
        "engine": case.engine,
        "beam_size": case.beam_size,
        "bytes": sizes[case.model, case.engine],
        "sentences_per_second": summarize_times([len(sources) / seconds for seconds in case.seconds]),
        "seconds": case.seconds,
        "bleu": scores.bleu,
        "bleu_interval": scores.bleu_interval,
        "signature": scores.signature,
    }
    if teacher is not None and case is not teacher:
        found = compare_outputs(
            case.outputs, teacher.outputs, references, resamples=resamples, trials=100 if quick else TRIALS
        ).bleu
        row |= {
            "bleu_difference": found.difference,
            "bleu_difference_interval": found.difference_interval,
            "p_value": found.p_value,
            "times_as_fast": summarize_times([a / b for a, b in zip(teacher.seconds, case.seconds, strict=True)]),
            "share_of_bytes": round(row["bytes"] / sizes[teacher.model, teacher.engine], 4),
        }
    return row


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table for the reader."""
    names = ["model", "engine", "beam", "MB", "sentences/s", "BLEU", "to the teacher: BLEU", "p", "speed", "bytes"]
    lines = [names, ["---"] * len(names)]
    for row in rows:
        beside = ["", "", "", ""]
        if "p_value" in row:
            beside = [
                f"{row['bleu_difference']:+.2f} {_interval(row['bleu_difference_interval'], '+.2f')}",
                f"{row['p_value']:.4f}", f"{format_times(row['times_as_fast'])} x", f"{row['share_of_bytes']:.2f} x",
            ]  # fmt: skip
        bleu = f"{row['bleu']:.2f} {_interval(row['bleu_interval'], '.2f')}"
        speed, size = format_times(row["sentences_per_second"]), f"{row['bytes'] / 1e6:.2f}"
        lines.append([row["model"], row["engine"], str(row["beam_size"]), size, speed, bleu, *beside])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _interval(ends: Sequence[float], form: str) -> str:
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"


def draw(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """BLEU against speed, a chart for each engine and beam, and against size."""

    def panel(title: str, unit: str, points: Sequence[tuple[Mapping[str, Any], float]]) -> Panel:
        lines = []
        for row, place in points:
            low, high = row["bleu_interval"]
            lines.append(Series(row["model"], np.full(3, place), np.array([low, row["bleu"], high]), dots=True))
        return Panel(title, unit, tuple(lines))

    cases = list(dict.fromkeys((row["engine"], row["beam_size"]) for row in rows))
    panels = []
    for engine, beam_size in cases:
        own = [row for row in rows if (row["engine"], row["beam_size"]) == (engine, beam_size)]
        search = "greedy" if beam_size == 1 else f"beam of {beam_size}"
        speeds = [(row, row["sentences_per_second"]["median"]) for row in own]
        panels.append(panel(f"BLEU: {engine}, {search}", "sentences a second", speeds))
        if (engine, beam_size) == cases[0]:
            panels.append(panel(f"BLEU: {engine}, {search}", "megabytes", [(row, row["bytes"] / 1e6) for row in own]))
    said = "; ".join(
        f"{row['model']} ({row['engine']}, beam {row['beam_size']}): BLEU {row['bleu']:.2f}, "
        f"{row['sentences_per_second']['median']:,.0f} sentences a second, {row['bytes'] / 1e6:.2f} MB"
        for row in rows
    )
    drawing = Drawing("From teacher to student", f"Charts of BLEU against speed and size. {said}.")
    share = (PAGE - 2 * MARGIN - GAP) / 2
    y = drawing.add_heading(drawing.title, "a dot between the ends of its 95 % interval", PAGE) + 4
    for first in range(0, len(panels), 2):
        line = panels[first : first + 2]
        y = 8 + max(draw_panel(drawing, p, MARGIN + n * (share + GAP), y, share) for n, p in enumerate(line))
    return drawing.finish(None)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Opens, measures, scores, draws."""
    limit = 100 if args.quick else None
    test = list(read_lines(args.src))[:limit], list(read_lines(args.ref))[:limit]
    if len(test[0]) != len(test[1]):
        raise DataError(
            f"`{args.src}` has {len(test[0]):,} lines, `{args.ref}` {len(test[1]):,}", "give a reference for each line"
        )
    names, cases, sizes = names_of([*args.models, *args.ensemble]), list[Case](), dict[tuple[str, str], int]()
    single = len(args.models)
    teacher = " + ".join([names[0], *names[single:]])
    for engine in engines_here():
        for name, folder in zip([teacher, *names[1:single]], args.models, strict=True):
            further: dict[str, Any] = {}
            if name == teacher and args.ensemble:
                if "engine" in ENGINES[engine]:
                    continue
                further["ensemble"] = args.ensemble
            translator = Translator.load(folder, "cpu", **ENGINES[engine], **further)
            sizes[name, engine] = sum(bytes_of(each, engine) for each in [folder, *further.get("ensemble", ())])
            cases += [Case(name, engine, beam_size, translator, [], []) for beam_size in args.beams]
    peaks = measure(cases, test[0], args.rounds)
    teachers = {(case.engine, case.beam_size): case for case in cases if case.model == teacher}
    rows = [row_of(case, teachers.get((case.engine, case.beam_size)), sizes, test, args.quick) for case in cases]
    print(f"\n{markdown(rows)}", file=sys.stderr)
    if args.picture:
        drawing = draw(rows)
        (drawing.png if args.picture.suffix == ".png" else drawing.svg)(args.picture)
    return {"sentences": len(test[0]), "peak_gflops": summarize_times(peaks), "cases": rows}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures; JSON on standard output, the rest on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="+", type=Path, metavar="MODEL", help="folders, from the teacher to the smallest"
    )
    parser.add_argument(
        "--ensemble", nargs="+", type=Path, default=[], metavar="MODEL", help="teachers that write with the first one"
    )
    parser.add_argument("--src", required=True, help="sentences to translate, one a line")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--beams", type=positive, nargs="+", default=[5, 1], metavar="N", help="beam sizes")
    parser.add_argument("--rounds", type=positive, default=3, help="how often each is measured")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draws the charts: .svg or .png")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="100 sentences and few resamples, a trial of the script")
    args = parser.parse_args(argv)
    if args.picture and args.picture.suffix not in (".svg", ".png"):
        raise ConfigError(f"`{args.picture}` is neither .svg nor .png", "name a picture of one of these kinds")
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    table = run(args)
    packages = ("ctranslate2",) if len(engines_here()) > 1 else ()
    print_json(circumstances(__file__, argv, ("sacrebleu", *packages)) | table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
