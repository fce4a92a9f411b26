"""Claim: probabilities of words, fitted on validation, hold on other text; planted faults are told from clean lines.

    python benchmarks/confidence.py RUN --src val.de.gz --ref val.en.gz    (one half of the lines for the other)
    python benchmarks/confidence.py RUN --src val.de.gz --ref val.en.gz --test-src test.de.gz --test-ref test.en.gz

A word of a translation is right where the reference has it at its place, by the alignment with the fewest edits and no
shifts. The calibration is fitted on --src and --ref as `pellucid calibrate` fits it. On the test is measured: the
expected calibration error of words in 15 bins of equal width and in 15 of equal mass; that of lines, the expected share
of right words against the share; the area under the ROC curve of right words against wrong ones. Each is measured of
the model's own probabilities, too.

Planted, by seed 1: a loop is a translation in which a run of one to five words stands three to eight times more; a
copy is the source in place of its translation; half a copy ends in the source's second half; a mismatch is the
translation, or the reference, of another line; a dropped clause is a third of the words of a translation, deleted
from lines of nine words or more. Each kind's score is that of its guard: words that repeat, the share of words
copied, the log-probability a token with the minus sign, the share of the source's words without attention. The
negatives are the same lines with nothing planted. "flagged" is the share that carries the kind's flag at its
threshold, "clean_flagged" that of the clean lines. "together" has all kinds in equal shares, and sources in Greek
letters and with a number that they alone have: the score of a line is the largest share of the clean lines, over the
guards, whose score is lower. "by_guards" is the area of each kind by this score.
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report import circumstances, print_json, refusals_in_words

from pellucid.data.lines import read_pairs
from pellucid.errors import ConfigError
from pellucid.evaluation.calibration import Floats, area_under_curve, calibration_error
from pellucid.process import keep_freed_memory
from pellucid.tasks.coverage import find_coverage_flag, find_uncovered
from pellucid.tasks.fit_calibration import LabelledWords, calibrate, label_words
from pellucid.tasks.guards import SourceGuard
from pellucid.tasks.quality_flags import beyond_source, find_changed_numbers, find_flags, measure_copying
from pellucid.tasks.translation import Sentence, Translation
from pellucid.tasks.translator import Translator

Pairs = list[tuple[str, str]]
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyzäöü", "αβκδεφγηιθκλμνοπψρστυβωξυζαωυ")


def words_measured(words: LabelledWords, probabilities: Floats) -> dict[str, float]:
    """How right probabilities are, of words and of lines."""
    lines = np.unique(words.lines)
    means = [
        np.array([values[words.lines == line].mean() for line in lines]) for values in (probabilities, words.right)
    ]
    return {
        "ece": calibration_error(probabilities, words.right),
        "ece_equal_mass": calibration_error(probabilities, words.right, equal_mass=True),
        "ece_of_lines": calibration_error(*means),
        "auroc": area_under_curve(probabilities[words.right], probabilities[~words.right]),
    }


def looped(line: str, draw: random.Random) -> str:
    """The line with a run of its words repeated."""
    words = line.split()
    size = draw.randint(1, min(5, len(words)))
    start = draw.randint(0, len(words) - size)
    return " ".join([*words[: start + size], *words[start : start + size] * draw.randint(3, 8), *words[start + size :]])


def half_copied(source: str, line: str) -> str:
    """The first half of a translation, and the second one of its source."""
    words, of_source = line.split(), source.split()
    return " ".join([*words[: len(words) // 2], *of_source[len(of_source) // 2 :]])


def deranged(count: int, draw: random.Random) -> list[int]:
    """Another line's number for each line."""
    order = draw.sample(range(count), count)
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [following[number] for number in range(count)]


def dropped(line: str, draw: random.Random) -> str:
    """The line without a run of a third of its words; empty if it has too few."""
    words = line.split()
    size = max(3, len(words) // 3)
    start = draw.randint(1, max(1, len(words) - size))
    return " ".join([*words[:start], *words[start + size :]]) if len(words) >= 3 * 3 else ""


def measure_coverage(translator: Translator, sources: Sequence[str], lines: Sequence[str]) -> list[tuple[float, bool]]:
    """The share of the words of each source without attention, and True if the line is flagged."""
    found, decode = [], translator.configure()
    pairs = zip(sources, lines, *translator.segmenter.encode_pairs(sources, lines), strict=True)
    whole = [
        Translation(line, 0.0, [], sentences=[Sentence(source, line, 0.0, len(src), [(src, tgt)])])
        for source, line, src, tgt in pairs
    ]
    alignments = translator.aligner.align_all(list(zip(sources, whole, strict=True)), decode)
    for source, line, alignment in zip(sources, lines, alignments, strict=True):
        words = sum(any(map(str.isalnum, source[a:b])) for part in alignment.parts for a, b in part.sources)
        share = len(find_uncovered(source, line, alignment)) / max(1, words)
        found.append((share, find_coverage_flag(source, line, alignment) is not None))
    return found


def measure_together(
    translator: Translator, sources: Sequence[str], outputs: Sequence[str], refs: Sequence[str]
) -> dict[str, Any]:
    """The area under the ROC curve of all planted faults by all guards, and of each kind by all guards."""
    draw, count = random.Random(2), len(sources)
    other, guard = deranged(count, draw), SourceGuard.from_text(translator.tokenizers.source, translator.text)
    greek = [source.translate(GREEK) for source in sources]
    cut = [(source, dropped(line, draw)) for source, line in zip(sources, outputs, strict=True)]
    kinds = {
        "clean": list(zip(sources, outputs, strict=True)),
        "loops": [(source, looped(line, draw)) for source, line in zip(sources, outputs, strict=True)],
        "copies": list(zip(sources, sources, strict=True)),
        "half copies": list(zip(sources, map(half_copied, sources, outputs), strict=True)),
        "wrong letters": list(zip(greek, outputs, strict=True)),
        "mismatched translations": [(sources[n], outputs[other[n]]) for n in range(count)],
        "mismatched references": [(sources[n], refs[other[n]]) for n in range(count)],
        "lost numbers": [(f"37 {source}", line) for source, line in zip(sources, outputs, strict=True)],
        "dropped clauses": [pair for pair in cut if pair[1]],
    }
    scores = {}
    for name, pairs in kinds.items():
        lines = [source for source, _ in pairs], [line for _, line in pairs]
        scored = translator.score_sequences(*lines, confidence=True)
        probable = [0.0 if one.confidence is None else one.confidence.log_probability or 0.0 for one in scored]
        covered = [share for share, _ in measure_coverage(translator, *lines)]
        read = translator.tokenizers.source.encode_lines(lines[0])
        scores[name] = np.array(
            [
                [beyond_source(*pair), measure_copying(*pair)[0], float(guard.find_flag(pair[0], ids) is not None),
                 float(len(find_changed_numbers(*pair)[0])), -probability, share]
                for pair, ids, probability, share in zip(pairs, read, probable, covered, strict=True)
            ],
            dtype=float,
        )  # fmt: skip
    ranked = np.sort(scores["clean"], axis=0)
    ranks = {
        name: np.max([np.searchsorted(ranked[:, n], rows[:, n]) / count for n in range(rows.shape[1])], axis=0)
        for name, rows in scores.items()
    }
    clean = ranks.pop("clean")
    fewest = min(map(len, ranks.values()))
    return {
        "together": area_under_curve(np.concatenate([rows[:fewest] for rows in ranks.values()]), clean),
        "by_guards": {name: area_under_curve(rows, clean) for name, rows in ranks.items()},
    }


def planted(translator: Translator, pairs: Pairs, outputs: Sequence[str]) -> dict[str, dict[str, float]]:
    """The guards on faults that were planted, and on the lines without them."""
    draw = random.Random(1)
    kept = [(source, output, ref) for (source, ref), output in zip(pairs, outputs, strict=True) if output and ref]
    sources, outputs, refs = ([row[column] for row in kept] for column in range(3))
    other = deranged(len(sources), draw)

    def measured(name: str, score: Callable[[str, str], float], lines: Sequence[str]) -> dict[str, float]:
        scores, flagged = [], []
        for texts in (lines, outputs):
            both = list(zip(sources, texts, strict=True))
            scores.append([score(*pair) for pair in both])
            flags = [find_flags(*pair, (1, 1), None, translator.calibration) for pair in both]
            flagged.append(np.mean([any(flag.name == name for flag in of_pair) for of_pair in flags]))
        return {"auroc": area_under_curve(*scores), "flagged": float(flagged[0]), "clean_flagged": float(flagged[1])}

    def mismatched(texts: Sequence[str]) -> dict[str, float]:
        scores, flagged = [], []
        for lines in ([texts[number] for number in other], texts):
            found = [scored.confidence for scored in translator.score_sequences(sources, lines, confidence=True)]
            scores.append([-one.log_probability for one in found if one and one.log_probability is not None])
            flags = [one.flags if one else [] for one in found]
            flagged.append(float(np.mean([any(flag.name == "mismatch" for flag in of_pair) for of_pair in flags])))
        return {"auroc": area_under_curve(*scores), "flagged": flagged[0], "clean_flagged": flagged[1]}

    def incomplete() -> dict[str, float]:
        lines = [(source, line) for source, line in zip(sources, outputs, strict=True) if len(line.split()) >= 3 * 3]
        both = [
            measure_coverage(translator, [s for s, _ in lines], [cut(line) for _, line in lines])
            for cut in (lambda line: dropped(line, draw), lambda line: line)
        ]
        flagged = [float(np.mean([flag for _, flag in rows])) for rows in both]
        scores = ([share for share, _ in rows] for rows in both)
        return {"auroc": area_under_curve(*scores), "flagged": flagged[0], "clean_flagged": flagged[1]}

    return {
        "loops": measured("loop", beyond_source, [looped(line, draw) for line in outputs]),
        "copies": measured("copy", lambda s, t: measure_copying(s, t)[0], sources),
        "half copies": measured(
            "copy", lambda s, t: measure_copying(s, t)[0], list(map(half_copied, sources, outputs))
        ),
        "mismatched translations": mismatched(outputs),
        "mismatched references": mismatched(refs),
        **({} if translator.aligning_head is None else {"dropped clauses": incomplete()}),
    }


def measure(translator: Translator, fitted_on: Pairs, test: Pairs) -> dict[str, Any]:
    """Fits on some pairs and measures on others."""
    translator.calibration = calibrate(translator, [s for s, _ in fitted_on], [t for _, t in fitted_on], "")
    translations = translator.translate([source for source, _ in test])
    words = label_words(translator, translations, [reference for _, reference in test])
    return {
        "fitted_on_lines": len(fitted_on),
        "lines": len(test),
        "words": len(words.right),
        "right": float(words.right.mean()),
        "before": words_measured(words, words.probabilities),
        "calibrated": words_measured(words, translator.calibration.probabilities(words.features)),
        "together": measure_together(
            translator,
            *zip(
                *[(s, one.text, ref) for (s, ref), one in zip(test, translations, strict=True) if one.text and ref],
                strict=True,
            ),
        ),
        "planted": planted(translator, test, [translation.text for translation in translations]),
    }


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures one model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder or a model folder")
    parser.add_argument("--src", required=True, help="the sources that it is fitted on")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--test-src", help="the sources that it is measured on; else halves of --src")
    parser.add_argument("--test-ref", help="their references")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(argv)
    if (options.test_src is None) != (options.test_ref is None):
        raise ConfigError("--test-src and --test-ref go together, and one of them is missing", "give both, or neither")
    keep_freed_memory()
    translator = Translator.load(options.run, options.device)
    pairs = list(read_pairs(options.src, options.ref))
    if options.test_src is None:
        halves = pairs[::2], pairs[1::2]
        found = [measure(translator, *halves), measure(translator, *halves[::-1])]
    else:
        found = [measure(translator, pairs, list(read_pairs(options.test_src, options.test_ref)))]
    for one in found:
        for name in ("before", "calibrated"):
            print(name, {key: round(value, 4) for key, value in one[name].items()}, file=sys.stderr)
        print(f"together: {one['together']}", file=sys.stderr)
        for name, row in one["planted"].items():
            print(f"{name}: { ({key: round(value, 4) for key, value in row.items()}) }", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacrebleu"]) | {"run": str(options.run), "measured": found})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
