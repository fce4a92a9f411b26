"""Claim: whether the translation most like all others beats the most probable one depends on the metric.

    python benchmarks/consensus.py RUN --src val.en --ref val.de > consensus.json

Minimum Bayes risk (Kumar and Byrne 2004) beside a beam of 5: of `--draws` draws of a line the one with the highest
mean chrF against all of them, as `pellucid translate --mbr` chooses, and the one with the highest mean BLEU. BLEU of
one line against another is sacreBLEU's, smoothed, of as many orders as the line has. Text that is tokens already takes
`--tokenize none`.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import circumstances, print_json, refusals_in_words
from sacrebleu.metrics.bleu import BLEU

from pellucid.data.lines import read_pairs
from pellucid.evaluation.consensus import most_like_all
from pellucid.evaluation.scores import score_corpus
from pellucid.tasks.translator import Translator


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Translates in all ways, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run folder, or a model's")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=24, help="of each line (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.5, help="of the draws (%(default)s)")
    parser.add_argument("--length-penalty", type=float, help="of the beams (the model's)")
    parser.add_argument("--tokenize", default="13a", help="sacreBLEU's tokenizer (%(default)s)")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(argv)
    translator = Translator.load(options.run, options.device)
    sources, references = map(list, zip(*read_pairs(options.src, options.ref), strict=True))
    found = ways(translator, sources, options)
    scores = {name: score_corpus(texts, references, tokenize=options.tokenize) for name, texts in found.items()}
    for name, score in scores.items():
        print(f"{name}: BLEU {score.bleu:.2f}, chrF {score.chrf:.2f}", file=sys.stderr)
    print_json(
        circumstances(__file__, argv, ["sacrebleu"])
        | {"lines": len(sources), "scores": {name: score.to_json() for name, score in scores.items()}}
    )
    return 0


def ways(translator: Translator, sources: list[str], options: argparse.Namespace) -> dict[str, list[str]]:
    """Returns the translations of all lines by each way."""
    metric = BLEU(effective_order=True, tokenize=options.tokenize)
    draws = [
        [found.text for found in translator.sample(sources, seed=seed, temperature=options.temperature)]
        for seed in range(1, options.draws + 1)
    ]
    of_lines = [list(of_line) for of_line in zip(*draws, strict=True)]
    search: dict[str, Any] = {} if options.length_penalty is None else {"length_penalty": options.length_penalty}
    return {
        "beam of 5": [found.text for found in translator.translate(sources, beam_size=5, **search)],
        "draws by chrF": [texts[most_like_all(texts)] for texts in of_lines],
        "draws by BLEU": [most_like_all_by_bleu(texts, metric) for texts in of_lines],
    }


def most_like_all_by_bleu(texts: Sequence[str], metric: BLEU) -> str:
    """Returns the text with the highest mean BLEU against all of them, itself included."""
    drawn = Counter(texts)

    def worth(text: str) -> float:
        return sum(count * metric.sentence_score(text, [other]).score for other, count in drawn.items())

    return max(drawn, key=worth) if len(drawn) > 1 else texts[0]


if __name__ == "__main__":
    sys.exit(main())
