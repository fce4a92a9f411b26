import json
import logging
import random
from dataclasses import FrozenInstanceError

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.scores import Scores, score_corpus

SENTENCE = "A dog runs over the green field while Two men in red shirts watch it ."


def corpus(sentences: int, seed: int = 0, kept: float = 0.8) -> tuple[list[str], list[str]]:
    """Random references, and translations in which some of the words are wrong."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(SENTENCE.split(), k=draw.randint(6, 14))) for _ in range(sentences)]
    hypotheses = [
        " ".join(w if draw.random() < kept else "the" for w in line.split()[: draw.randint(5, 14)])
        for line in references
    ]
    return hypotheses, references


@pytest.fixture(scope="module")
def scores() -> Scores:
    return score_corpus(*corpus(60), resamples=200)


def test_a_perfect_translation_scores_100_without_doubt() -> None:
    _, references = corpus(20)
    scores = score_corpus(references, references, resamples=40)
    assert scores.bleu == pytest.approx(100)
    assert scores.bleu_interval == pytest.approx((100, 100))
    assert scores.chrf == pytest.approx(100)
    assert (scores.brevity_penalty, scores.length_ratio, scores.sentences) == (1, 1, 20)


def test_point_scores_and_signatures_are_those_of_sacrebleu(scores: Scores) -> None:
    hypotheses, references = corpus(60)
    ours = {
        "cased": (scores.bleu, scores.signature),
        "lowercase": (scores.bleu_lowercase, scores.signature_lowercase),
        "chrf": (scores.chrf, scores.chrf_signature),
        "chrf++": (scores.chrfpp, scores.chrfpp_signature),
    }
    for name, metric in {
        "cased": BLEU(force=True),
        "lowercase": BLEU(lowercase=True, force=True),
        "chrf": CHRF(),
        "chrf++": CHRF(word_order=2),
    }.items():
        theirs = metric.corpus_score(hypotheses, [references])
        score, signature = ours[name]
        assert score == pytest.approx(theirs.score)
        assert signature == str(metric.get_signature())


def test_lengths_are_those_of_sacrebleu(scores: Scores) -> None:
    hypotheses, references = corpus(60)
    theirs = BLEU(force=True).corpus_score(hypotheses, [references])
    assert scores.brevity_penalty == pytest.approx(theirs.bp)
    assert scores.length_ratio == pytest.approx(theirs.sys_len / theirs.ref_len)
    assert scores.length_ratio < 1
    assert scores.brevity_penalty < 1


def test_intervals_are_those_of_sacrebleu_at_its_seed(monkeypatch: pytest.MonkeyPatch, scores: Scores) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    hypotheses, references = corpus(60)
    pairs = [
        (BLEU(force=True), scores.bleu_interval),
        (CHRF(), scores.chrf_interval),
        (CHRF(word_order=2), scores.chrfpp_interval),
    ]
    for metric, (low, high) in pairs:
        theirs = metric.corpus_score(hypotheses, [references], n_bootstrap=200)
        assert theirs._ci > 0.1
        assert (high - low) / 2 == pytest.approx(theirs._ci, abs=1e-3)


def test_signatures_say_nothing_of_the_bootstrap(scores: Scores) -> None:
    assert scores.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores.signature_lowercase == scores.signature.replace("case:mixed", "case:lc")
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_case_counts_in_bleu_alone() -> None:
    _, references = corpus(20)
    scores = score_corpus([line.upper() for line in references], references, resamples=40)
    assert scores.bleu < 50
    assert scores.bleu_lowercase == pytest.approx(100)


@pytest.mark.slow
def test_intervals_hold_the_score_and_narrow_with_more_sentences(scores: Scores) -> None:
    more = score_corpus(*corpus(600, kept=0.8), resamples=200)
    for name in ("bleu", "bleu_lowercase", "chrf"):
        widths = []
        for result in (scores, more):
            low, high = getattr(result, f"{name}_interval")
            assert low < getattr(result, name) < high
            widths.append(high - low)
        assert widths[1] < widths[0] / 2


def test_equal_seeds_give_equal_scores_and_others_other_intervals(scores: Scores) -> None:
    assert score_corpus(*corpus(60), resamples=200) == scores
    other = score_corpus(*corpus(60), resamples=200, seed=1)
    assert other.bleu == scores.bleu
    assert other.bleu_interval != scores.bleu_interval


@pytest.mark.parametrize("hypotheses", [["", ""], ["x", "y"]])
def test_translations_without_a_match_score_nearly_nothing(hypotheses: list[str]) -> None:
    scores = score_corpus(hypotheses, ["A dog runs over a field", "Two men watch it"], resamples=40)
    assert scores.bleu == pytest.approx(0, abs=0.1)
    assert scores.bleu_interval[1] < 1


@pytest.mark.parametrize(
    ("line", "other", "said"),
    [
        ("A dog runs over the field .", "A dog runs over the field.", True),  # as Moses cuts it
        ("A dog &apos;s field is green.", "A dog's field is green.", True),  # as Moses escapes it
        ("Un chien court !", "Un chien court !", False),  # as French is written
        ("A dog ...", "A dog.", False),
    ],
)
def test_text_that_looks_tokenized_is_told_with_its_scores(line: str, other: str, said: bool) -> None:
    for hypotheses, references in (([line] * 12, [other] * 12), ([other] * 12, [[other] * 12, [line] * 12])):
        found = score_corpus(hypotheses, references, resamples=40)
        assert (found.tokenized, "look tokenized" in found.report()) == ((12, True) if said else (0, False))
    few = score_corpus([line] * 9, [other] * 9, resamples=40)
    assert "look tokenized" not in few.report(), "a handful says nothing"


def test_tokenized_text_raises_no_warning(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    lines = ["A dog runs over the field ."] * 150
    with caplog.at_level(logging.DEBUG):
        score_corpus(lines, lines, resamples=40)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_json_goes_there_and_back(scores: Scores) -> None:
    table = scores.to_json()
    assert json.loads(json.dumps(table)) == table
    assert table["bleu"] == scores.bleu
    assert table["chrf_interval"] == list(scores.chrf_interval)
    assert table["signature"] == scores.signature


def test_report_shows_scores_intervals_and_signatures_in_columns(scores: Scores) -> None:
    *rows, last = scores.report().splitlines()
    low, high = scores.bleu_interval
    assert [row[:14].strip() for row in rows] == ["BLEU", "BLEU lowercase", "chrF", "chrF++"]
    assert len({row.index("±") for row in rows}) == len({row.index("nrefs:") for row in rows}) == 1
    assert f"{scores.bleu:.2f} ± {(high - low) / 2:.2f}" in rows[0]
    assert f"[{low:6.2f}, {high:6.2f}]" in rows[0]
    assert rows[1].endswith(scores.signature_lowercase)
    assert rows[2].endswith(scores.chrf_signature)
    assert rows[3].endswith(scores.chrfpp_signature)
    assert last.startswith("60 sentences; brevity penalty ")


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_several_references_count_as_in_sacrebleu(streams: int) -> None:
    hypotheses, first = corpus(30)
    references = [first, *(corpus(30, seed=s)[1] for s in range(1, streams))]
    scores = score_corpus(hypotheses, references, ter=True, resamples=40)
    for metric, score, signature in (
        (BLEU(force=True), scores.bleu, scores.signature),
        (CHRF(word_order=2), scores.chrfpp, scores.chrfpp_signature),
        (TER(), scores.ter, scores.ter_signature),
    ):
        assert score == pytest.approx(metric.corpus_score(hypotheses, references).score)
        assert signature == str(metric.get_signature())
        assert f"nrefs:{streams}|" in signature
    if streams == 1:
        assert scores == score_corpus(hypotheses, first, ter=True, resamples=40)


def test_ter_is_computed_where_it_is_asked_for(scores: Scores) -> None:
    assert (scores.ter, scores.ter_interval, scores.ter_signature) == (None, None, "")
    asked = score_corpus(*corpus(60), ter=True, resamples=200)
    assert asked.ter is not None
    assert asked.ter_interval is not None
    low, high = asked.ter_interval
    assert low < asked.ter < high
    row = asked.report().splitlines()[4]
    assert row.startswith("TER, lower is better  ")
    assert row.endswith(asked.ter_signature)


@pytest.mark.parametrize(("sentence", "asian"), [("一只狗在街上跑", "yes"), ("犬が走る", "yes"), ("개가 달린다", "no")])
def test_ter_takes_chinese_characters_for_words(sentence: str, asian: str) -> None:
    scores = score_corpus([sentence], [sentence], ter=True, resamples=40)
    assert scores.ter == 0
    assert f"|asian:{asian}|" in scores.ter_signature


def test_several_references_have_a_list_each() -> None:
    with pytest.raises(DataError, match="3 translations cannot be scored against 2 references") as found:
        score_corpus(["a"] * 3, [["a", "b"]] * 3)
    assert found.value.hint.endswith("several sets as [first, second]")
    with pytest.raises(DataError, match="2 translations cannot be scored against 1 references"):
        score_corpus(["a"] * 2, [["a", "b"], ["a"]])


def test_scores_do_not_change(scores: Scores) -> None:
    with pytest.raises(FrozenInstanceError):
        scores.bleu = 100.0  # type: ignore[misc]


def test_unequal_lengths_are_an_error_with_both_numbers() -> None:
    with pytest.raises(DataError, match="3 translations cannot be scored against 2 references"):
        score_corpus(["a"] * 3, ["a"] * 2)


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing to score: 0 translations and 0 references"):
        score_corpus([], [])


def test_too_few_resamples_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"`resamples` \(39\) must be at least 40"):
        score_corpus(["a"], ["a"], resamples=39)
