"""Claim: occlusion and direct attribution tell which word a word came from; gradients do so far less often.

    python benchmarks/attribution_methods.py --dates pellucid-demo/run --multi30k RUN --data-dir DATA > attribution.json
    python benchmarks/attribution_methods.py --dates pellucid-demo/run --sentences 20    (a trial of seconds)

Each method gives a number for each pair of what was written and what was read; the place or word with the largest is
its answer. It is right, on dates, where a digit's character lies in the digit's own field (gold by construction, as in
date_alignment.py); on Multi30k, where a word's source word is the one that IBM model 1 links it with (Brown et al.
1993): trained on the training pairs in both directions, eight rounds of EM from even probabilities, links that both
directions agree on. Words without such a link do not count. What was written is the model's own greedy translation, of
a date the right one: a word of a reference that the model would not have written needs no cause.

Methods: attention of all heads and layers, as the step that writes a token has it, and the mean of its heads; the head
that is best on other sentences, by the step that writes or that reads a token; rollout, through both stacks; occlusion;
gradient x input, with its sign and without; integrated gradients from vectors of zeros, positions kept, 16 steps,
likewise; direct attribution. The first sentences choose the head, as many others score all methods. Intervals are 95 %,
by bootstrap over the sentences that score.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from date_alignment import ISO, fields_of
from multi30k_results import TEXTS, languages
from report import circumstances, positive, print_json, refusals_in_words

from pellucid.analysis.contributions import source_contributions
from pellucid.analysis.flow import compute_rollout
from pellucid.analysis.gradients import gradients
from pellucid.analysis.occlusion import occlusion
from pellucid.analysis.replay import Replay
from pellucid.analysis.weights import all_weights, group_tokens_by_word
from pellucid.config import DataConfig
from pellucid.data.dates import split_dates
from pellucid.data.lines import read_lines
from pellucid.data.locate import resolve_paths
from pellucid.demo import HELD_OUT, PAIRS, SEED
from pellucid.errors import DataError
from pellucid.evaluation.scores import compute_interval
from pellucid.run.folder import read_stored_recipe
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace

Floats = npt.NDArray[np.float64]
STEPS, ROUNDS, RESAMPLES = 16, 8, 1000
WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Case:
    """A translation, the units of its source, and the right ones of what was written."""

    trace: Trace
    rows: list[list[int]]
    """The places of each unit that was written: a digit, a word."""
    units: list[list[int]]
    """Those of each unit that was read: a character, a word."""
    right: list[set[int]]
    """Of each unit that was written the units that are right."""


def merged(case: Case, values: npt.NDArray[Any], absolute: bool = False, later: int = 0) -> Floats:
    """Sums (..., T, S) over the places of a unit that was read, takes the mean over those of one that was written."""
    summed = np.stack([values[..., unit].sum(axis=-1) for unit in case.units], axis=-1)
    summed = np.abs(summed) if absolute else summed
    last = values.shape[-2] - 1
    rows = [summed[..., [min(place + later, last) for place in places], :].mean(axis=-2) for places in case.rows]
    found: Floats = np.stack(rows, axis=-2)
    return found


def heads_of(case: Case) -> dict[str, Floats]:
    """What each head of cross-attention says, (rows, units), by the step that writes and the one that reads."""
    weights, found = all_weights(case.trace["cross"]), dict[str, Floats]()
    for later, step in enumerate(("writes", "reads")):
        for layer, heads in enumerate(merged(case, weights, later=later)):
            found |= {f"layer {layer} head {head}, {step}": values for head, values in enumerate(heads)}
    return found


def methods_of(translator: Translator, case: Case) -> dict[str, Floats]:
    """What each other method says, (rows, units)."""
    replay, trace = Replay(translator, case.trace), case.trace
    gradient, integrated = gradients(replay).numpy(), gradients(replay, STEPS).numpy()
    hidden = occlusion(replay, case.units)  # (T, units)
    return {
        "attention, mean": merged(case, all_weights(trace["cross"]).mean(axis=(0, 1))),
        "rollout": merged(case, compute_rollout(trace)["cross"][-1]),
        "occlusion": np.stack([hidden[places].mean(axis=0) for places in case.rows]),
        "gradient x input": merged(case, gradient),
        "gradient x input, absolute": merged(case, gradient, absolute=True),
        "integrated gradients": merged(case, integrated),
        "integrated gradients, absolute": merged(case, integrated, absolute=True),
        "direct attribution": merged(case, source_contributions(replay).numpy()),
    }


def hits(case: Case, values: Floats) -> tuple[int, int]:
    """How many units that were written have a right answer, and of how many."""
    asked = [row for row, right in enumerate(case.right) if right]
    return sum(int(values[row].argmax()) in case.right[row] for row in asked), len(asked)


def compared(translator: Translator, cases: Sequence[Case], log_line: Callable[[str], object]) -> dict[str, Any]:
    """Each method's share of right answers on the second half of the cases; the head is that of the first half."""
    half = len(cases) // 2
    chosen: Counter[str] = Counter()
    for case in cases[:half]:
        chosen.update({name: hits(case, values)[0] for name, values in heads_of(case).items()})
    best = max(chosen, key=lambda name: chosen[name])
    counts: list[dict[str, tuple[int, int]]] = []
    for number, case in enumerate(cases[half:], start=1):
        values = {"best head": heads_of(case)[best], **methods_of(translator, case)}
        counts.append({name: hits(case, found) for name, found in values.items()})
        if number % 50 == 0:
            log_line(f"{number} of {len(cases) - half}")
    even = [1 / len(counts)] * len(counts)
    draws = np.random.default_rng(1).multinomial(len(counts), even, RESAMPLES)
    methods = {}
    for name in counts[0]:
        right, asked = np.array([found[name] for found in counts], np.float64).T
        low, high = compute_interval((draws @ right) / np.maximum(draws @ asked, 1))
        share = float(right.sum() / max(asked.sum(), 1))
        methods[name] = {"right": round(share, 4), "low": round(low, 4), "high": round(high, 4), "of": int(asked.sum())}
        log_line(f"{name:<32}{share:.3f} [{low:.3f}, {high:.3f}]")
    log_line(f"best head: {best}")
    return {"choosing": half, "scoring": len(counts), "best_head": best, "methods": methods}


def dates(translator: Translator, count: int) -> list[Case]:
    """Dates that the demo holds out, in characters, with the fields of their digits."""
    cases = []
    for written, iso in split_dates(PAIRS, SEED, HELD_OUT)[1][:count]:
        trace, fields = translator.trace(written, iso), fields_of(written, iso)
        src, out = ([p for p, t in enumerate(trace.sequences[side]) if not t.special] for side in ("src", "out"))
        if (len(src), len(out)) != (len(fields), len(ISO)):
            raise ValueError("the model's tokens are not the characters of its text")
        right = [{i for i, of in enumerate(fields) if field is not None and of == field} for field in ISO]
        cases.append(Case(trace, [[place] for place in out], [[place] for place in src], right))
    return cases


def multi30k(translator: Translator, sides: tuple[str, str], data_dir: str | None, count: int) -> list[Case]:
    """Sentences of the test set, in words, with the links of IBM model 1 between them and what the model writes."""
    train, test = (
        resolve_paths(DataConfig(src=f"multi30k/{name}.{sides[0]}.gz", tgt=f"multi30k/{name}.{sides[1]}.gz"), data_dir)
        for name in ("train", TEXTS[0])
    )
    source, target = ([words(line) for line in read_lines(str(file))] for file in (train.src, train.tgt))
    model = Links(source, target)
    cases = []
    for line in list(read_lines(str(test.src)))[:count]:
        trace = translator.trace(line, beam_size=1)
        units, rows = ([g for g in group_tokens_by_word(trace.sequences[side])
            if not trace.sequences[side][g[0]].special]
                       for side in ("src", "out"))  # fmt: skip
        if not (units and rows):
            continue  # nothing was written
        src, out = (
            ["".join(trace.sequences[side][place].text_in_word for place in group).strip().lower() for group in groups]
            for side, groups in (("src", units), ("out", rows))
        )
        links = model.of(src, out)
        cases.append(Case(trace, rows, units, [{i for i, t in links if t == j} for j in range(len(out))]))
    return cases


def words(line: str) -> list[str]:
    """The words and marks of a line, lower-cased."""
    return WORD.findall(line.lower())


class Links:
    """IBM model 1 in both directions, and the links that both agree on."""

    def __init__(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], rounds: int = ROUNDS
    ) -> None:
        self.forward = probabilities(sources, targets, rounds)
        self.backward = probabilities(targets, sources, rounds)

    def of(self, source: Sequence[str], target: Sequence[str]) -> set[tuple[int, int]]:
        """Links (i, j) of source word i and target word j."""
        there = {(i, j) for j, i in enumerate(best(self.forward, source, target)) if i is not None}
        back = {(i, j) for i, j in enumerate(best(self.backward, target, source)) if j is not None}
        return there & back


def best(table: dict[tuple[str, str], float], given: Sequence[str], made: Sequence[str]) -> list[int | None]:
    """Of each word the place of the word that most probably made it; None: no word, or none that is known to."""
    found: list[int | None] = []
    for word in made:
        values = [table.get((other, word), 0.0) for other in given]
        top = max(values, default=0.0)
        found.append(values.index(top) if top > table.get(("", word), 0.0) else None)
    return found


def probabilities(
    given: Sequence[Sequence[str]], made: Sequence[Sequence[str]], rounds: int
) -> dict[tuple[str, str], float]:
    """t(made | given) by expectation maximisation (Brown et al. 1993, section 4.1); "" stands for no word."""
    of_given, of_made = numbered(given), numbered(made)
    pairs, place, first = [], [], 0
    for source, target in zip(given, made, strict=True):
        s = np.array([0, *(of_given[word] for word in source)])
        t = np.array([of_made[word] for word in target], np.int64)
        pairs.append((s[None] * (len(of_made) + 1) + t[:, None]).ravel())
        place.append(np.repeat(np.arange(first, first + len(t)), len(s)))
        first += len(t)
    keys, which = np.unique(np.concatenate(pairs), return_inverse=True)
    at, givers = np.concatenate(place), keys // (len(of_made) + 1)
    table = np.ones(len(keys))
    for _ in range(rounds):
        shares = table[which]
        shares /= np.bincount(at, shares, first)[at]
        counts = np.bincount(which, shares, len(keys))
        table = counts / np.bincount(givers, counts)[givers]
    names, others = {0: ""} | {n: w for w, n in of_given.items()}, {n: w for w, n in of_made.items()}
    return {
        (names[int(k) // (len(of_made) + 1)], others[int(k) % (len(of_made) + 1)]): float(p)
        for k, p in zip(keys, table, strict=True)
    }


def numbered(sentences: Iterable[Sequence[str]]) -> dict[str, int]:
    """The words of sentences, counted from 1."""
    return {word: number for number, word in enumerate(dict.fromkeys(w for line in sentences for w in line), start=1)}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dates", metavar="RUN", help="the run folder of a demo")
    parser.add_argument("--multi30k", metavar="RUN", nargs="+", default=[], help="run folders of Multi30k")
    parser.add_argument("--data-dir", help="holds multi30k/train.de.gz and so on")
    parser.add_argument("--sentences", type=positive, default=600, help="half choose the head, half are scored")
    args = parser.parse_args(argv)
    if not (args.dates or args.multi30k):
        parser.error("there is no model: give --dates or --multi30k")
    if args.sentences < 2:
        parser.error("argument --sentences: 1 is too few: one half chooses the head, the other is scored")

    def log_line(text: str) -> None:
        print(text, file=sys.stderr)

    found = []
    for task, run in [*([("dates", args.dates)] if args.dates else []), *(("multi30k", run) for run in args.multi30k)]:
        translator = Translator.load(run, "cpu")
        if task == "dates":
            cases = dates(translator, args.sentences)
        else:
            cases = multi30k(translator, languages(read_stored_recipe(Path(run))), args.data_dir, args.sentences)
        if len(cases) < 2:
            raise DataError(f"`{run}` writes nothing to explain", "train it for longer")
        log_line(f"{task}, {Path(run).name}")
        found.append({"task": task, "run": Path(run).name, **compared(translator, cases, log_line)})
    print_json({**circumstances(__file__, argv), "steps": STEPS, "rounds_of_em": ROUNDS, "found": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
