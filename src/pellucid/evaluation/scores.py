"""BLEU, chrF and TER of a corpus, each with its sacreBLEU signature and a 95 % confidence interval."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.tokenization import AUTO, bleu_metric, script_of, tokenizer_for

Interval = tuple[float, float]
References = Sequence[str] | Sequence[Sequence[str]]
"""One for each translation; or several sets of them, [first, second], each with one for each translation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of a corpus of translations. They and the ends of their intervals run from 0 to 100."""

    bleu: float
    """BLEU with case, the one to compare by."""
    bleu_interval: Interval
    bleu_lowercase: float
    bleu_lowercase_interval: Interval
    chrf: float
    """chrF2: character n-grams up to 6."""
    chrf_interval: Interval
    signature: str
    """The way in which sacreBLEU computed `bleu`; scores compare only where signatures are equal."""
    signature_lowercase: str
    chrf_signature: str
    chrfpp: float
    """chrF++: chrF2 with runs of one and two words."""
    chrfpp_interval: Interval
    chrfpp_signature: str
    ter: float | None
    """Edits (insertions, deletions, substitutions, moved blocks) a word of the reference; 0 is the best, and it may be
    above 100. None where it was not asked for."""
    ter_interval: Interval | None
    ter_signature: str
    brevity_penalty: float
    """The factor in `bleu` for translations that are shorter than the references; 1: they are not."""
    length_ratio: float
    """Words of the translations / words of the references."""
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as json.dumps() takes them and json.loads() gives them back."""
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
            rows.append(("TER, low is good", self.ter, self.ter_interval, self.ter_signature))
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {score:6.2f} ± {(high - low) / 2:<5.2f}  [{low:6.2f}, {high:6.2f}]  {signature}"
            for name, score, (low, high), signature in rows
        ]
        sentences = "1 sentence" if self.sentences == 1 else f"{self.sentences:,} sentences"
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
        references: one for each translation, or several such lists, [first, second], as sacreBLEU takes them.
        tokenize: how BLEU cuts text: one of sacreBLEU's tokenizers by name, or `auto`, by the references' script (13a,
            zh or char). The signature says which.
        ter: whether to compute TER, too, which takes minutes where long translations are scrambled.
        seed: with 12345 the intervals are those of the `sacrebleu --confidence` command.

    Raises DataError where the sides differ in length or are empty, ConfigError for fewer than 40 resamples or a
    tokenizer that cannot be used. Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation"
    (2004), for the bootstrap.
    """
    streams = reference_streams(hypotheses, references)
    tokenize = chosen_tokenizer(tokenize, streams)
    metrics: list[Metric] = [
        bleu_metric(tokenize), bleu_metric(tokenize, lowercase=True), CHRF(), CHRF(word_order=2),
        *([ter_metric(streams)] if ter else []),
    ]  # fmt: skip
    measured = [measure(metric, hypotheses, streams, resamples, seed) for metric in metrics]
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
    )


def ter_metric(references: Sequence[Sequence[str]]) -> TER:
    """Returns TER as sacreBLEU has it by default; for Chinese and Japanese with characters for words."""
    asian = script_of(text for stream in references for text in stream) in ("chinese", "japanese")
    return TER(normalized=asian, asian_support=asian)


def chosen_tokenizer(tokenize: str, references: Sequence[Sequence[str]]) -> str:
    """Returns the tokenizer of that name; for `auto` the one that suits the references."""
    return tokenizer_for(text for stream in references for text in stream) if tokenize == AUTO else tokenize


class Measurement(NamedTuple):
    """One score of a corpus, and of the corpora drawn from it."""

    score: float
    statistics: np.ndarray
    """The numbers that sacreBLEU counts of each sentence; (sentences, counts)."""
    resampled: np.ndarray
    """The score of each drawn corpus; (resamples,)."""
    signature: Signature
    brevity_penalty: float
    length_ratio: float

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the score."""
        return middle(self.resampled)


def measure(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]], resamples: int, seed: int
) -> Measurement:
    """Scores a corpus by one metric; with equal seeds, the same sentences are drawn from all corpora of a length.

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
    """A score of a corpus that follows from the sum of what is counted of each sentence: sacreBLEU's, or a mean."""

    def _compute_score_from_stats(self, stats: list[Any]) -> Any: ...


def bootstrap(metric: Summed, statistics: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Scores corpora drawn with replacement.

    sacreBLEU's own draw holds all resamples in memory (72 kB a sentence for chrF), takes its seed from the
    environment and writes both into the signature. This draws the same random numbers, one resample at a time.
    """
    generator = np.random.default_rng(seed)
    sentences = len(statistics)
    drawn = (statistics[generator.choice(sentences, size=sentences)].sum(axis=0) for _ in range(resamples))
    return np.array([metric._compute_score_from_stats(counts).score for counts in drawn])


def middle(values: np.ndarray) -> Interval:
    """Returns the ends of the middle 95 %, without interpolation, as sacreBLEU takes them."""
    tail = len(values) // 40
    ordered = np.sort(values)
    return float(ordered[tail]), float(ordered[-tail - 1])


def reference_streams(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """Returns the references as sacreBLEU takes them: one list or several, each with one for each translation.

    Raises DataError where there is not one for each translation, or nothing at all.
    """
    if references and not isinstance(references[0], str):
        streams = [list(stream) for stream in references]
    else:
        streams = [[str(text) for text in references]]
    for stream in streams:
        if len(stream) != len(hypotheses):
            wanted = "give one reference for each translation, in the same order"
            raise DataError(
                f"{len(hypotheses)} translations cannot be scored against {len(stream)} references",
                f"{wanted}; several sets as [first, second]" if len(streams) > 1 else wanted,
            )
    if not hypotheses:
        raise DataError("there is nothing to score: 0 translations and 0 references")
    return streams


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, float, str]:
    """Returns BLEU and chrF alone, without intervals, and BLEU's tokenizer: for validation within training."""
    tokenize = tokenizer_for(references)
    bleu = bleu_metric(tokenize).corpus_score(hypotheses, [references])
    return float(bleu.score), float(CHRF().corpus_score(hypotheses, [references]).score), tokenize


def bleu_signature(references: Sequence[str]) -> str:
    """Returns how sacreBLEU computes the BLEU of corpus_scores() against these references."""
    metric = bleu_metric(tokenizer_for(references))
    metric.corpus_score(["a"], [["a"]])  # it knows of references only then
    return str(metric.get_signature())
