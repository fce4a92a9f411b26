"""The score that many papers on Multi30k report: multi-bleu of lower-cased, normalized, Moses-tokenized text.

    python benchmarks/multi_bleu.py --hyp translations.de --ref test.de --language de

Prints the score on standard error in multi-bleu.perl's words, and JSON on standard output. Both files are plain text,
a sentence a line, as `pellucid translate` writes them. The tokens are those of the published `.lc.norm.tok` files:
lower-cased first, then normalized, then tokenized. The score compares with papers that score such tokens, and with
nothing else; `pellucid evaluate` gives the one that compares with everybody's.

Needs sacremoses, of the extra `dev`.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from report import circumstances, print_json, refusals_in_words

from pellucid.data.lines import read_pairs
from pellucid.errors import DataError

LONGEST = 4
LANGUAGES = ("cs", "de", "en", "fr")  # of Multi30k; another one would be cut up by the rules of English, silently
Tokens = Sequence[str]


@dataclass(frozen=True)
class MultiBleu:
    """A score and what it is made of."""

    score: float
    """From 0 to 100."""
    precisions: list[float]
    """Of 1-grams to 4-grams, from 0 to 100."""
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    """In tokens."""

    def __str__(self) -> str:
        """The line that multi-bleu.perl prints."""
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        ratio = self.hypothesis_length / self.reference_length
        return (
            f"BLEU = {self.score:.2f}, {precisions} (BP={self.brevity_penalty:.3f}, ratio={ratio:.3f}, "
            f"hyp_len={self.hypothesis_length}, ref_len={self.reference_length})"
        )


def moses_tokens(lines: Sequence[str], language: str) -> list[list[str]]:
    """Lower-cased, punctuation-normalized Moses tokens of each line, with Moses' escapes (`&quot;`)."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [tokenizer.tokenize(normalizer.normalize(line.lower())) for line in lines]


def multi_bleu(hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> MultiBleu:
    """BLEU-4 of a corpus with one reference a sentence, without smoothing.

    BLEU = BP * exp(mean of log p_n, n = 1..4): p_n is the part of the corpus' n-grams that also stand in the reference
    (each at most as often as there), and BP = exp(1 - r / h) where the h tokens of the hypotheses are fewer than the r
    of the references, else 1. A precision of zero makes the score zero. Source: Papineni et al. (2002). Raises
    DataError where the two differ in length, or there are no tokens to compare with.
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses and {len(references)} references", "give one for each")
    r, h = sum(map(len, references)), sum(map(len, hypotheses))
    if not r:
        raise DataError("the references hold no token", "give a sentence a line")
    precisions = [_precision(hypotheses, references, n) for n in range(1, LONGEST + 1)]
    brevity_penalty = 1.0 if h >= r else math.exp(1 - r / h) if h else 0.0
    mean = sum(map(math.log, precisions)) / LONGEST if all(precisions) else -math.inf
    score = brevity_penalty * math.exp(mean)
    return MultiBleu(100 * score, [100 * p for p in precisions], brevity_penalty, h, r)


def _precision(hypotheses: Sequence[Tokens], references: Sequence[Tokens], n: int) -> float:
    """The part of all n-grams of the hypotheses that the reference confirms; 0 where there is none."""
    correct = total = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found, confirmed = _ngrams(hypothesis, n), _ngrams(reference, n)
        correct += (found & confirmed).total()
        total += found.total()
    return correct / total if total else 0.0


def _ngrams(tokens: Tokens, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def score_files(hyp: str, ref: str, language: str) -> MultiBleu:
    """The score of a file of translations against a file of references."""
    hypotheses, references = (moses_tokens(lines, language) for lines in zip(*read_pairs(hyp, ref), strict=True))
    return multi_bleu(hypotheses, references)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Scores two files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hyp", required=True, metavar="FILE", help="translations, plain text, one a line")
    parser.add_argument("--ref", required=True, metavar="FILE", help="their references")
    parser.add_argument("--language", required=True, choices=LANGUAGES, help="of both files")
    options = parser.parse_args(argv)
    found = score_files(options.hyp, options.ref, options.language)
    print(found, file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacremoses"]) | asdict(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
