"""The translator: lines in, lines out, whatever is in them."""

import math
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.data import chunks
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.consensus import select_by_mbr
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.folder import save_description, save_weights
from tests.rounding import NETWORK
from tests.unit.decoding.models import EOS, Ids, ScriptedModel, random_model, scripted

BYTES = Vocabulary("bytes", (), byte_fallback=True)
LETTERS = Vocabulary("characters", tuple(" abcdefgh.\n"))
LINES = ["a", "bad cab", "", "faded", "abcdefgh", "head. bed.", " ", "egg"]


def copier(tokenizer: Vocabulary, **fields: object) -> Translator:
    """A translator that gives back what it is given."""

    def logits(source: Ids, target: Ids) -> list[float]:
        wanted = source[len(target)] if len(target) < len(source) else EOS
        return [20.0 if token == wanted else -0.01 * token for token in range(tokenizer.size)]

    model = scripted(logits, tokenizer.size, **fields)
    return Translator(model, TokenizerPair(tokenizer, tokenizer), DecodeConfig(beam_size=1))


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A random model of letters that decodes short texts."""
    decode = DecodeConfig(beam_size=3, max_length=9)
    return Translator(random_model(0, LETTERS.size, sharpness=2.0), TokenizerPair(LETTERS, LETTERS), decode)


def model_of(translator: Translator) -> ScriptedModel:
    assert isinstance(translator.model, ScriptedModel)
    return translator.model


def test_each_line_gives_one_in_its_place() -> None:
    found = copier(LETTERS).translate(LINES)
    assert [t.text for t in found] == ["a", "bad cab", "", "faded", "abcdefgh", "head. bed.", "", "egg"]
    assert found[1].tokens == ["b", "a", "d", "▁", "c", "a", "b"]


@pytest.mark.parametrize("line", ["", " ", "\t \n", "\u3000\u2028"])
def test_an_empty_line_gives_an_empty_translation(line: str, translator: Translator) -> None:
    (found,) = translator.translate([line], n_best=2)
    assert found == Translation("", 0.0, [], [Translation("", 0.0, [])])
    assert translator.sample([line]) == [found]


def test_no_lines_give_no_translations(translator: Translator) -> None:
    assert translator.translate([]) == []
    assert translator.sample([]) == []
    assert translator.score([], []) == []


LINE_ENDS = [character for character in map(chr, range(0x110000)) if len(f"a{character}b".splitlines()) > 1]


def test_what_ends_a_line_is_a_space_unless_the_source_has_a_line_break_there() -> None:
    assert {"\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"} <= set(LINE_ENDS)
    found = copier(BYTES).translate([f"{end}a{end}b{end}" for end in [*LINE_ENDS, "\r\n"]])
    texts = [t.text for t in found]
    assert (texts.pop(), texts.pop(LINE_ENDS.index("\n"))) == ("\r\na\r\nb\r\n", "\na\nb\n")
    assert set(texts) == {" a b"}
    assert "<0x0B>" in found[LINE_ENDS.index("\v")].tokens


@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_are_those_of_forced_decoding(beam_size: int, translator: Translator) -> None:
    sources = [line[start:] for line in LINES for start in range(5) if line[start:].strip()]
    found = translator.translate(sources, beam_size=beam_size)
    pairs = [p for p in zip(sources, found, strict=True) if not {"\n", "<unk>"} & set(p[1].tokens)]
    assert len(pairs) > 3
    scores = translator.score([source for source, _ in pairs], [t.text for _, t in pairs])
    assert scores == pytest.approx([t.score for _, t in pairs], abs=NETWORK)


def test_the_n_best_stand_in_their_order(translator: Translator) -> None:
    for found in translator.translate(["bad", "cab"], beam_size=5, n_best=4):
        assert 1 < len({t.text for t in found.alternatives}) == len(found.alternatives) <= 4
        assert replace(found, alternatives=[]) == found.alternatives[0]
        ranks = [t.score / (len(t.tokens) + 1) for t in found.alternatives]
        assert ranks == sorted(ranks, reverse=True)
        assert not any(t.alternatives for t in found.alternatives)


def test_options_win_over_the_models_own(translator: Translator) -> None:
    assert len(translator.translate(["bad"], n_best=3)[0].alternatives) == 3
    longest = [
        max(len(t.tokens) for t in translator.translate(LINES, max_length=max_length)) for max_length in (2, 9, None)
    ]
    assert longest[:2] == [2, 9]
    assert longest[2] > 9
    penalties = [translator.translate(LINES, length_penalty=penalty) for penalty in (0.0, 3.0)]
    assert sum(len(t.tokens) for t in penalties[0]) < sum(len(t.tokens) for t in penalties[1])
    unchanged = translator.translate(["bad"], beam_size=None, n_best=None, length_penalty=None, batch_tokens=None)
    assert unchanged == translator.translate(["bad"], max_length=9)
    assert translator.decode == DecodeConfig(beam_size=3, max_length=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 4}, r"`n_best` \(4\) cannot exceed `beam_size` \(3\)"),
        ({"beam_size": 0}, r"`beam_size` \(0\) must be at least 1"),
        ({"max_length": 0}, r"`max_length` \(0\) must be at least 1"),
        ({"batch_tokens": -5}, r"`batch_tokens` \(-5\) must be at least 1"),
        ({"beam_size": "5"}, "`beam_size` must be a whole number, not '5'"),
        ({"length_penalty": math.nan}, r"`length_penalty` \(nan\) must be finite"),
        ({"decode": "x"}, r'`decode="x"` must be a DecodeConfig, not str'),
    ],
)
def test_options_that_cannot_work(options: dict[str, object], message: str, translator: Translator) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(["a"], **options)


def test_an_option_that_there_is_not(translator: Translator) -> None:
    options: Any = {"beam_sise": 4}
    with pytest.raises(TypeError, match="unexpected keyword argument 'beam_sise'"):
        translator.translate(["a"], **options)


def test_settings_as_one_object(translator: Translator) -> None:
    """What has no parameter of its own is set by a whole DecodeConfig; parameters win over it."""
    settings = replace(translator.decode, suppress_tokens=tuple(LETTERS.encode("abcd")), max_length=4)
    found = translator.translate(LINES, decode=settings, max_length=6)
    assert not set("abcd") & set("".join(t.text for t in found))
    assert max(len(t.tokens) for t in found) > 4


def test_sampling_by_name_is_sampling_by_object(translator: Translator) -> None:
    config = SamplingConfig(temperature=2.0, top_k=5, top_p=0.9, seed=3)
    expected = translator.sample(LINES, config)
    assert translator.sample(LINES, temperature=2.0, top_k=5, top_p=0.9, seed=3) == expected
    assert translator.sample(LINES, replace(config, seed=8), seed=3) == expected
    assert translator.sample(LINES, config, seed=4) != expected


@pytest.mark.slow
def test_a_stream_is_answered_as_a_list_is(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the chunks: draws follow from a line's place in the whole stream."""
    lines, sampling = LINES * 3, SamplingConfig(seed=5, temperature=2.0)
    whole = [*translator.translate(lines, beam_size=2), *translator.sample(lines, sampling)]
    for chunk in (1, 5, 100):
        monkeypatch.setattr(chunks, "MOST", chunk)
        found = [*translator.stream(iter(lines), beam_size=2), *translator.stream(iter(lines), sampling=sampling)]
        assert [t.tokens for t in found] == [t.tokens for t in whole]
        assert [t.score for t in found] == pytest.approx([t.score for t in whole], abs=NETWORK)


def test_a_stream_takes_no_more_than_it_answers(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MOST", 2)
    taken: list[str] = []
    answers = translator.stream(taken.append(line) or line for line in LINES)  # type: ignore[func-returns-value]
    next(answers)
    assert taken == LINES[:2]


def test_samples_have_their_own_limit(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"`max_length` \(-1\) must be at least 1"):
        translator.sample(["a"], max_length=-1)
    drawn = translator.sample(["bad"] * 20, SamplingConfig(seed=3, temperature=2.0), max_length=4)
    assert max(len(t.tokens) for t in drawn) <= 4
    assert len({t.text for t in drawn}) > 3
    assert drawn == translator.sample(["bad"] * 20, SamplingConfig(seed=3, temperature=2.0), max_length=4)
    assert drawn != translator.sample(["bad"] * 20, SamplingConfig(seed=4, temperature=2.0), max_length=4)


@pytest.mark.slow
def test_a_line_beyond_the_models_length_is_cut_with_a_warning() -> None:
    translator = copier(LETTERS)
    line = "a bed. " * 1428 + "cab"
    message = "^a line of 9,999 tokens is longer than the model takes (256); it is translated in 40 pieces$"
    with pytest.warns(UserWarning, match=message.replace("(256)", r"\(256\)")) as caught:
        (found,) = translator.translate([line], batch_tokens=600)
    assert [warning.filename for warning in caught] == [__file__]
    assert found.text == line
    assert sum(batch for batch, _ in model_of(translator).batches_seen) == 40
    assert max(batch * length for batch, length in model_of(translator).batches_seen) <= 600


@pytest.mark.parametrize(
    ("options", "pieces"), [({}, 5), ({"max_source_length": 200}, 1), ({"max_source_length": 7}, 5)]
)
def test_how_long_a_piece_may_be(options: dict[str, int], pieces: int) -> None:
    translator = copier(LETTERS, max_positions=101)
    translator.decode = DecodeConfig(beam_size=1, max_source_length=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (found,) = translator.translate(["abcde. " * 5], **options)
    assert found.text.rstrip() == "abcde. abcde. abcde. abcde. abcde."
    assert sum(batch for batch, _ in model_of(translator).batches_seen) == pieces
    assert len(caught) == (pieces > 1)


def test_a_piece_is_never_longer_than_the_models_positions() -> None:
    translator = copier(LETTERS, max_positions=9)
    with pytest.warns(UserWarning, match=r"longer than the model takes \(8\); it is translated in 2 pieces"):
        assert translator.translate(["abcdef gh"])[0].text == "abcdef gh"


def test_the_n_best_of_a_line_in_pieces(translator: Translator) -> None:
    with pytest.warns(UserWarning, match="3 pieces"):
        (found,) = translator.translate(["bad cab bed"], n_best=3, max_source_length=4)
    parts = translator.translate(["bad", " cab", " bed"], n_best=3)
    ways = [
        (sum(t.score / (len(t.tokens) + 1) for t in way), " ".join(t.text.strip() for t in way if t.text.strip()))
        for way in product(*(part.alternatives for part in parts))
    ]
    assert [t.text for t in found.alternatives] == [text for _, text in sorted(ways, reverse=True)[:3]]
    assert found.score == pytest.approx(sum(part.score for part in parts), abs=1e-4)


def test_forced_scores_of_empty_texts(translator: Translator) -> None:
    scores = translator.score(["", "bad", "", " "], ["", "", "cab", "cab"])
    assert all(-50 < score < 0 for score in scores)
    assert scores[0] == pytest.approx(translator.score([""], [""])[0], abs=NETWORK)


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (["a"], [], "1 sources and 0 targets: each source needs one target"),
        (["a", "b"], ["a", "b", "c"], "2 sources and 3 targets"),
        (["a", "b" * 12], ["a", "b"], "source 2 has 12 tokens; the model's limit is 11"),
        (["a"], ["b" * 1200], "target 1 has 1,200 tokens; the model's limit is 11"),
        ("ab", ["a", "b"], "expected a list of lines, not one text of 2 characters"),
        (["a", "b"], "ab", "expected a list of lines, not one text of 2 characters"),
    ],
)
def test_texts_that_cannot_be_scored(sources: list[str], targets: list[str], message: str) -> None:
    translator = Translator(random_model(0, LETTERS.size, max_positions=12), TokenizerPair(LETTERS, LETTERS))
    with pytest.raises(DataError, match=message):
        translator.score(sources, targets)


def test_the_longest_texts_that_can_be_scored() -> None:
    translator = Translator(random_model(0, LETTERS.size, max_positions=12), TokenizerPair(LETTERS, LETTERS))
    assert len(translator.score(["a" * 11], ["b" * 11])) == 1


def test_one_text_is_no_list_of_lines(translator: Translator) -> None:
    with pytest.raises(DataError, match="expected a list of lines, not one text of 3 characters") as caught:
        translator.translate("bad")
    assert caught.value.hint == "pass [text]"


def test_dropout_has_no_place_in_a_translation() -> None:
    model = random_model(1, LETTERS.size, dropout=0.5).train()
    translator = Translator(model, TokenizerPair(LETTERS, LETTERS))
    assert translator.score(["bad"] * 3, ["cab"] * 3) == pytest.approx(
        translator.score(["bad"], ["cab"]) * 3, abs=NETWORK
    )
    assert not model.training


def test_a_folder_loads_as_the_translator_that_was_saved(tmp_path: Path, translator: Translator) -> None:
    save_description(tmp_path, translator.model.config, translator.tokenizers, translator.decode, "# a card\n")
    save_weights(tmp_path, translator.model)
    loaded = Translator.load(tmp_path, device="cpu", engine="torch")
    assert loaded.decode == translator.decode
    assert loaded.translate(LINES) == translator.translate(LINES)
    narrow = Translator.load(str(tmp_path), device=torch.device("cpu"), dtype="bfloat16")
    assert {p.dtype for p in narrow.model.parameters()} == {torch.bfloat16}
    assert len(narrow.translate(LINES)) == len(LINES)


def test_loading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown device `gpu`"):
        Translator.load(tmp_path, device="gpu")
    with pytest.raises(ConfigError, match="unknown dtype `float8`"):
        Translator.load(tmp_path, dtype="float8")
    with pytest.raises(CheckpointError, match="is not a model folder"):
        Translator.load(tmp_path, device="cpu")


def test_of_many_draws_the_one_most_like_all(translator: Translator) -> None:
    draws = [translator.sample(LINES, seed=seed) for seed in range(7, 12)]
    found = translator.sample(LINES, seed=7, mbr=5)
    for place, one in enumerate(found):
        texts = [of_seed[place].text for of_seed in draws]
        assert one == draws[select_by_mbr(texts)][place]
    assert translator.sample(LINES[:4], seed=7, mbr=5)[3].text == found[3].text
    assert found != draws[0]
    for count in (1, 0, 2000):
        with pytest.raises(ConfigError, match=rf"`mbr={count}` must be from 2 to 1,024 samples"):
            translator.sample(LINES, mbr=count)
