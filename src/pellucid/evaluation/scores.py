"""BLEU, chrF and TER of a corpus, each with its sacreBLEU signature and a 95 % confidence interval."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.tokenization import AUTO, bleu_metric, detect_bleu_script, tokenizer_for

FEWEST_TOKENIZED, MOST_TOKENIZED = 10, 0.1
"""The number and the share of lines that look tokenized from which the report warns about them."""
_TOKENIZED = re.compile(r"\s\.\s*$|&(?:apos|quot|amp|lt|gt|#91|#93|#124);")
Interval = tuple[float, float]
References = Sequence[str] | Sequence[Sequence[str]]
"""One reference per translation; or several sets, [first, second], each with one reference per translation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of a corpus of translations. Scores and the ends of their intervals run from 0 to 100."""

    bleu: float
    """Case-sensitive BLEU, the score to compare systems by."""
    bleu_interval: Interval
    bleu_lowercase: float
    bleu_lowercase_interval: Interval
    chrf: float
    """chrF2: character n-grams up to 6."""
    chrf_interval: Interval
    signature: str
    """The sacreBLEU signature of `bleu`; scores are comparable only if their signatures are equal."""
    signature_lowercase: str
    chrf_signature: str
    chrfpp: float
    """chrF++: chrF2 with word unigrams and bigrams."""
    chrfpp_interval: Interval
    chrfpp_signature: str
    ter: float | None
    """Edits (insertions, deletions, substitutions, block shifts) per reference word, in percent; 0 is the best, and it
    may be above 100. None if it was not requested."""
    ter_interval: Interval | None
    ter_signature: str
    brevity_penalty: float
    """The factor in `bleu` for translations that are shorter than the references; 1 if they are not shorter."""
    length_ratio: float
    """Words of the translations / words of the references."""
    sentences: int
    tokenized: int = 0
    """Lines that look tokenized, in the references or the translations, whichever have more: with a space before the
    last full stop, or with the escapes of Moses."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict that survives a round trip through JSON unchanged."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        rows = [
            ("BLEU", self.bleu, self.bleu_interval, self.signature),
            ("BLEU lowercase", self.bleu_lowercase, self.bleu_lowercase_interval, self.signature_lowercase),
            ("chrF", self.chrf, self.chrf_interval, self.chrf_signature),
            ("chrF++", self.chrfpp, self.chrfpp_interval, self.chrfpp_signature),
        ]
        if self.ter is not None and self.ter_interval is not None:
            rows.append(("TER, lower is better", self.ter, self.ter_interval, self.ter_signature))
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {score:6.2f} ± {(high - low) / 2:<5.2f}  [{low:6.2f}, {high:6.2f}]  {signature}"
            for name, score, (low, high), signature in rows
        ]
        sentences = "1 sentence" if self.sentences == 1 else f"{self.sentences:,} sentences"
        if self.tokenized >= FEWEST_TOKENIZED and self.tokenized > MOST_TOKENIZED * self.sentences:
            lines.append(
                f"{self.tokenized:,} lines of the test or the translations look tokenized (` .` at their end, or "
                "`&quot;`): detokenize them, since the scores are defined for plain text and are not comparable "
                "otherwise"
            )
        lengths = f"brevity penalty {self.brevity_penalty:.3f}, length ratio {self.length_ratio:.3f}"
        return "\n".join([*lines, f"{sentences}; {lengths}; 95 % bootstrap intervals"])


def score_corpus(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = AUTO,
    ter: bool = False,
    resamples: int = 1000,
    seed: int = 12345,
) -> Scores:
    """Returns the scores of plain (detokenized) translations.

    Args:
        references: one per translation, or several such lists, [first, second], as in sacreBLEU.
        tokenize: the tokenizer of BLEU: the name of one of sacreBLEU's tokenizers, or `auto`, which chooses by the
            references' script (13a, zh or char). The signature contains the choice.
        ter: whether to compute TER, too, which takes minutes if long translations are scrambled.
        seed: with 12345 the intervals equal the results of the `sacrebleu --confidence` command.

    Raises DataError if the sides differ in length or are empty, ConfigError for fewer than 40 resamples or a
    tokenizer that cannot be used. Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation"
    (2004), for the bootstrap.
    """
    streams = reference_streams(hypotheses, references)
    tokenize = choose_tokenizer(tokenize, streams)
    metrics: list[Metric] = [
        bleu_metric(tokenize), bleu_metric(tokenize, lowercase=True), CHRF(), CHRF(word_order=2),
        *([ter_metric(streams)] if ter else []),
    ]  # fmt: skip
    measured = [score_with_bootstrap(metric, hypotheses, streams, resamples, seed) for metric in metrics]
    cased, lowercase, chrf, chrfpp = measured[:4]
    edits = measured[4] if ter else None
    return Scores(
        bleu=cased.score,
        bleu_interval=cased.interval,
        bleu_lowercase=lowercase.score,
        bleu_lowercase_interval=lowercase.interval,
        chrf=chrf.score,
        chrf_interval=chrf.interval,
        signature=str(cased.signature),
        signature_lowercase=str(lowercase.signature),
        chrf_signature=str(chrf.signature),
        chrfpp=chrfpp.score,
        chrfpp_interval=chrfpp.interval,
        chrfpp_signature=str(chrfpp.signature),
        ter=edits.score if edits else None,
        ter_interval=edits.interval if edits else None,
        ter_signature=str(edits.signature) if edits else "",
        brevity_penalty=cased.brevity_penalty,
        length_ratio=cased.length_ratio,
        sentences=len(hypotheses),
        tokenized=max(sum(map(_looks_tokenized, lines)) for lines in (hypotheses, *streams)),
    )


def _looks_tokenized(line: str) -> bool:
    return _TOKENIZED.search(line) is not None


def ter_metric(references: Sequence[Sequence[str]]) -> TER:
    """Returns TER with sacreBLEU's defaults; for Chinese and Japanese with characters as words."""
    asian = detect_bleu_script(text for stream in references for text in stream) in ("chinese", "japanese")
    return TER(normalized=asian, asian_support=asian)


def choose_tokenizer(tokenize: str, references: Sequence[Sequence[str]]) -> str:
    """Returns the tokenizer's name; for `auto` the tokenizer for the script of the references."""
    return tokenizer_for(text for stream in references for text in stream) if tokenize == AUTO else tokenize


class Measurement(NamedTuple):
    """One score of a corpus, and of its bootstrap resamples."""

    score: float
    statistics: np.ndarray
    """sacreBLEU's sufficient statistics of each sentence; (sentences, counts)."""
    resampled: np.ndarray
    """The score of each resample; (resamples,)."""
    signature: Signature
    brevity_penalty: float
    length_ratio: float

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the score."""
        return compute_interval(self.resampled)


def score_with_bootstrap(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]], resamples: int, seed: int
) -> Measurement:
    """Scores a corpus by one metric; equal seeds resample the same sentences from all corpora of equal length.

    Raises ConfigError for fewer than 40 resamples.
    """
    if resamples < 40:
        raise ConfigError(
            f"`resamples` ({resamples}) must be at least 40: a 95 % interval leaves out 1 in 40 on each side"
        )
    statistics = np.array(metric._extract_corpus_statistics(hypotheses, references))  # (sentences, counts)
    score = metric._compute_score_from_stats(statistics.sum(axis=0))
    is_bleu = isinstance(score, BLEUScore)
    return Measurement(
        float(score.score),
        statistics,
        bootstrap(metric, statistics, resamples, seed),
        metric.get_signature(),
        float(score.bp) if is_bleu else 1.0,
        float(score.ratio) if is_bleu else 1.0,
    )


class Summed(Protocol):
    """A corpus score that is a function of summed sentence statistics: a sacreBLEU metric, or a mean."""

    def _compute_score_from_stats(self, stats: list[Any]) -> Any: ...


def bootstrap(metric: Summed, statistics: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Scores corpora resampled with replacement.

    sacreBLEU's own bootstrap holds all resamples in memory (72 kB per sentence for chrF), takes its seed from the
    environment and writes both into the signature. This function uses the same random numbers, one resample at a time.
    """
    generator = np.random.default_rng(seed)
    sentences = len(statistics)
    sampled = (statistics[generator.choice(sentences, size=sentences)].sum(axis=0) for _ in range(resamples))
    return np.array([metric._compute_score_from_stats(counts).score for counts in sampled])


def compute_interval(values: np.ndarray) -> Interval:
    """Returns the ends of the middle 95 %, without interpolation, as in sacreBLEU."""
    tail = len(values) // 40
    ordered = np.sort(values)
    return float(ordered[tail]), float(ordered[-tail - 1])


def reference_streams(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """Returns the references in sacreBLEU's form: one list or several, each with one reference per translation.

    Raises DataError if a list has another length than the translations, or if all are empty.
    """
    if references and not isinstance(references[0], str):
        streams = [list(stream) for stream in references]
    else:
        streams = [[str(text) for text in references]]
    for stream in streams:
        if len(stream) != len(hypotheses):
            wanted = "pass one reference per translation, in the same order"
            raise DataError(
                f"{len(hypotheses)} translations cannot be scored against {len(stream)} references",
                f"{wanted}; several sets as [first, second]" if len(streams) > 1 else wanted,
            )
    if not hypotheses:
        raise DataError("nothing to score: 0 translations and 0 references")
    return streams


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, float, str]:
    """Returns BLEU and chrF without intervals, and BLEU's tokenizer: for validation during training."""
    tokenize = tokenizer_for(references)
    bleu = bleu_metric(tokenize).corpus_score(hypotheses, [references])
    return float(bleu.score), float(CHRF().corpus_score(hypotheses, [references]).score), tokenize


def bleu_signature(references: Sequence[str]) -> str:
    """Returns the sacreBLEU signature of the BLEU that corpus_scores() computes against these references."""
    metric = bleu_metric(tokenizer_for(references))
    metric.corpus_score(["a"], [["a"]])  # the signature has the number of references only after scoring
    return str(metric.get_signature())
