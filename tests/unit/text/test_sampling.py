"""Sampled pieces: those of SentencePiece where nothing is sampled, and the right distribution where it is."""

import io
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain, combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from pellucid.errors import ConfigError
from pellucid.text import sampling
from pellucid.text.sampling import SubwordSampler, UnigramSampling
from pellucid.text.sentencepiece_file import SentencePieceVocab, read_pieces
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.vocabulary import Vocabulary
from tests.unit.text.subword_models import CORPUS, KINDS, LINES, processor, subwords

Cut = tuple[str, ...]
DRAWS = 4000
TEXTS = st.lists(st.one_of(st.sampled_from([word for line in LINES for word in line.split(" ")]), st.text())).map(
    " ".join
)


@cache
def sampler(kind: str, strength: float) -> SubwordSampler:
    return SubwordSampler(subwords(kind), strength)


def sampled(kind: str, strength: float, text: str, seed: object = 0) -> list[int]:
    return sampler(kind, strength).sample(text, Random(str(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_sampling_the_pieces_are_sentencepieces(kind: str) -> None:
    for line in LINES:
        assert sampled(kind, 0.0, line) == subwords(kind).encode(line), repr(line)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bpe, symbols", "bpe, across spaces"])
@given(text=TEXTS)
def test_without_sampling_any_text_has_the_same_pieces(kind: str, text: str) -> None:
    found, expected = sampled(kind, 0.0, text), subwords(kind).encode(text)
    if "unigram" in kind and found != expected:  # of cuts that are equally good, either is right
        scores = [processor(kind).get_score(i) for i in range(subwords(kind).size)]
        assert sum(scores[i] for i in found) == pytest.approx(sum(scores[i] for i in expected), abs=1e-4)
    else:
        assert found == expected


@pytest.mark.parametrize("strength", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_reads_the_same(kind: str, strength: float) -> None:
    tokenizer = subwords(kind)
    for seed, line in enumerate(LINES * 2):
        ids, stored = sampled(kind, strength, line, seed), tokenizer.encode(line)
        assert tokenizer.decode(ids) == tokenizer.decode(stored), repr(line)
        assert ids.count(tokenizer.unk_id) == stored.count(tokenizer.unk_id)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=TEXTS, seed=st.integers(0, 99))
def test_any_cut_of_any_text_reads_the_same(kind: str, text: str, seed: int) -> None:
    assert subwords(kind).decode(sampled(kind, 0.6, text, seed)) == text


def test_symbols_are_never_cut() -> None:
    tokenizer = subwords("bpe, symbols")
    for seed in range(20):
        tokens = tokenizer.tokens(sampled("bpe, symbols", 0.9, "dogs and <sep> doors", seed))
        assert tokens.count("dogs") == tokens.count("<sep>") == tokens.count("do") == 1


def test_a_stronger_sampling_gives_more_pieces() -> None:
    for kind, strengths in (("bpe", (0.0, 0.1, 0.5, 0.9)), ("unigram", (0.0, 0.6, 0.8, 0.95))):
        lengths = [sum(len(sampled(kind, strength, line)) for line in LINES) for strength in strengths]
        assert lengths == sorted(set(lengths)), (kind, lengths)


def merge_cuts(word: str, scores: dict[str, float], probability: float) -> dict[Cut, float]:
    """How probable each cut is by algorithm 1 of Provilkov et al. (2020), followed through all that may happen.

    Of all merges that are possible each is left out by itself, so that each set of them may remain; the best of those
    is made, and all is possible again. Where none remains, the word is done.
    """

    @cache
    def follow(parts: Cut) -> dict[Cut, float]:
        possible = [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in scores]
        found: Counter[Cut] = Counter()
        for remaining in chain.from_iterable(combinations(possible, count) for count in range(len(possible) + 1)):
            chance = (1 - probability) ** len(remaining) * probability ** (len(possible) - len(remaining))
            if not remaining:
                found[parts] += chance
                continue
            best = max(remaining, key=lambda i: (scores[parts[i] + parts[i + 1]], -i))
            made = (*parts[:best], parts[best] + parts[best + 1], *parts[best + 2 :])
            for cut, after in follow(made).items():
                found[cut] += chance * after
        return dict(found)

    return follow(tuple(word))


def all_cuts(word: str, scores: dict[str, float]) -> Iterator[Cut]:
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        if word[:end] in scores:
            yield from ((word[:end], *rest) for rest in all_cuts(word[end:], scores))


def lattice_cuts(word: str, scores: dict[str, float], power: float) -> dict[Cut, float]:
    """The probability of each cut: the product of its pieces' to a power, over the sum for all cuts."""
    weights = {cut: math.exp(power * sum(scores[piece] for piece in cut)) for cut in all_cuts(word, scores)}
    return {cut: weight / sum(weights.values()) for cut, weight in weights.items()}


def assert_drawn_from(expected: dict[Cut, float], drawn: Counter[Cut]) -> None:
    """Pearson's chi-square test at one in a thousand, by the approximation of Wilson and Hilferty."""
    assert set(drawn) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1)
    count = sum(drawn.values())
    rare = [cut for cut, chance in expected.items() if chance * count < 5]
    cells = [(chance * count, drawn[cut]) for cut, chance in expected.items() if cut not in rare]
    cells.append((sum(expected[cut] for cut in rare) * count, sum(drawn[cut] for cut in rare)))
    assert len(cells) > 2, "enough to compare"
    freedom = len(cells) - 1
    square = sum((seen - wanted) ** 2 / wanted for wanted, seen in cells if wanted)
    assert square < freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3


def draw(kind: str, strength: float, text: str) -> Counter[Cut]:
    drawing = SubwordSampler(subwords(kind), strength)
    return Counter(tuple(subwords(kind).tokens(drawing.sample(text, Random(f"1/{i}/source")))) for i in range(DRAWS))


@pytest.mark.parametrize("kept", [0, 32])
@pytest.mark.parametrize("probability", [0.1, 0.5])
@pytest.mark.parametrize("word", ["slowest", "강아지"])
def test_merges_are_left_out_with_their_probability(
    word: str, probability: float, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words short enough to be kept, and the same ones as if they were not."""
    monkeypatch.setattr(sampling, "_LONGEST_KEPT", kept)
    expected = merge_cuts(f"▁{word}", read_pieces(subwords("bpe").proto).scores, probability)
    assert_drawn_from(expected, draw("bpe", probability, word))


def test_a_tenth_left_out_lengthens_a_text_as_the_papers_algorithm_does() -> None:
    """Written once more as it stands in the paper, word by word, without any of what makes ours fast."""
    scores = read_pieces(subwords("bpe").proto).scores
    random = Random(3)

    def pieces(word: str) -> int:
        parts = list(word)
        while True:
            possible = [
                i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in scores and random.random() >= 0.1
            ]
            if not possible:
                return len(parts)
            best = max(possible, key=lambda i: (scores[parts[i] + parts[i + 1]], -i))
            parts[best : best + 2] = [parts[best] + parts[best + 1]]

    words = [word for line in CORPUS[7:] for word in line.split(" ")]
    counts = [pieces(f"▁{word}") for word in words]
    ours = [len(sampled("bpe", 0.1, line, seed)) for seed, line in enumerate(CORPUS[7:])]
    # Both are sums of as many independent draws: apart by chance, at one in ten thousand.
    deviation = statistics.stdev(counts) * math.sqrt(2 * len(words))
    assert abs(sum(ours) - sum(counts)) < 3.9 * deviation


@pytest.mark.parametrize(("flatness", "power"), [(0.5, 1.0), (0.8, 0.25), (1 - 1e-9, 0.0)])
@pytest.mark.parametrize("word", ["stlowne", "강아지가"])
def test_cuts_are_drawn_by_their_probability(word: str, flatness: float, power: float) -> None:
    expected = lattice_cuts(f"▁{word}", read_pieces(subwords("unigram").proto).scores, power)
    assert_drawn_from(expected, draw("unigram", flatness, word))


def test_a_character_that_only_longer_pieces_have_is_ten_below_the_least() -> None:
    scores = {"a": -1.0, "ab": -2.0, "c": -3.0}
    pieces = SentencePieceVocab("unigram", {"a": 1, "ab": 2, "c": 3}, scores, {}, (), unk_id=0)
    cutter = UnigramSampling(pieces, 0.9)
    drawn = Counter(tuple("?a_c"[i] for i in cutter.sample(["abc"], Random(f"{i}"))) for i in range(DRAWS))
    expected = lattice_cuts("abc", scores | {"b": -13.0}, 0.1 / 0.9)
    names = {("ab", "c"): ("_", "c"), ("a", "b", "c"): ("a", "?", "c")}
    assert_drawn_from({names[cut]: chance for cut, chance in expected.items()}, drawn)


@pytest.mark.parametrize(("kind", "strength"), [("bpe", 0.3), ("unigram", 0.8)])
def test_neighbouring_words_are_drawn_independently(kind: str, strength: float) -> None:
    words, scores = ("slow", "new"), read_pieces(subwords(kind).proto).scores
    apart = [
        merge_cuts(f"▁{w}", scores, strength)
        if kind == "bpe"
        else lattice_cuts(f"▁{w}", scores, (1 - strength) / strength)
        for w in words
    ]
    together = {a + b: p * q for a, p in apart[0].items() for b, q in apart[1].items()}
    assert_drawn_from(together, draw(kind, strength, " ".join(words)))


@pytest.mark.parametrize(("kind", "strength"), [("bpe", 0.2), ("unigram", 0.8), ("bpe, across spaces", 0.2)])
def test_what_is_drawn_follows_from_the_generator_alone(kind: str, strength: float) -> None:
    first = [sampled(kind, strength, line, i) for i, line in enumerate(LINES)]
    new = SubwordSampler(subwords(kind), strength)
    backwards = [new.sample(LINES[i], Random(str(i))) for i in reversed(range(len(LINES)))]
    assert backwards[::-1] == first
    assert [sampled(kind, strength, line, i + 1) for i, line in enumerate(LINES)] != first


PROGRAM = """
import sys
from random import Random
from pellucid.text.sampling import SubwordSampler
from pellucid.text.subwords import SentencePieceTokenizer
sampler = SubwordSampler(SentencePieceTokenizer(open(sys.argv[1], "rb").read(), "bpe"), float(sys.argv[2]))
print(sampler.sample("two dogs play with the slowest ball", Random("1/2/3/source")))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "strength"), [("bpe", 0.3), ("unigram", 0.9)])
def test_another_process_draws_the_same(kind: str, strength: float, tmp_path: object) -> None:
    path = subwords(kind).save(tmp_path / "tokenizer")  # type: ignore[operator]
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), str(strength)],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {f"{sampled(kind, strength, 'two dogs play with the slowest ball', '1/2/3/source')}\n"}


@pytest.mark.parametrize("kept", [1, 3])
def test_what_is_kept_changes_nothing(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MOST_MERGED", kept)
    monkeypatch.setattr(sampling, "_MOST_LATTICES", kept)
    for kind in ("bpe", "unigram"):
        forgetful = SubwordSampler(subwords(kind), 0.7)
        for line in LINES:
            assert forgetful.sample(line, Random("0")) == sampled(kind, 0.7, line)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_smallest_and_the_largest_strength(kind: str) -> None:
    line = CORPUS[0]
    assert sampled(kind, 5e-324, line) == subwords(kind).encode(line)
    assert len(sampled(kind, 1 - 2**-53, line)) > len(subwords(kind).encode(line))


@pytest.mark.parametrize("kind", ["words", "characters", "bytes", "spaces"])
def test_a_tokenizer_without_pieces_is_refused(kind: str) -> None:
    message = (
        rf"^`subword_regularization = 0.1` has no effect on the tokenizer `{kind}`, which has only one segmentation "
        rf"of a "
        rf"text$"
    )
    with pytest.raises(ConfigError, match=message) as error:
        SubwordSampler(Vocabulary(kind, ("a",)), 0.1)
    assert (
        error.value.hint
        == "leave it out, or choose one of bpe, unigram, or a SentencePiece model of one of these kinds"
    )


@pytest.mark.parametrize("algorithm", ["word", "char"])
def test_so_is_a_foreign_model_of_whole_words_or_characters(algorithm: str) -> None:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS[:3]), model_writer=model, model_type=algorithm, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    with pytest.raises(
        ConfigError, match=f"`subword_regularization = 0.25` .* a SentencePiece model of the kind `{algorithm}`"
    ):
        SubwordSampler(SentencePieceTokenizer(model.getvalue(), "sentencepiece"), 0.25)
